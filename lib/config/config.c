/* SPDX-License-Identifier: BSD-3-Clause */
/* config.c - reads UROCE_DEVICES or the configuration file into a list of entries.
 *
 * libinih splits the lines of the file. It reports neither line numbers nor empty sections. It
 * treats an indented line as a continuation of the previous line. Therefore take_line() reads the
 * lines for libinih: it counts them, detects sections and removes the indentation.
 */
#define _GNU_SOURCE /* strsep, O_NOFOLLOW, fdopen, realpath */
#include "config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/utf8.h"
#include "config/defaults.h"

#define BLANKS  " \t\r\n"
#define PROCESS "*"

URO_PRINTF(3)
static void refuse(struct uro_config *config, const char *source, const char *format, ...)
{
    va_list arguments;

    if (config->count == URO_ARRAY_LEN(config->entries))
        return;
    struct uro_entry *entry = &config->entries[config->count++];
    *entry = (struct uro_entry){ .config = { .cpu = -1 } };
    (void)snprintf(entry->config.name, sizeof entry->config.name, "%s", source);
    va_start(arguments, format);
    (void)vsnprintf(entry->config.problem, sizeof entry->config.problem, format, arguments);
    va_end(arguments);
    (void)uro_utf8_mask(entry->config.problem);
}

static bool is_taken(const struct uro_config *config, const char *name)
{
    for (uint32_t i = 0; i < config->count; i++)
        if (strcmp(config->entries[i].config.name, name) == 0)
            return true;
    return false;
}

static struct uro_entry *begin_process(struct uro_config *config, const char *where)
{
    struct uro_entry *entry = &config->process;

    if (entry->where[0] != '\0')
        uro_entry_refuse(entry, where, "is given twice");
    (void)snprintf(entry->where, sizeof entry->where, "%s", where);
    return entry;
}

static struct uro_entry *begin_entry(struct uro_config *config, const char *where, const char *name)
{
    if (strcmp(name, PROCESS) == 0)
        return begin_process(config, where);
    if (config->count >= URO_CONFIG_DEVICES_MAX) {
        refuse(config, "too many", "%s: more than %u devices; the rest is left out", where,
               URO_CONFIG_DEVICES_MAX);
        return NULL;
    }
    bool taken = is_taken(config, name);
    struct uro_entry *entry = &config->entries[config->count++];
    uro_entry_begin(entry, where, name);
    if (taken)
        uro_entry_refuse(entry, where, "another device has this name; choose a different one");
    return entry;
}

/* Reads one word of UROCE_DEVICES: NAME:LINK[;key=value]... or *;key=value... */
static void read_word(struct uro_config *config, const char *where, char *word)
{
    char *rest = word, *item;

    char *head = strsep(&rest, ";");
    char *colon = strchr(head, ':');
    if (colon != NULL)
        *colon = '\0';
    struct uro_entry *entry = begin_entry(config, where, head);
    if (entry == NULL)
        return;
    if (colon == NULL && !entry->process) {
        uro_entry_refuse(entry, where,
                         "must be NAME:LINK[;key=value]...; the colon behind the name is missing");
        return;
    }
    if (colon != NULL)
        uro_entry_set(entry, where, "link", colon + 1);
    while ((item = strsep(&rest, ";")) != NULL) {
        char *equals = strchr(item, '=');
        if (item[0] == '\0')
            continue;
        if (equals == NULL) {
            uro_entry_refuse(entry, where, "\"%.80s\" must be key=value", item);
            return;
        }
        *equals = '\0';
        uro_entry_set(entry, where, item, equals + 1);
    }
}

static void read_line(struct uro_config *config, const char *devices)
{
    char *copy = strdup(devices);
    char *rest = copy, *word;
    uint32_t number = 0;
    char where[URO_ENTRY_WHERE_MAX];

    if (copy == NULL)
        return;
    while ((word = strsep(&rest, BLANKS)) != NULL) {
        if (word[0] == '\0')
            continue;
        (void)snprintf(where, sizeof where, "UROCE_DEVICES, device %u", ++number);
        read_word(config, where, word);
    }
    free(copy);
}

