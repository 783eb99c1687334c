/* SPDX-License-Identifier: BSD-3-Clause */
/* loopback.h - frames to our own addresses, and copies of our multicasts. They are written like
 * other frames, kept here, and delivered by the next output.
 *
 * If a frame was delivered earlier, it could complete a request whose other frames are described
 * but not written yet. Their spans point into the memory of the request, which the application may
 * change after the completion.
 */
#pragma once

#include "core/pkt.h"
#include "core/tx.h"

/* Maximum number of frames that wait at once: the burst size of the ports, so that loopback does
 * not make a round longer. */
#define URO_LOOP_FRAMES 32u

struct uro_loop {
    uint8_t *octets; /* URO_LOOP_FRAMES buffers; lent by the engine's driver */
    uint32_t stride; /* bytes of a buffer */
    uint32_t count;
    struct uro_pkt frames[URO_LOOP_FRAMES];
};

/* Returns the number of bytes of buffer memory for a link whose largest IP packet has @mtu
 * bytes. */
size_t uro_loop_size(uint32_t mtu);

/* Initialises a loop. @memory: uro_loop_size() bytes, aligned to 64. The memory is not touched
 * before a frame is kept. */
void uro_loop_init(struct uro_loop *loop, uint32_t mtu, void *memory);

/* Takes the frames with URO_TX_LOCAL out of @count described frames, and copies the frames with
 * URO_TX_BOTH. The caller makes sure that these are at most URO_LOOP_FRAMES - loop->count frames.
 * Returns the number of frames left for the port, in their order. */
URO_NODISCARD uint32_t uro_loop_take(struct uro_loop *loop, struct uro_tx *tx, uint32_t count);
