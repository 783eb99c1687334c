/* SPDX-License-Identifier: BSD-3-Clause */
/* opcode.c - the opcode table of IBTA Vol. 1, and two functions that find an opcode: by the
 * properties of its packet, and by its name.
 *
 * To review this file, compare its table with the table of the specification, row by row. A READ
 * response has the operation READ. An XRC response has no XRCETH.
 */
#include "wire/opcode.h"

#include <string.h>

#include "wire/ext.h"

#define RC_REQ  .service = URO_RC, .role = URO_REQUEST
#define RC_RSP  .service = URO_RC, .role = URO_RESPONSE
#define UC_REQ  .service = URO_UC, .role = URO_REQUEST
#define UD_REQ  .service = URO_UD, .role = URO_REQUEST
#define XRC_REQ .service = URO_XRC, .role = URO_REQUEST
#define XRC_RSP .service = URO_XRC, .role = URO_RESPONSE
#define CNP_REQ .service = URO_CNP, .role = URO_REQUEST

/* The length of an extension header, or 0 if it is not in the set. */
#define HAS(set, header) (((set)&URO_EXT_##header) != 0 ? URO_##header##_LEN : 0u)
#define LENGTH(set)                                                                                \
    (HAS(set, XRCETH) + HAS(set, DETH) + HAS(set, FETH) + HAS(set, RETH) + HAS(set, ATOMIC) +      \
     HAS(set, AETH) + HAS(set, ATOMIC_ACK) + HAS(set, IMM) + HAS(set, INV) + HAS(set, CNP))
#define EXT(set) .ext = (set), .ext_length = LENGTH(set)