/* ---- the file -------------------------------------------------------------- */

/* Returns the reason why other users could replace files in @directory, or NULL. */
static const char *directory_problem(const char *directory)
{
    struct stat status;

    if (stat(directory, &status) != 0)
        return strerror(errno);
    if (status.st_uid != 0 && status.st_uid != geteuid())
        return "belongs to another user; it must be yours or root's";
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0 && (status.st_mode & S_ISVTX) == 0)
        return "can be written by others; chmod go-w it";
    return NULL;
}

const char *uro_config_check_path(const char *path, char *text, size_t size)
{
    char directory[PATH_MAX], whole[PATH_MAX];
    const char *slash = strrchr(path, '/');
    int length = slash == NULL ? 1 : slash == path ? 1 : (int)(slash - path);

    (void)snprintf(directory, sizeof directory, "%.*s", length, slash == NULL ? "." : path);
    if (realpath(directory, whole) == NULL)
        return strerror(errno);
    for (;;) {
        const char *wrong = directory_problem(whole[0] != '\0' ? whole : "/");
        if (wrong != NULL) {
            (void)snprintf(text, size, "its directory %.100s %s", whole, wrong);
            return text;
        }
        char *last = strrchr(whole, '/');
        if (last == NULL || whole[1] == '\0')
            return NULL;
        *last = '\0';
    }
}

#define SOURCE "UROCE_CONFIG"

struct reader {
    struct uro_config *config;
    FILE *file;
    const char *path;
    unsigned line;
    bool no_section_reported; /* lines before the first section were reported */
    struct uro_entry *entry;  /* entry of the current section, or NULL */
};

/* Writes FILE:LINE to @where, without the beginning of a long path. */
static void format_position(const struct reader *reader, char where[static URO_ENTRY_WHERE_MAX])
{
    const size_t most = URO_ENTRY_WHERE_MAX - 16;
    size_t length = strlen(reader->path);
    const char *end = reader->path + (length > most ? length - most : 0);

    (void)snprintf(where, URO_ENTRY_WHERE_MAX, "%s:%u", end, reader->line);
}

static bool is_blank_or_comment(const char *line)
{
    return line[0] == '\0' || line[0] == ';' || line[0] == '#';
}

static void begin_section(struct reader *reader, const char *where, const char *line)
{
    char name[64];
    size_t length = strcspn(line + 1, "]");

    (void)snprintf(name, sizeof name, "%.*s", (int)(length < 60 ? length : 60), line + 1);
    reader->entry = begin_entry(reader->config, where, uro_entry_trim(name));
    reader->no_section_reported = reader->entry == NULL; /* "too many" was reported */
    if (reader->entry != NULL && line[1 + length] != ']')
        uro_entry_refuse(reader->entry, where, "the section name \"%.40s\" has no closing ]", line);
}

static void check_line(struct reader *reader, const char *line)
{
    char where[URO_ENTRY_WHERE_MAX];

    format_position(reader, where);
    if (is_blank_or_comment(line))
        return;
    if (line[0] == '[') {
        begin_section(reader, where, line);
    } else if (reader->entry == NULL) {
        if (!reader->no_section_reported)
            refuse(reader->config, SOURCE, "%s: a line [NAME] must come before \"%.40s\"", where,
                   line);
        reader->no_section_reported = true;
    } else if (strchr(line, '=') == NULL) {
        uro_entry_refuse(reader->entry, where, "\"%.40s\" must be key = value", line);
    }
}

