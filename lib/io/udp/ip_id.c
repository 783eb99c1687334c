/* SPDX-License-Identifier: BSD-3-Clause */
/* ip_id.c - see ip_id.h. Moves CRC registers over bytes of zeros, forwards and backwards. */
#include "io/udp/ip_id.h"

#include <string.h>

#include "base/crc32.h"

#define POWERS 17u /* distances below 2^17 bytes */
/* Number of packets with uroce's pattern after which a sender must keep to the pattern. The number
 * is larger than a batch, because a sender that counts its packets follows the pattern for a batch
 * whenever its counter wraps. */
#define PLAIN_ENOUGH   (4 * URO_IP_ID_BATCH)
#define FOREIGN_ENOUGH 64u   /* packets rejected before a sender counts as changed */
#define FLAG_DF        0x40u /* bit in the byte after the identification */

/* A linear map of CRC registers: the image of each bit. */
struct map {
    uint32_t of[32];
};

static uint32_t apply(const struct map *map, uint32_t reg)
{
    uint32_t out = 0;

    for (unsigned bit = 0; bit < 32; bit++)
        out ^= map->of[bit] & -(reg >> bit & 1u);
    return out;
}

/* Returns maps: back[k] undoes feeding 2^k bytes of zeros. */
static const struct map *backwards(void)
{
    static struct map back[POWERS];
    static const uint8_t zero;
    uint32_t table[256];
    uint8_t index_of[256];

    if (back[0].of[0] != 0)
        return back;
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = uro_crc32(i, &zero, 1); /* the contribution of the low byte */
        index_of[table[i] >> 24] = (uint8_t)i;
    }
    for (unsigned bit = 0; bit < 32; bit++) {
        uint32_t reg = UINT32_C(1) << bit;
        uint8_t low = index_of[reg >> 24];
        back[0].of[bit] = (reg ^ table[low]) << 8 | low;
    }
    for (unsigned k = 1; k < POWERS; k++)
        for (unsigned bit = 0; bit < 32; bit++)
            back[k].of[bit] = apply(&back[k - 1], back[k - 1].of[bit]);
    return back;
}

uint32_t uro_ip_id_change(uint16_t id, uint32_t behind)
{
    static const uint8_t zeros[256];
    const uint8_t octets[2] = { (uint8_t)(id >> 8), (uint8_t)id };
    uint32_t change = uro_crc32(0, octets, sizeof octets);

    for (uint32_t left = behind, part; left > 0; left -= part) {
        part = left < sizeof zeros ? left : sizeof zeros;
        change = uro_crc32(change, zeros, part);
    }
    return change;
}

bool uro_ip_id_solve(uint32_t difference, uint32_t behind, uint16_t *id, bool *fragmentable)
{
    const struct map *back = backwards();
    uint32_t octets = behind + 2; /* bytes from the identification to the end */

    URO_ASSERT(octets < UINT32_C(1) << POWERS);
    for (unsigned k = 0; k < POWERS; k++)
        if (octets >> k & 1u)
            difference = apply(&back[k], difference);
    /* The first byte fed is the lowest byte of the register. */
    uint8_t flags = (uint8_t)(difference >> 16);
    if (difference >> 24 != 0 || (flags & ~FLAG_DF) != 0)
        return false;
    *id = (uint16_t)((difference & 0xff) << 8 | (difference >> 8 & 0xff));
    *fragmentable = flags != 0;
    return true;
}

bool uro_ip_id_accept(struct uro_ip_id_history *habit, bool plain)
{
    if (plain) {
        habit->plain++;
        habit->foreign = 0;
        return true;
    }
    if (habit->plain >= PLAIN_ENOUGH && ++habit->foreign < FOREIGN_ENOUGH)
        return false;
    *habit = (struct uro_ip_id_history){ 0 };
    return true;
}
