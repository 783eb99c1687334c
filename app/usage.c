/* SPDX-License-Identifier: BSD-3-Clause */
/* usage.c - see usage.h. */
#define _GNU_SOURCE /* getopt_long */
#include "usage.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

#define LETTERS_MAX 64u
#define MESSAGE_MAX 1024u

int uro_usage_error(const char *command, const char *format, ...)
{
    char text[MESSAGE_MAX];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    (void)fprintf(stderr, "uroce %s: %s; see `uroce %s --help`\n", command, uro_utf8_mask(text),
                  command);
    return URO_USAGE_STATUS;
}

/* Returns the number of options whose name begins with the name in @word, which is "--NAME...". */
static unsigned count_matches(const char *word, const struct option *options)
{
    const size_t length = strcspn(word + 2, "=");
    unsigned count = 0;

    for (; options->name != NULL; options++)
        count += strncmp(options->name, word + 2, length) == 0;
    return count;
}

/* Reports the option that getopt_long() has just refused. @word is the last word that it read.
 * optopt is 0 for an unknown long option, and otherwise the letter or the value of the option. */
static void report_option(const char *command, const char *word, int result,
                          const struct option *options)
{
    const bool is_long = strncmp(word, "--", 2) == 0;
    const int length = (int)strcspn(word, "=");

    if (optopt == 0)
        (void)uro_usage_error(command, "the option %.*s %s", length, word,
                              count_matches(word, options) > 1
                                  ? "is the beginning of several options"
                                  : "does not exist");
    else if (result == ':' && is_long)
        (void)uro_usage_error(command, "the option %s needs a value", word);
    else if (result == ':')
        (void)uro_usage_error(command, "the option -%c needs a value", optopt);
    else if (is_long && word[length] == '=' && count_matches(word, options) > 0)
        (void)uro_usage_error(command, "the option %.*s has no value", length, word);
    else
        (void)uro_usage_error(command, "the option -%c does not exist", optopt);
}

int uro_usage_option(int argc, char **argv, const char *letters, const struct option *options)
{
    const bool ordered = letters[0] == '+';
    char with_colon[LETTERS_MAX];

    /* The colon makes getopt_long() return ':' if a value is missing. */
    (void)snprintf(with_colon, sizeof with_colon, "%s:%s", ordered ? "+" : "", letters + ordered);
    opterr = 0;
    const int found = getopt_long(argc, argv, with_colon, options, NULL);
    if (found != '?' && found != ':')
        return found;
    report_option(argv[0], argv[optind - 1], found, options);
    return '?';
}

const char *uro_usage_file(int argc, char **argv)
{
    if (argc - optind == 1)
        return argv[optind];
    if (argc == optind)
        (void)uro_usage_error(argv[0], "no FILE is given");
    else
        (void)uro_usage_error(argv[0], "\"%s\": only one FILE can be given", argv[optind + 1]);
    return NULL;
}

bool uro_usage_no_words(int argc, char **argv)
{
    if (optind < argc)
        (void)uro_usage_error(argv[0], "\"%s\": only options can be given", argv[optind]);
    return optind >= argc;
}

bool uro_usage_pid(const char *command, const char *option, const char *text, int *pid)
{
    char *end;

    errno = 0;
    const long number = strtol(text, &end, 10);
    *pid = (int)number;
    if (text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && number >= 1 &&
        number <= INT32_MAX)
        return true;
    (void)uro_usage_error(command,
                          "%s%s is not the number of a process, which is from 1 to 2147483647",
                          option, text);
    return false;
}
