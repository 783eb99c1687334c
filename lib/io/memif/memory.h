/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.h - the memory that both sides of a memif share: the client makes it, the server maps it.
 *
 * Any process that can reach the socket may be the client of a server. So the server checks all
 * offsets, and the client's file must be sealed against shrinking: otherwise an access could end
 * the server's process.
 */
#pragma once

#include "io/memif/proto.h"

#define URO_MEMIF_REGIONS 16u

struct uro_memif_region {
    uint8_t *at; /* NULL: none */
    size_t size;
    int fd; /* client: the file, to be sent to the server; else -1 */
};

/* Makes the client's region, filled with zeros. Returns false when there is no memory. */
URO_NODISCARD bool uro_memif_region_make(struct uro_memif_region *region, size_t size);

/* Maps @size octets of the file @fd for the server. @fd remains property of the caller. Returns
 * NULL, or the reason for failure. */
URO_NODISCARD const char *uro_memif_region_map(struct uro_memif_region *region, int fd,
                                               uint64_t size);

/* Populates the mapping, so that the first frames are as fast as the others. Takes 3 ms for 9
 * MB. */
void uro_memif_region_populate(const struct uro_memif_region *region);

void uro_memif_region_drop(struct uro_memif_region *region);

/* Returns the address of @length octets at @offset of @region, or NULL when they are not inside a
 * region. */
static inline uint8_t *uro_memif_region_find(
    const struct uro_memif_region regions[static URO_MEMIF_REGIONS], uint32_t region,
    uint32_t offset, uint32_t length)
{
    if (region >= URO_MEMIF_REGIONS || regions[region].at == NULL ||
        regions[region].size < length || regions[region].size - length < offset)
        return NULL;
    return regions[region].at + offset;
}
