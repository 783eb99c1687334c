/* SPDX-License-Identifier: BSD-3-Clause */
/* queue.h - the rings of a memif: frames in, frames out.
 *
 * The other side may write shared memory at any time. What is judged is copied before: descriptors,
 * and of each frame the headers; and everything of a frame whose payload is not just octets for a
 * queue pair's memory.
 */
#pragma once

#include "io/memif/memif.h"

/* The client's: memory, both rings and their buffers. False when there is no memory; what was made
 * is undone by uro_memif_queue_close() and uro_memif_region_drop(). */
URO_NODISCARD bool uro_memif_queue_make(struct uro_memif *memif);

/* The server's: a ring that the client named. Returns NULL or what is wrong with it. */
URO_NODISCARD const char *uro_memif_queue_join(struct uro_memif *memif,
                                               struct uro_memif_queue *queue, uint32_t region,
                                               uint32_t offset, uint32_t slots_log2);
/* Both sides are there: a client offers its buffers. */
void uro_memif_queue_start(struct uro_memif *memif);
void uro_memif_queue_close(struct uro_memif_queue *queue);

/* Operations of the port. */
uint32_t uro_memif_receive(struct uro_port *port, struct uro_pkt *pkts, uint32_t room);
void uro_memif_release(struct uro_port *port, struct uro_pkt *pkts, uint32_t count);
uint32_t uro_memif_room(struct uro_port *port);
void uro_memif_transmit(struct uro_port *port, const struct uro_tx *frames, uint32_t count);

/* Whether there is a frame, and nothing is lent. */
bool uro_memif_peek(const struct uro_memif *memif);

/* Asks to be woken, or not any more. */
void uro_memif_ask(struct uro_memif *memif, bool wanted);
