/* SPDX-License-Identifier: BSD-3-Clause */
/* proto.h - the memif protocol, version 2.0, as FD.io VPP and DPDK implement it: messages and
 * rings.
 *
 * A server listens at a UNIX socket (SOCK_SEQPACKET). A client connects and makes the shared
 * memory. It describes the parts of the memory in messages, and the server acknowledges each
 * message:
 *
 *     client                          server
 *                                     HELLO       supported versions and limits
 *     INIT        which interface     ACK
 *     ADD_REGION  a file's memory     ACK
 *     ADD_RING    two, one each way   ACK         with the eventfd that wakes its receiver
 *     CONNECT                         CONNECTED   frames can be sent
 *     DISCONNECT  from either side, at the end
 *
 * The client owns all buffers. In the ring to the server, the client fills slots and advances
 * `head`, and the server empties them and advances `tail`. In the ring to the client, the client
 * offers empty buffers up to `head`, and the server fills them and advances `tail`. Numbers are in
 * host byte order. Indices wrap at 16 bits.
 */
#pragma once

#include <stdatomic.h>
#include <string.h>

#include "base/defs.h"

#define URO_MEMIF_COOKIE     0x3E31F20u
#define URO_MEMIF_VERSION    0x0200u
#define URO_MEMIF_NAME       32u
#define URO_MEMIF_SECRET     24u
#define URO_MEMIF_REASON     96u
#define URO_MEMIF_SLOTS_LOG2 14u /* log2 of the largest number of slots of a ring */

enum uro_memif_type {
    URO_MEMIF_ACK = 1,
    URO_MEMIF_HELLO,
    URO_MEMIF_INIT,
    URO_MEMIF_ADD_REGION,
    URO_MEMIF_ADD_RING,
    URO_MEMIF_CONNECT,
    URO_MEMIF_CONNECTED,
    URO_MEMIF_DISCONNECT
};

#define URO_MEMIF_ETHERNET  0u /* mode of an interface */
#define URO_MEMIF_TO_SERVER 1u /* flag of a ring in ADD_RING */

/* Offsets of fields in a message, and sizes of numbers in bytes. All messages have the same
 * length. */
enum {
    URO_MEMIF_AT_TYPE = 0, /* 2 bytes */

    URO_MEMIF_HELLO_NAME = 2,
    URO_MEMIF_HELLO_MIN_VERSION = 34, /* 2 */
    URO_MEMIF_HELLO_MAX_VERSION = 36, /* 2 */
    URO_MEMIF_HELLO_MAX_REGION = 38,  /* 2: highest region index; the next two: of a ring */
    URO_MEMIF_HELLO_MAX_TO_CLIENT = 40,
    URO_MEMIF_HELLO_MAX_TO_SERVER = 42,
    URO_MEMIF_HELLO_MAX_SLOTS_LOG2 = 44, /* 1 */

    URO_MEMIF_INIT_VERSION = 2, /* 2 */
    URO_MEMIF_INIT_ID = 4,      /* 4 */
    URO_MEMIF_INIT_MODE = 8,    /* 1 */
    URO_MEMIF_INIT_SECRET = 9,
    URO_MEMIF_INIT_NAME = 33,

    URO_MEMIF_REGION_INDEX = 2, /* 2 */
    URO_MEMIF_REGION_SIZE = 4,  /* 8 */

    URO_MEMIF_RING_FLAGS = 2,       /* 2 */
    URO_MEMIF_RING_INDEX = 4,       /* 2 */
    URO_MEMIF_RING_REGION = 6,      /* 2 */
    URO_MEMIF_RING_OFFSET = 8,      /* 4 */
    URO_MEMIF_RING_SLOTS_LOG2 = 12, /* 1 */

    URO_MEMIF_CONNECT_NAME = 2, /* also in CONNECTED: name of the interface */

    URO_MEMIF_DISCONNECT_CODE = 2, /* 4 */
    URO_MEMIF_DISCONNECT_REASON = 6,

    URO_MEMIF_MESSAGE_LEN = 128
};

struct uro_memif_message {
    uint8_t octets[URO_MEMIF_MESSAGE_LEN];
};

/* Reads and writes numbers in host byte order. */
#define URO_MEMIF_FIELD(bits)                                                                      \
    static inline uint##bits##_t uro_memif_get##bits(const struct uro_memif_message *message,      \
                                                     unsigned offset)                              \
    {                                                                                              \
        uint##bits##_t value;                                                                      \
        memcpy(&value, message->octets + offset, sizeof value);                                    \
        return value;                                                                              \
    }                                                                                              \
    static inline void uro_memif_put##bits(struct uro_memif_message *message, unsigned offset,     \
                                           uint##bits##_t value)                                   \
    {                                                                                              \
        memcpy(message->octets + offset, &value, sizeof value);                                    \
    }

URO_MEMIF_FIELD(8)
URO_MEMIF_FIELD(16)
URO_MEMIF_FIELD(32)
URO_MEMIF_FIELD(64)

static inline struct uro_memif_message uro_memif_message(enum uro_memif_type type)
{
    struct uro_memif_message message = { { 0 } };

    uro_memif_put16(&message, URO_MEMIF_AT_TYPE, (uint16_t)type);
    return message;
}

static inline uint16_t uro_memif_type_of(const struct uro_memif_message *message)
{
    return uro_memif_get16(message, URO_MEMIF_AT_TYPE);
}

/* Writes our name. */
static inline void uro_memif_put_name(struct uro_memif_message *message, unsigned offset)
{
    memcpy(message->octets + offset, "uroce", sizeof "uroce");
}

#define URO_MEMIF_NEXT 1u /* flag of a descriptor: the frame continues in the next slot */

struct uro_memif_desc {
    uint16_t flags;
    uint16_t region;
    uint32_t length;
    uint32_t offset;
    uint32_t metadata;
};

/* A descriptor in shared memory, as two words, each of which is read and written atomically. */
struct uro_memif_slot {
    _Atomic uint64_t words[2];
};
static_assert(sizeof(struct uro_memif_desc) == sizeof(struct uro_memif_slot),
              "as long as every descriptor");

static inline struct uro_memif_desc uro_memif_slot_get(const struct uro_memif_slot *slot)
{
    uint64_t words[2];
    struct uro_memif_desc desc;

    for (unsigned i = 0; i < 2; i++)
        words[i] = atomic_load_explicit(&slot->words[i], memory_order_relaxed);
    memcpy(&desc, words, sizeof desc);
    return desc;
}

static inline void uro_memif_slot_put(struct uro_memif_slot *slot, struct uro_memif_desc desc)
{
    uint64_t words[2];

    memcpy(words, &desc, sizeof words);
    for (unsigned i = 0; i < 2; i++)
        atomic_store_explicit(&slot->words[i], words[i], memory_order_relaxed);
}

#define URO_MEMIF_NO_INTERRUPT 1u /* flag of a ring: its receiver does not sleep */

struct uro_memif_ring {
    uint32_t cookie;
    _Atomic uint16_t flags;
    _Atomic uint16_t head;
    uint8_t rest_of_line[56];
    _Atomic uint16_t tail;
    uint8_t rest_of_next_line[62];
    struct uro_memif_slot slots[];
};
static_assert(offsetof(struct uro_memif_ring, tail) == 64, "a cache line for each side");
static_assert(sizeof(struct uro_memif_ring) == 128, "descriptors follow the two lines");
