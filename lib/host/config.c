/* SPDX-License-Identifier: BSD-3-Clause */
/* config.c - the list of entries, and UROCE_DEVICES; the file is read by config_file.c. */
#define _GNU_SOURCE /* strsep */
#include "host/config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/config_file.h"
#include "host/defaults.h"

#define BLANKS  " \t\r\n"
#define PROCESS "*"

void uro_config_refuse(struct uro_config *config, const char *source, const char *format, ...)
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

struct uro_entry *uro_config_begin(struct uro_config *config, const char *where, const char *name)
{
    if (strcmp(name, PROCESS) == 0)
        return begin_process(config, where);
    if (config->count >= URO_CONFIG_DEVICES_MAX) {
        uro_config_refuse(config, "too many", "%s: more than %u devices; the rest is left out",
                          where, URO_CONFIG_DEVICES_MAX);
        return NULL;
    }
    bool taken = is_taken(config, name);
    struct uro_entry *entry = &config->entries[config->count++];
    uro_entry_begin(entry, where, name);
    if (taken)
        uro_entry_refuse(entry, where, "another device has this name");
    return entry;
}

/* One word of UROCE_DEVICES: NAME:LINK[;key=value]... or *;key=value... */
static void read_word(struct uro_config *config, const char *where, char *word)
{
    char *rest = word, *item;

    char *head = strsep(&rest, ";");
    char *colon = strchr(head, ':');
    if (colon != NULL)
        *colon = '\0';
    struct uro_entry *entry = uro_config_begin(config, where, head);
    if (entry == NULL)
        return;
    if (colon == NULL && !entry->process) {
        uro_entry_refuse(entry, where, "must be NAME:LINK[;key=value]..., there is no :");
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

/* Checks values that depend on other keys, and fills in the defaults. */
static void finish_entry(struct uro_entry *entry)
{
    uro_entry_finish(entry);
    if (entry->config.problem[0] == '\0')
        uro_defaults_fill(entry);
}

void uro_config_read_one(struct uro_config *config, const char *where, char *text)
{
    config->count = 0;
    uro_entry_begin_process(&config->process);
    if (text[strcspn(text, BLANKS)] != '\0')
        uro_config_refuse(config, where, "%s: a device is one word, without blanks", where);
    else
        read_word(config, where, text);
    if (config->count == 0)
        uro_config_refuse(config, where, "%s: \"*\" is no device", where);
    finish_entry(&config->entries[0]);
}

void uro_config_read(struct uro_config *config, const char *devices, const char *path)
{
    config->count = 0;
    uro_entry_begin_process(&config->process);
    if (devices != NULL && devices[strspn(devices, BLANKS)] != '\0')
        read_line(config, devices);
    else if (path != NULL && path[0] != '\0')
        uro_config_file_read(config, path);
    if (config->process.config.problem[0] != '\0') {
        config->entries[0] = config->process;
        config->count = 1;
    }

    for (uint32_t i = 0; i < config->count; i++)
        finish_entry(&config->entries[i]);
}
