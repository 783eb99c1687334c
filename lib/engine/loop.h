/* SPDX-License-Identifier: BSD-3-Clause */
/* loop.h - frames to ourselves: written like any other, kept here instead of leaving, delivered by
 * the next output.
 *
 * Delivering them any earlier would let an answer finish requests while frames that were described
 * beside them, and not written yet, still point into what a finished request gives back.
 */
#pragma once

#include "core/pkt.h"
#include "core/tx.h"

/* Frames that wait at once: a burst of any port, so that a round is as long with them as without. */
#define URO_LOOP_FRAMES 32u

struct uro_loop {
    uint8_t *octets; /* URO_LOOP_FRAMES buffers; lent by the engine's driver */
    uint32_t stride; /* octets of a buffer */
    uint32_t count;
    struct uro_pkt frames[URO_LOOP_FRAMES];
};

/* Octets of buffer memory for a link whose largest IP packet has @mtu octets. */
size_t uro_loop_size(uint32_t mtu);

/* @memory: uro_loop_size() octets, aligned to 64. It is not touched before a frame is kept. */
void uro_loop_init(struct uro_loop *loop, uint32_t mtu, void *memory);

/* Takes what goes to ourselves out of @count described frames and copies what goes both ways; at
 * most URO_LOOP_FRAMES - loop->count of them. Returns how many are left for the port; their order
 * stays. */
URO_NODISCARD uint32_t uro_loop_take(struct uro_loop *loop, struct uro_tx *tx, uint32_t count);
