/* SPDX-License-Identifier: BSD-3-Clause */
/* pkt.h - a received frame, lent to the engine for one call.
 *
 * The frame is in one piece, unless the port has copied only its head: another process may still
 * write to the frame, or the kernel has joined several packets. Then the copy of the head is
 * checked. The payload stays where it is; it is read once for the ICRC and once to copy it to the
 * memory of a queue pair.
 */
#pragma once

#include <string.h>

#include "wire/frame.h"

struct uro_pkt {
    const uint8_t *octets;   /* the frame; only its first URO_FRAME_HEAD bytes with @indirect */
    const uint8_t *indirect; /* start of the frame with the payload, if octets is only its head */
    uint32_t length;
    bool summed; /* the port has checked the ICRC */
    bool weak;   /* the port had to infer a part of the ICRC's input */
    void *owner; /* the port's own handle (an mbuf); the engine does not use it */
};

/* Copies the first @length bytes of the frame, at most pkt->length, to @out. */
static inline void uro_pkt_copy(const struct uro_pkt *pkt, uint8_t *out, uint32_t length)
{
    const uint32_t head =
        pkt->indirect != NULL && length > URO_FRAME_HEAD ? URO_FRAME_HEAD : length;

    memcpy(out, pkt->octets, head);
    if (head < length)
        memcpy(out + head, pkt->indirect + head, length - head);
}
