/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.h - the memory that both sides of a memif have: the client makes it, the server maps it.
 *
 * A server's client may be anybody who can reach the socket, so what it names is checked, and its
 * file must be sealed against shrinking: otherwise an access could end the process.
 */
#pragma once

#include "io/memif/proto.h"

#define URO_MEMIF_REGIONS 16u

struct uro_memif_region {
    uint8_t *at; /* NULL: none */
    size_t size;
    int fd; /* the client's, to be sent; else -1 */
};

/* The client's: zeros. False when there is no memory. */
URO_NODISCARD bool uro_memif_region_make(struct uro_memif_region *region, size_t size);

/* The server's: @size octets of the file @fd, which stays the caller's. Returns NULL or what is
 * wrong with it. */
URO_NODISCARD const char *uro_memif_region_map(struct uro_memif_region *region, int fd,
                                               uint64_t size);

/* So that the first frames are as fast as the others; 3 ms for 9 MB. */
void uro_memif_region_populate(const struct uro_memif_region *region);

void uro_memif_region_drop(struct uro_memif_region *region);

/* The @length octets that are named so, or NULL when there are none. */
static inline uint8_t *uro_memif_region_find(
    const struct uro_memif_region regions[static URO_MEMIF_REGIONS], uint32_t region,
    uint32_t offset, uint32_t length)
{
    if (region >= URO_MEMIF_REGIONS || regions[region].at == NULL ||
        regions[region].size < length || regions[region].size - length < offset)
        return NULL;
    return regions[region].at + offset;
}