/* rule WIRE.OPCODES */
/* clang-format off */
const struct uro_opcode uro_opcodes[256] = {
    [0x00] = { "RC_SEND_FIRST",             RC_REQ,  URO_SEND,         URO_FIRST,  .payload = true, .takes_recv = true },
    [0x01] = { "RC_SEND_MIDDLE",            RC_REQ,  URO_SEND,         URO_MIDDLE, .payload = true },
    [0x02] = { "RC_SEND_LAST",              RC_REQ,  URO_SEND,         URO_LAST,   .payload = true },
    [0x03] = { "RC_SEND_LAST_IMM",          RC_REQ,  URO_SEND,         URO_LAST,   EXT(URO_EXT_IMM), .payload = true },
    [0x04] = { "RC_SEND_ONLY",              RC_REQ,  URO_SEND,         URO_ONLY,   .payload = true, .takes_recv = true },
    [0x05] = { "RC_SEND_ONLY_IMM",          RC_REQ,  URO_SEND,         URO_ONLY,   EXT(URO_EXT_IMM), .payload = true, .takes_recv = true },
    [0x06] = { "RC_WRITE_FIRST",            RC_REQ,  URO_WRITE,        URO_FIRST,  EXT(URO_EXT_RETH), .payload = true },
    [0x07] = { "RC_WRITE_MIDDLE",           RC_REQ,  URO_WRITE,        URO_MIDDLE, .payload = true },
    [0x08] = { "RC_WRITE_LAST",             RC_REQ,  URO_WRITE,        URO_LAST,   .payload = true },
    [0x09] = { "RC_WRITE_LAST_IMM",         RC_REQ,  URO_WRITE,        URO_LAST,   EXT(URO_EXT_IMM), .payload = true, .takes_recv = true },
    [0x0a] = { "RC_WRITE_ONLY",             RC_REQ,  URO_WRITE,        URO_ONLY,   EXT(URO_EXT_RETH), .payload = true },
    [0x0b] = { "RC_WRITE_ONLY_IMM",         RC_REQ,  URO_WRITE,        URO_ONLY,   EXT(URO_EXT_RETH | URO_EXT_IMM), .payload = true, .takes_recv = true },
    [0x0c] = { "RC_READ_REQUEST",           RC_REQ,  URO_READ,         URO_ONLY,   EXT(URO_EXT_RETH) },
    [0x0d] = { "RC_READ_RESPONSE_FIRST",    RC_RSP,  URO_READ,         URO_FIRST,  EXT(URO_EXT_AETH), .payload = true },
    [0x0e] = { "RC_READ_RESPONSE_MIDDLE",   RC_RSP,  URO_READ,         URO_MIDDLE, .payload = true },
    [0x0f] = { "RC_READ_RESPONSE_LAST",     RC_RSP,  URO_READ,         URO_LAST,   EXT(URO_EXT_AETH), .payload = true },
    [0x10] = { "RC_READ_RESPONSE_ONLY",     RC_RSP,  URO_READ,         URO_ONLY,   EXT(URO_EXT_AETH), .payload = true },
    [0x11] = { "RC_ACK",                    RC_RSP,  URO_ACK,          URO_ONLY,   EXT(URO_EXT_AETH) },
    [0x12] = { "RC_ATOMIC_ACK",             RC_RSP,  URO_ATOMIC_ACK,   URO_ONLY,   EXT(URO_EXT_AETH | URO_EXT_ATOMIC_ACK) },
    [0x13] = { "RC_CMP_SWAP",               RC_REQ,  URO_CMP_SWAP,     URO_ONLY,   EXT(URO_EXT_ATOMIC) },
    [0x14] = { "RC_FETCH_ADD",              RC_REQ,  URO_FETCH_ADD,    URO_ONLY,   EXT(URO_EXT_ATOMIC) },
    [0x16] = { "RC_SEND_LAST_INV",          RC_REQ,  URO_SEND,         URO_LAST,   EXT(URO_EXT_INV), .payload = true },
    [0x17] = { "RC_SEND_ONLY_INV",          RC_REQ,  URO_SEND,         URO_ONLY,   EXT(URO_EXT_INV), .payload = true, .takes_recv = true },
    [0x1c] = { "RC_FLUSH",                  RC_REQ,  URO_FLUSH,        URO_ONLY,   EXT(URO_EXT_FETH | URO_EXT_RETH) },
    [0x1d] = { "RC_ATOMIC_WRITE",           RC_REQ,  URO_ATOMIC_WRITE, URO_ONLY,   EXT(URO_EXT_RETH), .payload = true },

    [0x20] = { "UC_SEND_FIRST",             UC_REQ,  URO_SEND,         URO_FIRST,  .payload = true, .takes_recv = true },
    [0x21] = { "UC_SEND_MIDDLE",            UC_REQ,  URO_SEND,         URO_MIDDLE, .payload = true },
    [0x22] = { "UC_SEND_LAST",              UC_REQ,  URO_SEND,         URO_LAST,   .payload = true },
    [0x23] = { "UC_SEND_LAST_IMM",          UC_REQ,  URO_SEND,         URO_LAST,   EXT(URO_EXT_IMM), .payload = true },
    [0x24] = { "UC_SEND_ONLY",              UC_REQ,  URO_SEND,         URO_ONLY,   .payload = true, .takes_recv = true },
    [0x25] = { "UC_SEND_ONLY_IMM",          UC_REQ,  URO_SEND,         URO_ONLY,   EXT(URO_EXT_IMM), .payload = true, .takes_recv = true },
    [0x26] = { "UC_WRITE_FIRST",            UC_REQ,  URO_WRITE,        URO_FIRST,  EXT(URO_EXT_RETH), .payload = true },
    [0x27] = { "UC_WRITE_MIDDLE",           UC_REQ,  URO_WRITE,        URO_MIDDLE, .payload = true },
    [0x28] = { "UC_WRITE_LAST",             UC_REQ,  URO_WRITE,        URO_LAST,   .payload = true },
    [0x29] = { "UC_WRITE_LAST_IMM",         UC_REQ,  URO_WRITE,        URO_LAST,   EXT(URO_EXT_IMM), .payload = true, .takes_recv = true },
    [0x2a] = { "UC_WRITE_ONLY",             UC_REQ,  URO_WRITE,        URO_ONLY,   EXT(URO_EXT_RETH), .payload = true },
    [0x2b] = { "UC_WRITE_ONLY_IMM",         UC_REQ,  URO_WRITE,        URO_ONLY,   EXT(URO_EXT_RETH | URO_EXT_IMM), .payload = true, .takes_recv = true },

    [0x64] = { "UD_SEND_ONLY",              UD_REQ,  URO_SEND,         URO_ONLY,   EXT(URO_EXT_DETH), .payload = true, .takes_recv = true },
    [0x65] = { "UD_SEND_ONLY_IMM",          UD_REQ,  URO_SEND,         URO_ONLY,   EXT(URO_EXT_DETH | URO_EXT_IMM), .payload = true, .takes_recv = true },

    [0x81] = { "CNP",                       CNP_REQ, URO_NOTIFY,       URO_ONLY,   EXT(URO_EXT_CNP) },

    [0xa0] = { "XRC_SEND_FIRST",            XRC_REQ, URO_SEND,         URO_FIRST,  EXT(URO_EXT_XRCETH), .payload = true, .takes_recv = true },
    [0xa1] = { "XRC_SEND_MIDDLE",           XRC_REQ, URO_SEND,         URO_MIDDLE, EXT(URO_EXT_XRCETH), .payload = true },
    [0xa2] = { "XRC_SEND_LAST",             XRC_REQ, URO_SEND,         URO_LAST,   EXT(URO_EXT_XRCETH), .payload = true },
    [0xa3] = { "XRC_SEND_LAST_IMM",         XRC_REQ, URO_SEND,         URO_LAST,   EXT(URO_EXT_XRCETH | URO_EXT_IMM), .payload = true },
    [0xa4] = { "XRC_SEND_ONLY",             XRC_REQ, URO_SEND,         URO_ONLY,   EXT(URO_EXT_XRCETH), .payload = true, .takes_recv = true },
    [0xa5] = { "XRC_SEND_ONLY_IMM",         XRC_REQ, URO_SEND,         URO_ONLY,   EXT(URO_EXT_XRCETH | URO_EXT_IMM), .payload = true, .takes_recv = true },
    [0xa6] = { "XRC_WRITE_FIRST",           XRC_REQ, URO_WRITE,        URO_FIRST,  EXT(URO_EXT_XRCETH | URO_EXT_RETH), .payload = true },
    [0xa7] = { "XRC_WRITE_MIDDLE",          XRC_REQ, URO_WRITE,        URO_MIDDLE, EXT(URO_EXT_XRCETH), .payload = true },
    [0xa8] = { "XRC_WRITE_LAST",            XRC_REQ, URO_WRITE,        URO_LAST,   EXT(URO_EXT_XRCETH), .payload = true },
    [0xa9] = { "XRC_WRITE_LAST_IMM",        XRC_REQ, URO_WRITE,        URO_LAST,   EXT(URO_EXT_XRCETH | URO_EXT_IMM), .payload = true, .takes_recv = true },
    [0xaa] = { "XRC_WRITE_ONLY",            XRC_REQ, URO_WRITE,        URO_ONLY,   EXT(URO_EXT_XRCETH | URO_EXT_RETH), .payload = true },
    [0xab] = { "XRC_WRITE_ONLY_IMM",        XRC_REQ, URO_WRITE,        URO_ONLY,   EXT(URO_EXT_XRCETH | URO_EXT_RETH | URO_EXT_IMM), .payload = true, .takes_recv = true },
    [0xac] = { "XRC_READ_REQUEST",          XRC_REQ, URO_READ,         URO_ONLY,   EXT(URO_EXT_XRCETH | URO_EXT_RETH) },
    [0xad] = { "XRC_READ_RESPONSE_FIRST",   XRC_RSP, URO_READ,         URO_FIRST,  EXT(URO_EXT_AETH), .payload = true },
    [0xae] = { "XRC_READ_RESPONSE_MIDDLE",  XRC_RSP, URO_READ,         URO_MIDDLE, .payload = true },
    [0xaf] = { "XRC_READ_RESPONSE_LAST",    XRC_RSP, URO_READ,         URO_LAST,   EXT(URO_EXT_AETH), .payload = true },
    [0xb0] = { "XRC_READ_RESPONSE_ONLY",    XRC_RSP, URO_READ,         URO_ONLY,   EXT(URO_EXT_AETH), .payload = true },
    [0xb1] = { "XRC_ACK",                   XRC_RSP, URO_ACK,          URO_ONLY,   EXT(URO_EXT_AETH) },
    [0xb2] = { "XRC_ATOMIC_ACK",            XRC_RSP, URO_ATOMIC_ACK,   URO_ONLY,   EXT(URO_EXT_AETH | URO_EXT_ATOMIC_ACK) },
    [0xb3] = { "XRC_CMP_SWAP",              XRC_REQ, URO_CMP_SWAP,     URO_ONLY,   EXT(URO_EXT_XRCETH | URO_EXT_ATOMIC) },
    [0xb4] = { "XRC_FETCH_ADD",             XRC_REQ, URO_FETCH_ADD,    URO_ONLY,   EXT(URO_EXT_XRCETH | URO_EXT_ATOMIC) },
    [0xb6] = { "XRC_SEND_LAST_INV",         XRC_REQ, URO_SEND,         URO_LAST,   EXT(URO_EXT_XRCETH | URO_EXT_INV), .payload = true },
    [0xb7] = { "XRC_SEND_ONLY_INV",         XRC_REQ, URO_SEND,         URO_ONLY,   EXT(URO_EXT_XRCETH | URO_EXT_INV), .payload = true, .takes_recv = true },
    [0xbc] = { "XRC_FLUSH",                 XRC_REQ, URO_FLUSH,        URO_ONLY,   EXT(URO_EXT_XRCETH | URO_EXT_FETH | URO_EXT_RETH) },
    [0xbd] = { "XRC_ATOMIC_WRITE",          XRC_REQ, URO_ATOMIC_WRITE, URO_ONLY,   EXT(URO_EXT_XRCETH | URO_EXT_RETH), .payload = true },
};
/* clang-format on */

