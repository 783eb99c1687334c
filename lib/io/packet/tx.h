/* SPDX-License-Identifier: BSD-3-Clause */
/* tx.h - the engine's frames, to a packet socket: packets of one flow that follow each other leave
 * as one (wire/gso.h).
 *
 * They are written into memory of ours, from which the kernel copies them; what it does not take
 * now is tried again.
 */
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include "core/tx.h"
#include "engine/port.h"

struct uro_packet_tx {
    int fd;
    bool described; /* the kernel wants virtio's header in front of each frame */
    bool joins;     /* and takes several packets in one */
    uint32_t frame_max;
    uint8_t *memory;
    uint32_t first, count; /* frames that are to be sent yet: first .. count - 1 */
    struct mmsghdr *messages;
    struct uro_packet_tx_frame *frames;
    uint64_t dropped; /* packets that nobody took: no link, too long, a full queue below */
};

/* False when there is no memory. */
URO_NODISCARD bool uro_packet_tx_open(struct uro_packet_tx *tx, int fd, uint32_t frame_max,
                                      bool described, bool joins);
void uro_packet_tx_close(struct uro_packet_tx *tx);

/* Nothing is left from before. Packets of more than @longest octets are dropped. */
void uro_packet_tx_send(struct uro_packet_tx *tx, const struct uro_tx *frames, uint32_t count,
                        uint32_t longest);

/* Tries to send what is left; true when nothing is. */
bool uro_packet_tx_flush(struct uro_packet_tx *tx);
/* The interface is down: what is left is not kept until it is out of date. */
void uro_packet_tx_drop(struct uro_packet_tx *tx);
