/* SPDX-License-Identifier: BSD-3-Clause */
/* config.c - reads the sources of config.h into entries. */
#define _GNU_SOURCE /* strsep, O_NOFOLLOW */
#include "host/config.h"

#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/defaults.h"
#include "host/parse.h"

static struct uro_entry *begin(struct uro_config *config, const char *where, const char *name)
{
    for (uint32_t i = 0; i < config->count; i++) {
        if (strcmp(config->entries[i].config.name, name) == 0) {
            uro_entry_refuse(&config->entries[i], where, "the name is given twice");
            return NULL;
        }
    }
    if (config->count == URO_CONFIG_DEVICES_MAX) {
        (void)snprintf(config->problem, sizeof config->problem, "%s: more than %u devices", where,
                       URO_CONFIG_DEVICES_MAX);
        return NULL;
    }
    struct uro_entry *entry = &config->entries[config->count++];
    uro_entry_begin(entry, where, name);
    return entry;
}

static void finish(struct uro_config *config)
{
    for (uint32_t i = 0; i < config->count; i++) {
        uro_entry_finish(&config->entries[i]);
        if (config->entries[i].config.problem[0] == '\0')
            uro_defaults_fill(&config->entries[i]);
    }
}

/* ---- one line ----------------------------------------------------------- */

static void read_device(struct uro_config *config, uint32_t number, char *text)
{
    char where[64];
    char *settings = text;
    char *colon = strchr(text, ':');
    char name[128];

    (void)snprintf(where, sizeof where, "UROCE_DEVICES, device %u", number);
    size_t length = colon != NULL ? (size_t)(colon - text) : strlen(text);
    (void)snprintf(name, sizeof name, "%.*s", (int)length, text);
    struct uro_entry *entry = begin(config, where, name);
    if (entry == NULL)
        return;
    if (colon == NULL) {
        uro_entry_refuse(entry, where, "must be NAME:LINK[;key=value]..., there is no :");
        return;
    }
    settings = colon + 1;
    char *link = strsep(&settings, ";");
    uro_entry_set(entry, where, "link", link);
    char *item;
    while ((item = strsep(&settings, ";")) != NULL) {
        char *value = strchr(item, '=');
        if (*item == '\0')
            continue;
        if (value == NULL) {
            uro_entry_refuse(entry, where, "\"%.80s\" must be key=value", item);
            return;
        }
        *value++ = '\0';
        uro_entry_set(entry, where, item, value);
    }
}

static void read_line(struct uro_config *config, const char *devices)
{
    char *copy = strdup(devices);
    char *rest = copy, *text;
    uint32_t number = 0;

    if (copy == NULL)
        return;
    while ((text = strsep(&rest, " \t\n")) != NULL)
        if (*text != '\0')
            read_device(config, ++number, text);
    free(copy);
}

/* ---- a file ------------------------------------------------------------- */

struct reading {
    struct uro_config *config;
    const char *path;
    struct uro_entry *entry; /* of the present section */
    char section[128];
};

#if INI_HANDLER_LINENO
#define LINE_PARAMETER , int line
#else
#define LINE_PARAMETER
#endif

static int handle(void *user, const char *section, const char *name,
                  const char *value LINE_PARAMETER)
{
    struct reading *reading = user;
    char where[URO_ENTRY_WHERE_MAX];

#if INI_HANDLER_LINENO
    (void)snprintf(where, sizeof where, "%s:%d", reading->path, line);
#else
    (void)snprintf(where, sizeof where, "%s", reading->path);
#endif
    if (reading->entry == NULL || strcmp(reading->section, section) != 0) {
        (void)snprintf(reading->section, sizeof reading->section, "%s", section);
        reading->entry = begin(reading->config, where, section);
    }
    if (reading->entry != NULL && name != NULL)
        uro_entry_set(reading->entry, where, name, value);
    return 1;
}

/* Only a file that nobody else can write decides where our packets go. */
static FILE *open_trusted(const char *path, char *problem, size_t size)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0) {
        (void)snprintf(problem, size, "UROCE_CONFIG=%s: %s", path,
                       errno == ELOOP ? "is a symbolic link; name the file itself"
                                      : strerror(errno));
        return NULL;
    }
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        (void)snprintf(problem, size, "UROCE_CONFIG=%s: is not a regular file", path);
    } else if (info.st_uid != 0 && info.st_uid != geteuid()) {
        (void)snprintf(problem, size,
                       "UROCE_CONFIG=%s: belongs to another user; it must be yours or root's",
                       path);
    } else if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        (void)snprintf(problem, size, "UROCE_CONFIG=%s: others can write it; chmod go-w it", path);
    } else {
        FILE *file = fdopen(fd, "r");
        if (file != NULL)
            return file;
        (void)snprintf(problem, size, "UROCE_CONFIG=%s: %s", path, strerror(errno));
    }
    (void)close(fd);
    return NULL;
}

static void read_file(struct uro_config *config, const char *path)
{
    struct reading reading = { .config = config, .path = path };
    FILE *file = open_trusted(path, config->problem, sizeof config->problem);

    if (file == NULL)
        return;
    int line = ini_parse_file(file, handle, &reading);
    if (line > 0)
        (void)snprintf(config->problem, sizeof config->problem,
                       "%s:%d: must be [device], key=value or a comment", path, line);
    (void)fclose(file);
}

void uro_config_read(struct uro_config *config, const char *devices, const char *path)
{
    config->count = 0;
    config->problem[0] = '\0';
    if (devices != NULL)
        read_line(config, devices);
    else if (path != NULL)
        read_file(config, path);
    finish(config);
}
