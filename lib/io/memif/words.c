/* SPDX-License-Identifier: BSD-3-Clause */
/* words.c - see words.h.
 *
 *     net_memifN[,role=client|server][,socket=PATH][,socket-abstract=yes|no][,id=N][,bsize=OCTETS][,rsize=LOG2]
 *     [,mac=ADDRESS][,secret=TEXT][,user=any|NUMBER][,zero-copy=yes|no]
 */
#include "io/memif/words.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/plugin/words.h"

#define DRIVER     "net_memif"
#define SLOTS_LOG2 10u /* when nobody says */
#define LINE       64u
#define BUFFER_MIN 128u
#define BUFFER_MAX 65536u

static bool read_role(const char *value, void *into)
{
    struct uro_memif_words *words = into;

    return uro_words_either(value, "server", "client", &words->server) ||
           uro_words_either(value, "master", "slave", &words->server);
}

static bool read_path(const char *value, void *into)
{
    struct uro_memif_words *words = into;
    size_t length = strlen(value);

    if (length == 0 || length >= sizeof words->path - 1)
        return false;
    memcpy(words->path, value, length + 1);
    return true;
}

static bool read_abstract(const char *value, void *into)
{
    struct uro_memif_words *words = into;

    return uro_words_either(value, "yes", "no", &words->abstract);
}

static bool read_id(const char *value, void *into)
{
    struct uro_memif_words *words = into;

    return uro_words_number(value, 0, UINT32_MAX, 1, &words->id);
}

static bool read_buffer(const char *value, void *into)
{
    struct uro_memif_words *words = into;

    return uro_words_number(value, BUFFER_MIN, BUFFER_MAX, 1, &words->buffer);
}

static bool read_user(const char *value, void *into)
{
    struct uro_memif_words *words = into;

    words->has_user = true;
    words->user = URO_MEMIF_ANY_USER;
    return strcmp(value, "any") == 0 ||
           uro_words_number(value, 0, URO_MEMIF_ANY_USER - 1, 1, &words->user);
}

static bool read_slots(const char *value, void *into)
{
    struct uro_memif_words *words = into;

    return uro_words_number(value, 5, URO_MEMIF_SLOTS_LOG2, 1, &words->slots_log2);
}

static bool read_mac(const char *value, void *into)
{
    struct uro_memif_words *words = into;

    words->has_mac = uro_mac_parse(value, &words->mac) && (words->mac.octets[0] & 1) == 0;
    return words->has_mac;
}

static bool read_secret(const char *value, void *into)
{
    struct uro_memif_words *words = into;

    if (strlen(value) > sizeof words->secret)
        return false;
    memcpy(words->secret, value, strlen(value));
    return true;
}

/* Frames are written in their place in any case. */
static bool read_zero_copy(const char *value, void *into)
{
    bool zero_copy;

    (void)into;
    return uro_words_either(value, "yes", "no", &zero_copy);
}

static const struct uro_word known[] = {
    { "role", "server or client", read_role, false },
    { "socket", "a path of 1 to 106 characters", read_path, false },
    { "socket-abstract", "yes or no", read_abstract, false },
    { "id", "a number", read_id, false },
    { "bsize", "128 to 65536 octets", read_buffer, false },
    { "rsize", "5 to 14: the logarithm of the slots of a ring", read_slots, false },
    { "mac", "the address of one station, such as 02:00:00:00:00:01", read_mac, false },
    { "secret", "at most 24 characters", read_secret, true },
    { "user", "any, or the number of the user whose process is at the other side", read_user,
      false },
    { "zero-copy", "yes or no", read_zero_copy, false },
};

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
    *words = (struct uro_memif_words){ .abstract = true,
                                       .buffer = (frame_max + LINE - 1) / LINE * LINE,
                                       .slots_log2 = SLOTS_LOG2,
                                       .path = "/run/memif.sock" };
    if (uro_words_read(DRIVER, link, known, URO_ARRAY_LEN(known), words, error) != 0)
        return -1;
    words->buffer = words->buffer / LINE * LINE;
    /* Who may connect to a name in the file system is said by its permissions. */
    if (!words->has_user)
        words->user = words->server && !words->abstract ? URO_MEMIF_ANY_USER : geteuid();
    return holds_a_frame(words, frame_max, error);
}
