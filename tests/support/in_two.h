/* SPDX-License-Identifier: BSD-3-Clause */
/* in_two.h - frames as a port over shared memory lends them: the head a copy, the payload elsewhere. */
#pragma once

#include <stdlib.h>

#include "core/pkt.h"

/* Every second one of those that may come in two pieces does: by its last byte, so that it is the same ones again.
 * @octets stay the caller's; free() pkt.octets. */
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
