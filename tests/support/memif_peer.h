/* SPDX-License-Identifier: BSD-3-Clause */
/* memif_peer.h - the other side of a memif, written by hand: every message, and every octet of the shared memory, can
 * be wrong.
 *
 * Nothing here waits: who drives the port drives it between what the peer says and what it hears.
 */
#pragma once

#include "io/memif/proto.h"

#define PEER_SLOTS_LOG2 5u
#define PEER_SLOTS      32u
#define PEER_BUFFER     2048u
/* What is where in a peer's memory. */
#define PEER_TO_SERVER 0u
#define PEER_TO_CLIENT 1024u
#define PEER_BUFFERS   2048u
#define PEER_MEMORY    (PEER_BUFFERS + 2 * PEER_SLOTS * PEER_BUFFER)

struct memif_peer {
    int control;
    int memory; /* its file; of a peer that is a server the client's */
    uint8_t *at;
    size_t size;
    struct uro_memif_ring *to_server, *to_client;
    int wakes_server, wakes_client; /* eventfds, or -1 */
};

/* An abstract socket's; to call fails, -1, while too many wait there. */
int memif_peer_call(const char *name);
int memif_peer_listen(const char *name);

/* At most 8 descriptors go with it; they stay the caller's. */
bool memif_peer_say(int control, const void *octets, size_t length, const int *fds, unsigned count);
/* False when there is nothing; @fd may be NULL. */
bool memif_peer_hear(int control, struct uro_memif_message *message, int *fd);
/* Whether the connection has ended; @reason is what was said then, or "". Other messages are passed over. */
bool memif_peer_ended(int control, char reason[static URO_MEMIF_REASON + 1]);

struct uro_memif_message memif_peer_hello(void);
struct uro_memif_message memif_peer_init(uint32_t id, const char *secret);
struct uro_memif_message memif_peer_region(uint16_t index, uint64_t size);
struct uro_memif_message memif_peer_ring(bool to_server, uint32_t offset);

/* A memfd of @size octets with the seals @seals, or -1. */
int memif_peer_file(size_t size, int seals);
/* A client's memory with both rings, whose buffers are offered; not connected yet. */
struct memif_peer memif_peer_make(void);
/* Of a server: maps what the client named. */
void memif_peer_map(struct memif_peer *peer, int memory, uint64_t size);
void memif_peer_drop(struct memif_peer *peer);

/* Descriptor @slot of a ring. */
void memif_peer_put(struct uro_memif_ring *ring, unsigned slot, struct uro_memif_desc desc);
/* Where the buffers of a ring's slots begin, as memif_peer_make() gave them. */
uint32_t memif_peer_buffer(bool to_server, unsigned slot);