/* Skips the rest of a line that does not fit in the buffer of libinih. */
static void skip_line(struct reader *reader, const char *begin, int size)
{
    char where[URO_ENTRY_WHERE_MAX];
    int c;

    while ((c = fgetc(reader->file)) != EOF && c != '\n')
        ;
    format_position(reader, where);
    if (!is_blank_or_comment(begin) && reader->entry != NULL)
        uro_entry_refuse(reader->entry, where, "the line has more than %d characters", size - 2);
}

/* Replaces fgets() in libinih. */
static char *take_line(char *buffer, int size, void *stream)
{
    struct reader *reader = stream;

    if (fgets(buffer, size, reader->file) == NULL)
        return NULL;
    reader->line++;
    bool whole = strchr(buffer, '\n') != NULL || feof(reader->file) != 0;
    char *text = uro_entry_trim(buffer);
    memmove(buffer, text, strlen(text) + 1);
    if (whole) {
        check_line(reader, buffer);
    } else {
        skip_line(reader, buffer, size);
        buffer[0] = '\0';
    }
    return buffer;
}

static int on_key(void *user, const char *section, const char *key, const char *value)
{
    struct reader *reader = user;
    char where[URO_ENTRY_WHERE_MAX];

    (void)section; /* begin_section() has handled it */
    format_position(reader, where);
    if (reader->entry != NULL)
        uro_entry_set(reader->entry, where, key, value);
    return 1;
}

/* Returns the reason why the open file is not accepted, or NULL. */
static const char *file_problem(int fd)
{
    struct stat status;

    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))
        return "is not a regular file";
    if (status.st_uid != 0 && status.st_uid != geteuid())
        return "belongs to another user; it must be yours or root's";
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return "can be written by others; chmod go-w it";
    return NULL;
}

static void read_file(struct uro_config *config, const char *path)
{
    struct reader reader = { .config = config, .path = path };
    char buffer[192];

    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    const char *wrong = NULL;
    if (fd < 0)
        wrong = errno == ELOOP ? "is a symbolic link; name the file itself" : strerror(errno);
    else
        wrong = file_problem(fd);
    if (wrong == NULL)
        wrong = uro_config_check_path(path, buffer, sizeof buffer);
    if (wrong == NULL && (reader.file = fdopen(fd, "r")) == NULL)
        wrong = strerror(errno);
    if (wrong != NULL) {
        refuse(config, SOURCE, SOURCE "=%.150s: %s", path, wrong);
        if (fd >= 0)
            (void)close(fd);
        return;
    }
    (void)ini_parse_stream(take_line, &reader, on_key, &reader);
    (void)fclose(reader.file);
}

/* ---- reading --------------------------------------------------------------- */

/* Checks values that depend on other keys, and fills in the defaults. */
static void finish_entry(struct uro_entry *entry)
{
    uro_entry_finish(entry);
    if (entry->config.problem[0] != '\0')
        return;
    uro_defaults_fill(entry); /* may find that an interface or an address is missing */
    entry->config.problem_may_end = entry->config.problem[0] != '\0';
}

void uro_config_read_one(struct uro_config *config, const char *where, char *text)
{
    config->count = 0;
    uro_entry_begin_process(&config->process);
    if (text[strcspn(text, BLANKS)] != '\0')
        refuse(config, where, "%s: a description is one word; remove the space", where);
    else
        read_word(config, where, text);
    if (config->count == 0)
        refuse(config, where, "%s: \"*\" stands for all devices; name one device", where);
    finish_entry(&config->entries[0]);
}

void uro_config_read(struct uro_config *config, const char *devices, const char *path)
{
    config->count = 0;
    uro_entry_begin_process(&config->process);
    if (devices != NULL && devices[strspn(devices, BLANKS)] != '\0')
        read_line(config, devices);
    else if (path != NULL && path[0] != '\0')
        read_file(config, path);
    if (config->process.config.problem[0] != '\0') {
        config->entries[0] = config->process;
        config->count = 1;
    }

    for (uint32_t i = 0; i < config->count; i++)
        finish_entry(&config->entries[i]);
}
