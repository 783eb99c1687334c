/* SPDX-License-Identifier: BSD-3-Clause */
/* usage.h - reads the command line, and reports what is wrong with it, for all subcommands. */
#pragma once

#include <getopt.h>
#include <stdbool.h>

#include "base/defs.h"

#define URO_USAGE_STATUS 2 /* exit status for a wrong command line */

/* Prints "uroce COMMAND: ...; see `uroce COMMAND --help`". Returns URO_USAGE_STATUS. */
URO_PRINTF(2)
int uro_usage_error(const char *command, const char *format, ...);

/* Like getopt_long(), but names the command (argv[0]), says what is wrong with an option, and shows
 * where the help is. Returns '?' after such a message. */
int uro_usage_option(int argc, char **argv, const char *letters, const struct option *options);

/* Returns the only word after the options, the name of a file, or NULL after a message. */
const char *uro_usage_file(int argc, char **argv);

/* Returns whether no word is left after the options. Otherwise prints a message. */
bool uro_usage_no_words(int argc, char **argv);

/* Reads the number of a process. @option: text before the number in the message, such as "--pid ",
 * or "". Returns false after a message. */
bool uro_usage_pid(const char *command, const char *option, const char *text, int *pid);
