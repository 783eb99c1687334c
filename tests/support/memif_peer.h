/* SPDX-License-Identifier: BSD-3-Clause */
/* memif_peer.h - the other side of a memif, which can send wrong messages and write any bytes to
 * the shared memory. No function waits. The test calls the port between sending a message and
 * receiving the answer.
 */
#pragma once

#include "io/memif/proto.h"

#define PEER_SLOTS_LOG2 5u
#define PEER_SLOTS      32u
#define PEER_BUFFER     2048u
/* Offsets in the memory of a peer. */
#define PEER_TO_SERVER 0u
#define PEER_TO_CLIENT 1024u
#define PEER_BUFFERS   2048u
#define PEER_MEMORY    (PEER_BUFFERS + 2 * PEER_SLOTS * PEER_BUFFER)

struct memif_peer {
    int control;
    int memory; /* memfd with the rings and buffers; the client creates it */
    uint8_t *base;
    size_t size;
    struct uro_memif_ring *to_server, *to_client;
    int wakes_server, wakes_client; /* eventfds, or -1 */
};

/* Connects to an abstract socket. Returns the descriptor, or -1 on failure, for example if the
 * queue of the listener is full. */
int memif_peer_connect(const char *name);
int memif_peer_listen(const char *name);

/* Sends a message with at most 8 descriptors. The caller keeps the descriptors. */
bool memif_peer_send(int control, const void *octets, size_t length, const int *fds,
                     unsigned count);
/* Receives a message, and its descriptor in *@fd, unless @fd is NULL. Returns false when there is
 * no complete message. */
bool memif_peer_receive(int control, struct uro_memif_message *message, int *fd);
/* Returns whether the connection has ended. @reason gets the text of the disconnect message, or "".
 * Skips other messages. */
bool memif_peer_ended(int control, char reason[static URO_MEMIF_REASON + 1]);

struct uro_memif_message memif_peer_hello(void);
struct uro_memif_message memif_peer_init(uint32_t id, const char *secret);
struct uro_memif_message memif_peer_region(uint16_t index, uint64_t size);
struct uro_memif_message memif_peer_ring(bool to_server, uint32_t offset);

/* Returns a memfd of @size bytes with the seals @seals. */
int memif_peer_file(size_t size, int seals);
/* Creates the memory of a client: both rings with their buffers. Does not connect. */
struct memif_peer memif_peer_make(void);
/* Maps the memory of the client. A server calls this function with the memory that it received. */
void memif_peer_map(struct memif_peer *peer, int memory, uint64_t size);
void memif_peer_drop(struct memif_peer *peer);

/* Writes descriptor @slot of a ring. */
void memif_peer_put(struct uro_memif_ring *ring, unsigned slot, struct uro_memif_desc desc);
/* Returns the offset of the buffer of a slot, as memif_peer_make() chose it. */
uint32_t memif_peer_buffer(bool to_server, unsigned slot);
