/* SPDX-License-Identifier: BSD-3-Clause */
/* bth.h - Base Transport Header, the 12 octets that start every RoCEv2 payload.
 *
 * Source: IBTA Vol. 1, "Base Transport Header"; bit 0 is the most significant.
 *
 *   octet 0        1                2..3     4         5..7       8         9..11
 *   | OpCode | SE M Pad2 TVer4 | P_Key | F B Rsv6 | DestQP24 | A Rsv7 | PSN24 |
 */
#pragma once

#include "base/defs.h"

#define URO_BTH_LEN       12u
#define URO_PKEY_DEFAULT  0xffffu
#define URO_PKEY_MASK     0x7fffu /* P_Key without the membership bit */
#define URO_QPN_MULTICAST 0xffffffu

/* The fields are in host byte order. Every value that fits its field can be encoded. */
struct uro_bth {
    uint8_t opcode;
    bool solicited;
    bool migrated;
    uint8_t pad_count; /* octets of padding after the payload, 0..3 */
    uint8_t version;   /* 0..15; receivers accept 0 only */
    uint16_t pkey;
    bool fecn;
    bool becn;
    uint32_t dest_qpn; /* 24 bits */
    bool ack_req;
    uint32_t psn; /* 24 bits */
};

/* Reads a BTH. Cannot fail: any 12 octets are a valid BTH. Ignores reserved bits, as IBTA
 * requires. */
void uro_bth_decode(const uint8_t in[static URO_BTH_LEN], struct uro_bth *bth);

/* Writes reserved bits as zero. */
void uro_bth_encode(uint8_t out[static URO_BTH_LEN], const struct uro_bth *bth);
