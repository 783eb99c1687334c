/* SPDX-License-Identifier: BSD-3-Clause */
/* words.c - see words.h.
 *
 *     net_af_packetN,iface=NAME[,gso=yes|no][,qdisc_bypass=0|1][,framesz=OCTETS][,framecnt=N][,blocksz=OCTETS]
 *     [,qpairs=1]
 */
#define _GNU_SOURCE /* strsep */
#include "io/packet/words.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOT_MIN    256u
#define SLOT_MAX    (1u << 20)
#define SLOTS_MAX   65536u
#define BLOCK_MAX   (4u << 20)
#define SLOT_GRAIN  16u /* of the kernel, TPACKET_ALIGNMENT */
#define BLOCK_GRAIN 4096u

static int wrong(const char *word, const char *value, const char *right,
                 char error[static URO_PORT_ERROR_MAX])
{
    (void)snprintf(error, URO_PORT_ERROR_MAX, "link net_af_packet: %.20s=%.40s: must be %s", word,
                   value, right);
    return -1;
}

static bool number(const char *text, uint32_t least, uint32_t most, uint32_t grain, uint32_t *out)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    if (!isdigit((unsigned char)text[0]) || *end != '\0' || value < least || value > most ||
        value % grain != 0)
        return false;
    *out = (uint32_t)value;
    return true;
}

static int read_iface(const char *value, struct uro_packet_words *words, char *error)
{
    const size_t length = strlen(value);

    if (length == 0 || length >= sizeof words->iface)
        return wrong("iface", value, "the name of a network interface; see ip link", error);
    memcpy(words->iface, value, length + 1);
    return 0;
}

static int read_slot(const char *value, struct uro_packet_words *words, char *error)
{
    return number(value, SLOT_MIN, SLOT_MAX, SLOT_GRAIN, &words->slot)
               ? 0
               : wrong("framesz", value, "256 to 1048576 octets, a multiple of 16", error);
}

static int read_slots(const char *value, struct uro_packet_words *words, char *error)
{
    return number(value, 1, SLOTS_MAX, 1, &words->slots)
               ? 0
               : wrong("framecnt", value, "1 to 65536 frames", error);
}

static int read_block(const char *value, struct uro_packet_words *words, char *error)
{
    return number(value, BLOCK_GRAIN, BLOCK_MAX, BLOCK_GRAIN, &words->block)
               ? 0
               : wrong("blocksz", value, "4096 to 4194304 octets, a multiple of 4096", error);
}

static int read_bypass(const char *value, struct uro_packet_words *words, char *error)
{
    words->qdisc_decided = true;
    words->qdisc_bypass = strcmp(value, "1") == 0;
    return words->qdisc_bypass || strcmp(value, "0") == 0
               ? 0
               : wrong("qdisc_bypass", value, "0 or 1", error);
}

static int read_gso(const char *value, struct uro_packet_words *words, char *error)
{
    words->gso = strcmp(value, "yes") == 0;
    return words->gso || strcmp(value, "no") == 0 ? 0 : wrong("gso", value, "yes or no", error);
}

static int read_pairs(const char *value, struct uro_packet_words *words, char *error)
{
    (void)words;
    return strcmp(value, "1") == 0 ? 0 : wrong("qpairs", value, "1: a device has one port", error);
}

static const struct word {
    const char *key;
    int (*read)(const char *value, struct uro_packet_words *words, char *error);
} known[] = {
    { "iface", read_iface },    { "gso", read_gso },       { "framesz", read_slot },
    { "framecnt", read_slots }, { "blocksz", read_block }, { "qdisc_bypass", read_bypass },
    { "qpairs", read_pairs },
};

static int read_word(const char *key, const char *value, struct uro_packet_words *words,
                     char error[static URO_PORT_ERROR_MAX])
{
    for (size_t i = 0; i < URO_ARRAY_LEN(known); i++)
        if (value != NULL && strcmp(key, known[i].key) == 0)
            return known[i].read(value, words, error);
    (void)snprintf(error, URO_PORT_ERROR_MAX,
                   "link net_af_packet: \"%.40s\" is not one of iface=, gso=, qdisc_bypass=, "
                   "framesz=, framecnt=, blocksz=, qpairs=",
                   key);
    return -1;
}

static int check_together(const struct uro_packet_words *words,
                          char error[static URO_PORT_ERROR_MAX])
{
    if (words->iface[0] == '\0') {
        (void)snprintf(error, URO_PORT_ERROR_MAX,
                       "link net_af_packet names no interface: write net_af_packet0,iface=NAME");
        return -1;
    }
    if (words->block != 0 && words->slot > words->block) {
        (void)snprintf(error, URO_PORT_ERROR_MAX,
                       "link net_af_packet: framesz=%u does not fit into blocksz=%u", words->slot,
                       words->block);
        return -1;
    }
    return 0;
}

int uro_packet_words(const char *link, struct uro_packet_words *words,
                     char error[static URO_PORT_ERROR_MAX])
{
    char copy[512];
    char *rest = copy, *word;

    *words = (struct uro_packet_words){ .gso = true };
    if (strlen(link) >= sizeof copy) {
        (void)snprintf(error, URO_PORT_ERROR_MAX, "link net_af_packet: too many words");
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
    return check_together(words, error);
}
