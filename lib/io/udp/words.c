/* SPDX-License-Identifier: BSD-3-Clause */
/* words.c - see words.h. */
#define _GNU_SOURCE /* strsep */
#include "io/udp/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUSY_POLL_MOST 10000u

enum { GSO, GRO, IDENT, HUB };

struct word {
    const char *key;
    const char *values[3]; /* the first is the default, the last may be missing */
};

static const struct word known[] = {
    [GSO] = { "gso", { "yes", "no" } },
    [GRO] = { "gro", { "yes", "no" } },
    [IDENT] = { "ident",
                { [URO_IDENT_ANY] = "any",
                  [URO_IDENT_PLAIN] = "plain",
                  [URO_IDENT_FULL] = "full" } },
    [HUB] = { "hub", { "auto", "no" } },
};

static void explain_values(const struct word *word, const char *value,
                           char error[static URO_PORT_ERROR_MAX])
{
    const char *const *all = word->values;

    (void)snprintf(error, URO_PORT_ERROR_MAX, "link udp: %s=%.40s: must be %s%s%s or %s", word->key,
                   value, all[0], all[2] != NULL ? ", " : "", all[2] != NULL ? all[1] : "",
                   all[2] != NULL ? all[2] : all[1]);
}

/* Which of its values a known word has, in @chosen. */
static int read_word(const char *key, const char *value, uint32_t *chosen,
                     char error[static URO_PORT_ERROR_MAX])
{
    for (size_t i = 0; i < URO_ARRAY_LEN(known); i++) {
        if (strcmp(key, known[i].key) != 0)
            continue;
        for (uint32_t k = 0; k < 3 && known[i].values[k] != NULL; k++)
            if (strcmp(value, known[i].values[k]) == 0) {
                chosen[i] = k;
                return 0;
            }
        explain_values(&known[i], value, error);
        return -1;
    }
    (void)snprintf(
        error, URO_PORT_ERROR_MAX,
        "link udp: unknown word \"%.40s\"; known: ip= iface= gso= gro= ident= hub= busy-poll=",
        key);
    return -1;
}

static bool read_busy_poll(const char *value, uint32_t *us, char error[static URO_PORT_ERROR_MAX])
{
    char *end;
    unsigned long number = strtoul(value, &end, 10);

    if (value[0] >= '0' && value[0] <= '9' && *end == '\0' && number <= BUSY_POLL_MOST) {
        *us = (uint32_t)number;
        return true;
    }
    (void)snprintf(error, URO_PORT_ERROR_MAX,
                   "link udp: busy-poll=%.40s: must be 0 to %u microseconds", value,
                   BUSY_POLL_MOST);
    return false;
}

int uro_udp_words(const char *link, struct uro_udp_words *words,
                  char error[static URO_PORT_ERROR_MAX])
{
    uint32_t chosen[URO_ARRAY_LEN(known)] = { 0 };
    char copy[256];
    char *rest = copy, *word;

    (void)snprintf(copy, sizeof copy, "%s", link);
    (void)strsep(&rest, ",");
    while ((word = strsep(&rest, ",")) != NULL) {
        char *value = word;
        const char *key = strsep(&value, "=");
        if (strcmp(key, "ip") == 0 || strcmp(key, "iface") == 0) /* host/defaults.c reads them */
            continue;
        if (strcmp(key, "busy-poll") == 0) {
            if (!read_busy_poll(value != NULL ? value : "", &words->sock.busy_poll, error))
                return -1;
            continue;
        }
        if (read_word(key, value != NULL ? value : "", chosen, error) != 0)
            return -1;
    }
    words->sock.segments = chosen[GSO] == 0;
    words->sock.coalesces = chosen[GRO] == 0;
    words->sock.idents = (enum uro_ident_rule)chosen[IDENT];
    words->alone = chosen[HUB] != 0;
    return 0;
}
