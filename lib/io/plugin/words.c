/* SPDX-License-Identifier: BSD-3-Clause */
/* words.c - see words.h. */
#define _GNU_SOURCE /* strsep */
#include "io/plugin/words.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINK_MAX 512u

bool uro_words_number(const char *text, uint32_t least, uint32_t most, uint32_t grain,
                      uint32_t *out)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    if (!isdigit((unsigned char)text[0]) || *end != '\0' || value < least || value > most ||
        value % grain != 0)
        return false;
    *out = (uint32_t)value;
    return true;
}

bool uro_words_either(const char *text, const char *first, const char *second, bool *out)
{
    *out = strcmp(text, first) == 0;
    return *out || strcmp(text, second) == 0;
}

static const struct uro_word *find(const struct uro_word *known, size_t count, const char *key)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(key, known[i].key) == 0)
            return &known[i];
    return NULL;
}

static void tell_known(const char *driver, const char *key, const struct uro_word *known,
                       size_t count, char error[static URO_PORT_ERROR_MAX])
{
    size_t used = (size_t)snprintf(error, URO_PORT_ERROR_MAX, "link %.20s: \"%.40s\" is not one of",
                                   driver, key);

    for (size_t i = 0; i < count && used < URO_PORT_ERROR_MAX; i++)
        used += (size_t)snprintf(error + used, URO_PORT_ERROR_MAX - used,
                                 "%s %s=", i > 0 ? "," : "", known[i].key);
}

int uro_words_read(const char *driver, const char *link, const struct uro_word *known, size_t count,
                   void *into, char error[static URO_PORT_ERROR_MAX])
{
    char copy[LINK_MAX];
    char *rest = copy, *value;

    if (strlen(link) >= sizeof copy) {
        (void)snprintf(error, URO_PORT_ERROR_MAX, "link %.20s: too many words", driver);
        return -1;
    }
    memcpy(copy, link, strlen(link) + 1);
    (void)strsep(&rest, ",");
    while ((value = strsep(&rest, ",")) != NULL) {
        const char *key = strsep(&value, "=");
        const struct uro_word *word = value != NULL ? find(known, count, key) : NULL;
        if (word == NULL) {
            tell_known(driver, key, known, count, error);
            return -1;
        }
        if (!word->read(value, into)) {
            (void)snprintf(error, URO_PORT_ERROR_MAX, "link %.20s: %.20s=%.80s: must be %s", driver,
                           key, word->secret ? "..." : value, word->right);
            return -1;
        }
    }
    return 0;
}
