/* SPDX-License-Identifier: BSD-3-Clause */
/* ext.h - the extension headers that follow the BTH. Octet layouts: docs/PROTOCOL.md. */
#pragma once

#include "base/defs.h"

#define URO_XRCETH_LEN     4u
#define URO_DETH_LEN       8u
#define URO_FETH_LEN       4u
#define URO_RETH_LEN       16u
#define URO_ATOMIC_LEN     28u
#define URO_AETH_LEN       4u
#define URO_ATOMIC_ACK_LEN 8u
#define URO_IMM_LEN        4u
#define URO_INV_LEN        4u
#define URO_CNP_LEN        16u
#define URO_ICRC_LEN       4u

struct uro_reth {
    uint64_t va;
    uint32_t rkey;
    uint32_t length; /* length of the whole message, bytes */
};

struct uro_atomic_eth {
    uint64_t va;
    uint32_t rkey;
    uint64_t swap_add; /* CMP_SWAP: new value; FETCH_ADD: addend */
    uint64_t compare;
};

struct uro_deth {
    uint32_t qkey;
    uint32_t source_qpn;
};

struct uro_feth {
    uint8_t placement;   /* bit 0 global visibility, bit 1 persistence */
    uint8_t selectivity; /* 0 range, 1 whole memory region */
};

/* Kind of an AETH: bits 6..5 of the syndrome. Bits 4..0 are a value. */
enum uro_aeth_kind { URO_AETH_ACK = 0, URO_AETH_RNR = 1, URO_AETH_RESERVED = 2, URO_AETH_NAK = 3 };

#define URO_NAK_PSN_SEQUENCE  0u
#define URO_NAK_INVALID_REQ   1u
#define URO_NAK_ACCESS        2u
#define URO_NAK_OPERATIONAL   3u
#define URO_CREDITS_UNLIMITED 31u

struct uro_aeth {
    enum uro_aeth_kind kind;
    uint8_t value; /* credits, RNR timer code, or NAK code; 0..31 */
    uint32_t msn;  /* 24 bits */
};

/* The decoders cannot fail. The encoders write reserved bits as zero. */
void uro_reth_decode(const uint8_t in[static URO_RETH_LEN], struct uro_reth *reth);
void uro_reth_encode(uint8_t out[static URO_RETH_LEN], const struct uro_reth *reth);
void uro_atomic_eth_decode(const uint8_t in[static URO_ATOMIC_LEN], struct uro_atomic_eth *atomic);
void uro_atomic_eth_encode(uint8_t out[static URO_ATOMIC_LEN], const struct uro_atomic_eth *atomic);
void uro_deth_decode(const uint8_t in[static URO_DETH_LEN], struct uro_deth *deth);
void uro_deth_encode(uint8_t out[static URO_DETH_LEN], const struct uro_deth *deth);
void uro_feth_decode(const uint8_t in[static URO_FETH_LEN], struct uro_feth *feth);
void uro_feth_encode(uint8_t out[static URO_FETH_LEN], const struct uro_feth *feth);
void uro_aeth_decode(const uint8_t in[static URO_AETH_LEN], struct uro_aeth *aeth);
void uro_aeth_encode(uint8_t out[static URO_AETH_LEN], const struct uro_aeth *aeth);
