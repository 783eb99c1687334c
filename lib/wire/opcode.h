/* SPDX-License-Identifier: BSD-3-Clause */
/* opcode.h - what each BTH opcode means, as one table (IBTA Vol. 1, "OpCodes").
 *
 * lib/core compares no opcode numbers: it uses the table.
 */
#pragma once

#include "base/defs.h"

enum uro_service {
    URO_RC,
    URO_UC,
    URO_UD,
    URO_XRC,
    URO_CNP, /* congestion notification: no queue pair has this service */
    URO_SERVICE_COUNT
};

enum uro_role { URO_REQUEST, URO_RESPONSE };

enum uro_operation {
    URO_SEND,
    URO_WRITE,
    URO_READ,
    URO_CMP_SWAP,
    URO_FETCH_ADD,
    URO_ACK,        /* response without data: ACK, NAK, RNR NAK */
    URO_ATOMIC_ACK, /* response of CMP_SWAP and FETCH_ADD */
    URO_FLUSH,
    URO_ATOMIC_WRITE,
    URO_NOTIFY, /* CNP */
    URO_OPERATION_COUNT
};

/* Position of a packet in its message. */
enum uro_position { URO_FIRST, URO_MIDDLE, URO_LAST, URO_ONLY };

static inline bool uro_position_begins(enum uro_position position)
{
    return position == URO_FIRST || position == URO_ONLY;
}

static inline bool uro_position_ends(enum uro_position position)
{
    return position == URO_LAST || position == URO_ONLY;
}

/* Extension headers, one bit each; the bit order is the order on the wire. */
#define URO_EXT_XRCETH     (1u << 0)
#define URO_EXT_DETH       (1u << 1)
#define URO_EXT_FETH       (1u << 2)
#define URO_EXT_RETH       (1u << 3)
#define URO_EXT_ATOMIC     (1u << 4)
#define URO_EXT_AETH       (1u << 5)
#define URO_EXT_ATOMIC_ACK (1u << 6)
#define URO_EXT_IMM        (1u << 7)
#define URO_EXT_INV        (1u << 8)
#define URO_EXT_CNP        (1u << 9) /* 16 reserved octets */
#define URO_EXT_COUNT      10u

struct uro_opcode {
    const char *name; /* NULL: reserved or unsupported */
    enum uro_service service;
    enum uro_role role;
    enum uro_operation operation;
    enum uro_position position;
    unsigned ext;       /* set of URO_EXT_* */
    uint8_t ext_length; /* length of these headers in octets */
    bool payload;       /* payload octets may follow */
    bool takes_recv;    /* the responder takes a receive work request for this packet */
};

/* Entries by BTH opcode. `name` is NULL for unknown opcodes. */
extern const struct uro_opcode uro_opcodes[256];

/* Returns the length in octets of the extension headers in @ext. */
uint32_t uro_ext_length(unsigned ext);

/* Returns the opcode of a packet, or -1 when the service has no such packet. @ext: the optional
 * header: 0, URO_EXT_IMM or URO_EXT_INV. */
int uro_opcode_find(enum uro_service service, enum uro_role role, enum uro_operation operation,
                    enum uro_position position, unsigned ext);

/* Returns the opcode with this name in the table, for tests and tools, or -1 when unknown. */
int uro_opcode_by_name(const char *name);
