/* SPDX-License-Identifier: BSD-3-Clause */
/* ext.c - the extension headers of ext.h, decoder and encoder side by side. */
#include "wire/ext.h"

#include "wire/bytes.h"

/* rule WIRE.ROUNDTRIP */
enum { RETH_VA = 0, RETH_RKEY = 8, RETH_LENGTH = 12 };
static_assert(RETH_LENGTH + 4 == URO_RETH_LEN, "the offsets must cover the header");

void uro_reth_decode(const uint8_t in[static URO_RETH_LEN], struct uro_reth *reth)
{
    reth->va = uro_get_be64(&in[RETH_VA]);
    reth->rkey = uro_get_be32(&in[RETH_RKEY]);
    reth->length = uro_get_be32(&in[RETH_LENGTH]);
}

void uro_reth_encode(uint8_t out[static URO_RETH_LEN], const struct uro_reth *reth)
{
    uro_put_be64(&out[RETH_VA], reth->va);
    uro_put_be32(&out[RETH_RKEY], reth->rkey);
    uro_put_be32(&out[RETH_LENGTH], reth->length);
}

enum { ATOMIC_VA = 0, ATOMIC_RKEY = 8, ATOMIC_SWAP_ADD = 12, ATOMIC_COMPARE = 20 };
static_assert(ATOMIC_COMPARE + 8 == URO_ATOMIC_LEN, "the offsets must cover the header");

void uro_atomic_eth_decode(const uint8_t in[static URO_ATOMIC_LEN], struct uro_atomic_eth *atomic)
{
    atomic->va = uro_get_be64(&in[ATOMIC_VA]);
    atomic->rkey = uro_get_be32(&in[ATOMIC_RKEY]);
    atomic->swap_add = uro_get_be64(&in[ATOMIC_SWAP_ADD]);
    atomic->compare = uro_get_be64(&in[ATOMIC_COMPARE]);
}

void uro_atomic_eth_encode(uint8_t out[static URO_ATOMIC_LEN], const struct uro_atomic_eth *atomic)
{
    uro_put_be64(&out[ATOMIC_VA], atomic->va);
    uro_put_be32(&out[ATOMIC_RKEY], atomic->rkey);
    uro_put_be64(&out[ATOMIC_SWAP_ADD], atomic->swap_add);
    uro_put_be64(&out[ATOMIC_COMPARE], atomic->compare);
}

enum { DETH_QKEY = 0, DETH_RESERVED = 4, DETH_SOURCE_QPN = 5 };
static_assert(DETH_SOURCE_QPN + 3 == URO_DETH_LEN, "the offsets must cover the header");

void uro_deth_decode(const uint8_t in[static URO_DETH_LEN], struct uro_deth *deth)
{
    deth->qkey = uro_get_be32(&in[DETH_QKEY]);
    deth->source_qpn = uro_get_be24(&in[DETH_SOURCE_QPN]);
}

void uro_deth_encode(uint8_t out[static URO_DETH_LEN], const struct uro_deth *deth)
{
    uro_put_be32(&out[DETH_QKEY], deth->qkey);
    out[DETH_RESERVED] = 0;
    uro_put_be24(&out[DETH_SOURCE_QPN], deth->source_qpn);
}

/* FETH is one word: placement in bits 3..0, selectivity in bits 5..4, other bits reserved. */
enum { FETH_LOW_OCTET = 3 };
static_assert(FETH_LOW_OCTET + 1 == URO_FETH_LEN, "the offsets must cover the header");

void uro_feth_decode(const uint8_t in[static URO_FETH_LEN], struct uro_feth *feth)
{
    feth->placement = in[FETH_LOW_OCTET] & 0xf;
    feth->selectivity = in[FETH_LOW_OCTET] >> 4 & 0x3;
}

void uro_feth_encode(uint8_t out[static URO_FETH_LEN], const struct uro_feth *feth)
{
    URO_ASSERT(feth->placement <= 0xf);
    URO_ASSERT(feth->selectivity <= 0x3);

    uro_put_be32(out, (uint32_t)feth->selectivity << 4 | feth->placement);
}

enum { AETH_SYNDROME = 0, AETH_MSN = 1 };
static_assert(AETH_MSN + 3 == URO_AETH_LEN, "the offsets must cover the header");

/* Bit 7 of the syndrome is reserved. */
void uro_aeth_decode(const uint8_t in[static URO_AETH_LEN], struct uro_aeth *aeth)
{
    aeth->kind = (enum uro_aeth_kind)(in[AETH_SYNDROME] >> 5 & 0x3);
    aeth->value = in[AETH_SYNDROME] & 0x1f;
    aeth->msn = uro_get_be24(&in[AETH_MSN]);
}

void uro_aeth_encode(uint8_t out[static URO_AETH_LEN], const struct uro_aeth *aeth)
{
    URO_ASSERT((unsigned)aeth->kind <= 3);
    URO_ASSERT(aeth->value <= 0x1f);

    out[AETH_SYNDROME] = (uint8_t)((unsigned)aeth->kind << 5 | aeth->value);
    uro_put_be24(&out[AETH_MSN], aeth->msn);
}
