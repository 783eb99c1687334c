/* SPDX-License-Identifier: BSD-3-Clause */
/* words.c - see words.h.
 *
 *     net_memifN[,role=client|server][,socket=PATH][,socket-abstract=yes|no][,id=N][,bsize=OCTETS][,rsize=LOG2]
 *     [,mac=ADDRESS][,secret=TEXT][,zero-copy=yes|no]
 */
#define _GNU_SOURCE /* strsep */
#include "io/memif/words.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS_LOG2 10u /* when nobody says */
#define LINE       64u
#define BUFFER_MIN 128u
#define BUFFER_MAX 65536u

static int wrong(const char *word, const char *value, const char *right,
                 char error[static URO_PORT_ERROR_MAX])
{
    (void)snprintf(error, URO_PORT_ERROR_MAX, "link net_memif: %.20s=%.80s: must be %s", word,
                   value, right);
    return -1;
}

static bool number(const char *text, uint32_t least, uint32_t most, uint32_t *out)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    if (!isdigit((unsigned char)text[0]) || *end != '\0' || value < least || value > most)
        return false;
    *out = (uint32_t)value;
    return true;
}

/* One of two words; the first is true. */
static bool either(const char *text, const char *first, const char *second, bool *out)
{
    *out = strcmp(text, first) == 0;
    return *out || strcmp(text, second) == 0;
}

static int read_role(const char *value, struct uro_memif_words *words, char *error)
{
    if (either(value, "server", "client", &words->server) ||
        either(value, "master", "slave", &words->server))
        return 0;
    return wrong("role", value, "server or client", error);
}

static int read_path(const char *value, struct uro_memif_words *words, char *error)
{
    size_t length = strlen(value);

    if (length == 0 || length >= sizeof words->path - 1)
        return wrong("socket", value, "a path of 1 to 106 characters", error);
    memcpy(words->path, value, length + 1);
    return 0;
}

static int read_abstract(const char *value, struct uro_memif_words *words, char *error)
{
    return either(value, "yes", "no", &words->abstract)
               ? 0
               : wrong("socket-abstract", value, "yes or no", error);
}

static int read_id(const char *value, struct uro_memif_words *words, char *error)
{
    return number(value, 0, UINT32_MAX, &words->id) ? 0 : wrong("id", value, "a number", error);
}

static int read_buffer(const char *value, struct uro_memif_words *words, char *error)
{
    return number(value, BUFFER_MIN, BUFFER_MAX, &words->buffer)
               ? 0
               : wrong("bsize", value, "128 to 65536 octets", error);
}

static int read_slots(const char *value, struct uro_memif_words *words, char *error)
{
    return number(value, 5, URO_MEMIF_SLOTS_LOG2, &words->slots_log2)
               ? 0
               : wrong("rsize", value, "5 to 14: the logarithm of the slots of a ring", error);
}

static int read_mac(const char *value, struct uro_memif_words *words, char *error)
{
    if (!uro_mac_parse(value, &words->mac) || (words->mac.octets[0] & 1) != 0)
        return wrong("mac", value, "the address of one station, such as 02:00:00:00:00:01", error);
    words->has_mac = true;
    return 0;
}

static int read_secret(const char *value, struct uro_memif_words *words, char *error)
{
    if (strlen(value) > sizeof words->secret)
        return wrong("secret", "...", "at most 24 characters", error);
    memcpy(words->secret, value, strlen(value));
    return 0;
}

/* Frames are written in their place in any case. */
static int read_zero_copy(const char *value, struct uro_memif_words *words, char *error)
{
    bool zero_copy;

    (void)words;
    return either(value, "yes", "no", &zero_copy) ? 0
                                                  : wrong("zero-copy", value, "yes or no", error);
}

static const struct word {
    const char *key;
    int (*read)(const char *value, struct uro_memif_words *words, char *error);
} known[] = {
    { "role", read_role }, { "socket", read_path },   { "socket-abstract", read_abstract },
    { "id", read_id },     { "bsize", read_buffer },  { "rsize", read_slots },
    { "mac", read_mac },   { "secret", read_secret }, { "zero-copy", read_zero_copy },
};

static int read_word(const char *key, const char *value, struct uro_memif_words *words,
                     char error[static URO_PORT_ERROR_MAX])
{
    for (size_t i = 0; i < URO_ARRAY_LEN(known); i++)
        if (value != NULL && strcmp(key, known[i].key) == 0)
            return known[i].read(value, words, error);
    (void)snprintf(error, URO_PORT_ERROR_MAX,
                   "link net_memif: \"%.40s\" is not one of role=, socket=, socket-abstract=, id=, "
                   "bsize=, rsize=, mac=, secret=, zero-copy=",
                   key);
    return -1;
}

/* A ring without room for the longest frame would be full for ever. */
static int holds_a_frame(const struct uro_memif_words *words, uint32_t frame_max,
                         char error[static URO_PORT_ERROR_MAX])
{
    if (words->server || (words->buffer << words->slots_log2) >= frame_max)
        return 0;
    (void)snprintf(error, URO_PORT_ERROR_MAX,
                   "link net_memif: bsize=%u and rsize=%u: a ring would not hold a frame of %u "
                   "octets: make one of them larger",
                   words->buffer, words->slots_log2, frame_max);
    return -1;
}

int uro_memif_words(const char *link, uint32_t frame_max, struct uro_memif_words *words,
                    char error[static URO_PORT_ERROR_MAX])
{
    char copy[512];
    char *rest = copy, *word;

    *words = (struct uro_memif_words){ .abstract = true,
                                       .buffer = (frame_max + LINE - 1) / LINE * LINE,
                                       .slots_log2 = SLOTS_LOG2,
                                       .path = "/run/memif.sock" };
    if (strlen(link) >= sizeof copy) {
        (void)snprintf(error, URO_PORT_ERROR_MAX, "link net_memif: too many words");
        return -1;
    }
    memcpy(copy, link, strlen(link) + 1);
    (void)strsep(&rest, ",");
    while ((word = strsep(&rest, ",")) != NULL) {
        char *value = word;
        const char *key = strsep(&value, "=");
        if (read_word(key, value, words, error) != 0)
            return -1;
    }
    words->buffer = words->buffer / LINE * LINE;
    return holds_a_frame(words, frame_max, error);
}
