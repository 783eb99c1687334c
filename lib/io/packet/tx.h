/* SPDX-License-Identifier: BSD-3-Clause */
/* tx.h - sends the engine's frames to a packet socket. Consecutive packets of one flow are sent as
 * one frame (wire/gso.h).
 *
 * Frames are written to a buffer, from which the kernel copies them. Frames that the kernel does
 * not accept now are sent later.
 */
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include "core/tx.h"
#include "engine/port.h"

struct uro_packet_tx {
    int fd;
    bool described; /* the kernel expects a virtio header in front of each frame */
    bool joins;     /* the kernel accepts several packets in a frame */
    uint32_t frame_max;
    uint8_t *memory;
    uint32_t first, count; /* pending frames: first .. count - 1 */
    struct mmsghdr *messages;
    struct uro_packet_tx_frame *frames;
    uint64_t dropped; /* packets not sent: no link, too long, or a full queue */
};

/* Allocates the buffers. Returns false when there is no memory. */
URO_NODISCARD bool uro_packet_tx_open(struct uro_packet_tx *tx, int fd, uint32_t frame_max,
                                      bool described, bool joins);
void uro_packet_tx_close(struct uro_packet_tx *tx);

/* Sends frames. No frame may be pending. Drops packets longer than @longest bytes. */
void uro_packet_tx_send(struct uro_packet_tx *tx, const struct uro_tx *frames, uint32_t count,
                        uint32_t longest);

/* Sends the pending frames. Returns true if no frame is pending any more. */
bool uro_packet_tx_flush(struct uro_packet_tx *tx);
/* Drops the pending frames, because the interface is down and they would be outdated when it is up
 * again. */
void uro_packet_tx_drop(struct uro_packet_tx *tx);
