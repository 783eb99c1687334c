/* SPDX-License-Identifier: BSD-3-Clause */
/* queue.h - the rings of a memif: receives and sends frames. memif.h has the memory of the rings.
 *
 * The other side may write to shared memory at any time. So everything is copied before it is
 * checked: descriptors, and the headers of each frame. Only the payload of data packets for a queue
 * pair's memory is used in place; all other frames are copied as a whole.
 */
#pragma once

#include "io/memif/memif.h"

/* Makes the client's memory, both rings and their buffers. Returns false when there is no memory;
 * then call uro_memif_queue_close() and uro_memif_region_drop() to free the parts. */
URO_NODISCARD bool uro_memif_queue_make(struct uro_memif *memif);

/* Sets up the server's view of a ring that the client described. Returns NULL, or the reason for
 * failure. */
URO_NODISCARD const char *uro_memif_queue_join(struct uro_memif *memif,
                                               struct uro_memif_queue *queue, uint32_t region,
                                               uint32_t offset, uint32_t slots_log2);
/* Starts the rings when both sides are connected: a client offers its buffers. */
void uro_memif_queue_start(struct uro_memif *memif);
void uro_memif_queue_close(struct uro_memif_queue *queue);

/* Operations of the port. */
uint32_t uro_memif_receive(struct uro_port *port, struct uro_pkt *pkts, uint32_t room);
void uro_memif_release(struct uro_port *port, struct uro_pkt *pkts, uint32_t count);
uint32_t uro_memif_room(struct uro_port *port);
void uro_memif_transmit(struct uro_port *port, const struct uro_tx *frames, uint32_t count);

/* Returns whether there is a new frame. No frame may be lent. */
bool uro_memif_peek(const struct uro_memif *memif);

/* Requests to be woken by the other side, or withdraws the request. */
void uro_memif_ask(struct uro_memif *memif, bool wanted);
