/* SPDX-License-Identifier: BSD-3-Clause */
/* words.c - see words.h.
 *
 *     net_af_packetN,iface=NAME[,gso=yes|no][,qdisc_bypass=0|1][,framesz=OCTETS][,framecnt=N][,blocksz=OCTETS]
 *     [,qpairs=1]
 */
#include "io/packet/words.h"

#include <stdio.h>
#include <string.h>

#include "io/plugin/words.h"

#define DRIVER      "net_af_packet"
#define SLOT_MIN    256u
#define SLOT_MAX    (1u << 20)
#define SLOTS_MAX   65536u
#define BLOCK_MAX   (4u << 20)
#define SLOT_GRAIN  16u /* of the kernel, TPACKET_ALIGNMENT */
#define BLOCK_GRAIN 4096u

static bool read_iface(const char *value, void *into)
{
    struct uro_packet_words *words = into;
    const size_t length = strlen(value);

    if (length == 0 || length >= sizeof words->iface)
        return false;
    memcpy(words->iface, value, length + 1);
    return true;
}

static bool read_slot(const char *value, void *into)
{
    struct uro_packet_words *words = into;

    return uro_words_number(value, SLOT_MIN, SLOT_MAX, SLOT_GRAIN, &words->slot);
}

static bool read_slots(const char *value, void *into)
{
    struct uro_packet_words *words = into;

    return uro_words_number(value, 1, SLOTS_MAX, 1, &words->slots);
}

static bool read_block(const char *value, void *into)
{
    struct uro_packet_words *words = into;

    return uro_words_number(value, BLOCK_GRAIN, BLOCK_MAX, BLOCK_GRAIN, &words->block);
}

static bool read_bypass(const char *value, void *into)
{
    struct uro_packet_words *words = into;

    words->qdisc_decided = true;
    return uro_words_either(value, "1", "0", &words->qdisc_bypass);
}

static bool read_gso(const char *value, void *into)
{
    struct uro_packet_words *words = into;

    return uro_words_either(value, "yes", "no", &words->gso);
}

static bool read_pairs(const char *value, void *into)
{
    (void)into;
    return strcmp(value, "1") == 0;
}

static const struct uro_word known[] = {
    { "iface", "the name of a network interface; see ip link", read_iface, false },
    { "gso", "yes or no", read_gso, false },
    { "qdisc_bypass", "0 or 1", read_bypass, false },
    { "framesz", "256 to 1048576 octets, a multiple of 16", read_slot, false },
    { "framecnt", "1 to 65536 frames", read_slots, false },
    { "blocksz", "4096 to 4194304 octets, a multiple of 4096", read_block, false },
    { "qpairs", "1: a device has one port", read_pairs, false },
};

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
    *words = (struct uro_packet_words){ .gso = true };
    if (uro_words_read(DRIVER, link, known, URO_ARRAY_LEN(known), words, error) != 0)
        return -1;
    return check_together(words, error);
}