uint32_t uro_ext_length(unsigned ext)
{
    URO_ASSERT(ext >> URO_EXT_COUNT == 0);
    return LENGTH(ext);
}

/* First opcode of each service: the top three bits of its opcodes. The low five bits are the
 * operation. */
static const uint8_t bases[URO_SERVICE_COUNT] = {
    [URO_RC] = 0x00, [URO_UC] = 0x20, [URO_UD] = 0x60, [URO_XRC] = 0xa0, [URO_CNP] = 0x80,
};

#define PLACES   4u
#define READ_RSP URO_OPERATION_COUNT /* READ has both roles; this row is its response */
/* A packet has immediate data (1), invalidates a key (2), or neither (0). No opcode has both, so
 * entry 3 stays 0. */
#define VARIANTS 4u
static_assert(URO_EXT_INV == 2 * URO_EXT_IMM, "the two bits distinguish the variants");

/* The low five bits of an opcode, plus 1. The value 0 means that there is no such packet. */
#define OP(number) ((number) + 1)

/* clang-format off */
static const uint8_t operations[URO_OPERATION_COUNT + 1][PLACES][VARIANTS] = {
    [URO_SEND]         = { [URO_FIRST]  = { OP(0x00) },
                           [URO_MIDDLE] = { OP(0x01) },
                           [URO_LAST]   = { OP(0x02), OP(0x03), OP(0x16) },
                           [URO_ONLY]   = { OP(0x04), OP(0x05), OP(0x17) } },
    [URO_WRITE]        = { [URO_FIRST]  = { OP(0x06) },
                           [URO_MIDDLE] = { OP(0x07) },
                           [URO_LAST]   = { OP(0x08), OP(0x09) },
                           [URO_ONLY]   = { OP(0x0a), OP(0x0b) } },
    [URO_READ]         = { [URO_ONLY]   = { OP(0x0c) } },
    [READ_RSP]         = { [URO_FIRST]  = { OP(0x0d) },
                           [URO_MIDDLE] = { OP(0x0e) },
                           [URO_LAST]   = { OP(0x0f) },
                           [URO_ONLY]   = { OP(0x10) } },
    [URO_ACK]          = { [URO_ONLY]   = { OP(0x11) } },
    [URO_ATOMIC_ACK]   = { [URO_ONLY]   = { OP(0x12) } },
    [URO_CMP_SWAP]     = { [URO_ONLY]   = { OP(0x13) } },
    [URO_FETCH_ADD]    = { [URO_ONLY]   = { OP(0x14) } },
    [URO_FLUSH]        = { [URO_ONLY]   = { OP(0x1c) } },
    [URO_ATOMIC_WRITE] = { [URO_ONLY]   = { OP(0x1d) } },
    [URO_NOTIFY]       = { [URO_ONLY]   = { OP(0x01) } },
};
/* clang-format on */

/* Looks the opcode up in one table, and checks it with the other table. */
int uro_opcode_find(enum uro_service service, enum uro_role role, enum uro_operation operation,
                    enum uro_position position, unsigned ext)
{
    URO_ASSERT(service < URO_SERVICE_COUNT && operation < URO_OPERATION_COUNT);
    URO_ASSERT((ext & ~(URO_EXT_IMM | URO_EXT_INV)) == 0);

    const unsigned row = operation == URO_READ && role == URO_RESPONSE ? READ_RSP : operation;
    const uint8_t offset = operations[row][position][ext / URO_EXT_IMM];
    if (offset == 0)
        return -1;

    const int opcode = bases[service] + offset - 1;
    const struct uro_opcode *op = &uro_opcodes[opcode];
    if (op->name == NULL || op->service != service || op->role != role ||
        op->operation != operation)
        return -1;
    return opcode;
}

int uro_opcode_by_name(const char *name)
{
    for (int opcode = 0; opcode < 256; opcode++) {
        if (uro_opcodes[opcode].name != NULL && strcmp(uro_opcodes[opcode].name, name) == 0)
            return opcode;
    }
    return -1;
}
