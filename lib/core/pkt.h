/* SPDX-License-Identifier: BSD-3-Clause */
/* pkt.h - a received frame, lent to the engine for one call.
 *
 * It is in one piece, unless another process may still write it: then its head is a copy, which is
 * all that is judged, and its payload is read from where it is, once to be summed and once into a
 * queue pair's memory.
 */
#pragma once

#include <string.h>

#include "wire/frame.h"

struct uro_pkt {
    const uint8_t *octets; /* from the Ethernet header; with @shared only URO_FRAME_HEAD of them */
    const uint8_t *shared; /* the whole frame, when uro_frame_is_data() of it; else NULL */
    uint32_t length;
    bool summed; /* the port found its ICRC right: it is not computed again */
    bool weak;   /* part of its ICRC was not there to be checked: the port worked it out */
    void *owner; /* the port's own handle (an mbuf); the engine does not look at it */
};

/* Its first @length octets in one piece; at most pkt->length. */
static inline void uro_pkt_copy(const struct uro_pkt *pkt, uint8_t *out, uint32_t length)
{
    const uint32_t head = pkt->shared != NULL && length > URO_FRAME_HEAD ? URO_FRAME_HEAD : length;

    memcpy(out, pkt->octets, head);
    if (head < length)
        memcpy(out + head, pkt->shared + head, length - head);
}
