/* SPDX-License-Identifier: BSD-3-Clause */
/* in_two.h - frames in two pieces. A port over shared memory gives the engine frames of this kind:
 * a copy of the headers, and the payload in shared memory. */
#pragma once

#include <stdlib.h>

#include "core/pkt.h"

/* Returns the packet. Splits about half of the frames that can be split into two pieces. The last
 * byte of the frame decides this, so a repeated run splits the same frames. The caller keeps
 * @octets and frees pkt.octets. */
static inline struct uro_pkt take_in_two(const uint8_t *octets, uint32_t length)
{
    const bool in_two = length >= URO_FRAME_HEAD && (octets[length - 1] & 1) != 0 &&
                        uro_frame_is_data(octets, length);
    const uint32_t head_length = in_two ? URO_FRAME_HEAD : length;
    uint8_t *head = malloc(head_length > 0 ? head_length : 1);

    if (head == NULL)
        abort();
    memcpy(head, octets, head_length);
    return (struct uro_pkt){ .octets = head, .indirect = in_two ? octets : NULL, .length = length };
}

static inline void drop_in_two(const struct uro_pkt *pkt)
{
    free((void *)(uintptr_t)pkt->octets);
}
