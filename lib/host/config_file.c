/* SPDX-License-Identifier: BSD-3-Clause */
/* config_file.c - reads an ini file into entries.
 *
 * libinih splits the lines. It tells neither line numbers nor empty sections, and takes an indented
 * line for the continuation of the one before; so it gets its lines from take_line(), which counts
 * them, notices sections and removes the indentation.
 */
#define _GNU_SOURCE /* O_NOFOLLOW, fdopen */
#include "host/config_file.h"

#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/parse.h"
#include "host/trust.h"

#define SOURCE "UROCE_CONFIG"

struct reader {
    struct uro_config *config;
    FILE *file;
    const char *path;
    unsigned line;
    bool strayed;            /* lines outside of sections were reported */
    struct uro_entry *entry; /* of the present section, or NULL */
};

/* FILE:LINE; of a long path the end. */
static void place(const struct reader *reader, char where[static URO_ENTRY_WHERE_MAX])
{
    const size_t most = URO_ENTRY_WHERE_MAX - 16;
    size_t length = strlen(reader->path);
    const char *end = reader->path + (length > most ? length - most : 0);

    (void)snprintf(where, URO_ENTRY_WHERE_MAX, "%s:%u", end, reader->line);
}

static bool is_noise(const char *line)
{
    return line[0] == '\0' || line[0] == ';' || line[0] == '#';
}

static void begin_section(struct reader *reader, const char *where, const char *line)
{
    char name[64];
    size_t length = strcspn(line + 1, "]");

    (void)snprintf(name, sizeof name, "%.*s", (int)(length < 60 ? length : 60), line + 1);
    reader->entry = uro_config_begin(reader->config, where, uro_parse_trim(name));
    reader->strayed = reader->entry == NULL; /* too many: has been said */
    if (reader->entry != NULL && line[1 + length] != ']')
        uro_entry_refuse(reader->entry, where, "\"%.40s\" lacks its ]", line);
}

static void look_at(struct reader *reader, const char *line)
{
    char where[URO_ENTRY_WHERE_MAX];

    place(reader, where);
    if (is_noise(line))
        return;
    if (line[0] == '[') {
        begin_section(reader, where, line);
    } else if (reader->entry == NULL) {
        if (!reader->strayed)
            uro_config_refuse(reader->config, SOURCE,
                              "%s: a line [NAME] must come before \"%.40s\"", where, line);
        reader->strayed = true;
    } else if (strchr(line, '=') == NULL) {
        uro_entry_refuse(reader->entry, where, "\"%.40s\" must be key = value", line);
    }
}

/* The rest of a line that libinih has no room for. */
static void skip_line(struct reader *reader, const char *begin, int size)
{
    char where[URO_ENTRY_WHERE_MAX];
    int c;

    while ((c = fgetc(reader->file)) != EOF && c != '\n')
        ;
    place(reader, where);
    if (!is_noise(begin) && reader->entry != NULL)
        uro_entry_refuse(reader->entry, where, "the line has more than %d characters", size - 2);
}

/* Takes the place of fgets() in libinih. */
static char *take_line(char *buffer, int size, void *stream)
{
    struct reader *reader = stream;

    if (fgets(buffer, size, reader->file) == NULL)
        return NULL;
    reader->line++;
    bool whole = strchr(buffer, '\n') != NULL || feof(reader->file) != 0;
    char *text = uro_parse_trim(buffer);
    memmove(buffer, text, strlen(text) + 1);
    if (whole) {
        look_at(reader, buffer);
    } else {
        skip_line(reader, buffer, size);
        buffer[0] = '\0';
    }
    return buffer;
}

static int on_pair(void *user, const char *section, const char *key, const char *value)
{
    struct reader *reader = user;
    char where[URO_ENTRY_WHERE_MAX];

    (void)section; /* begin_section() knows it */
    place(reader, where);
    if (reader->entry != NULL)
        uro_entry_set(reader->entry, where, key, value);
    return 1;
}

static const char *distrust(int fd)
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

void uro_config_file_read(struct uro_config *config, const char *path)
{
    struct reader reader = { .config = config, .path = path };
    char room[192];

    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    const char *wrong = NULL;
    if (fd < 0)
        wrong = errno == ELOOP ? "is a symbolic link; name the file itself" : strerror(errno);
    else
        wrong = distrust(fd);
    if (wrong == NULL)
        wrong = uro_trust_path(path, room, sizeof room);
    if (wrong == NULL && (reader.file = fdopen(fd, "r")) == NULL)
        wrong = strerror(errno);
    if (wrong != NULL) {
        uro_config_refuse(config, SOURCE, SOURCE "=%.150s: %s", path, wrong);
        if (fd >= 0)
            (void)close(fd);
        return;
    }
    (void)ini_parse_stream(take_line, &reader, on_pair, &reader);
    (void)fclose(reader.file);
}
