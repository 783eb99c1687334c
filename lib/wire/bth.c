/* SPDX-License-Identifier: BSD-3-Clause */
/* bth.c - the twelve octets of bth.h. */
#include "wire/bth.h"

#include "wire/bytes.h"

enum {
    AT_OPCODE = 0,
    AT_FLAGS = 1,
    AT_PKEY = 2,
    AT_CONGESTION = 4,
    AT_DEST_QPN = 5,
    AT_ACK_REQ = 8,
    AT_PSN = 9,
};
static_assert(AT_PSN + 3 == URO_BTH_LEN, "the offsets must cover the header");

void uro_bth_decode(const uint8_t in[static URO_BTH_LEN], struct uro_bth *bth)
{
    *bth = (struct uro_bth){
        .opcode = in[AT_OPCODE],
        .solicited = in[AT_FLAGS] & 0x80,
        .migrated = in[AT_FLAGS] & 0x40,
        .pad_count = in[AT_FLAGS] >> 4 & 0x3,
        .version = in[AT_FLAGS] & 0xf,
        .pkey = uro_get_be16(&in[AT_PKEY]),
        .fecn = in[AT_CONGESTION] & 0x80,
        .becn = in[AT_CONGESTION] & 0x40,
        .dest_qpn = uro_get_be24(&in[AT_DEST_QPN]),
        .ack_req = in[AT_ACK_REQ] & 0x80,
        .psn = uro_get_be24(&in[AT_PSN]),
    };
}

/* rule WIRE.RESERVED */
void uro_bth_encode(uint8_t out[static URO_BTH_LEN], const struct uro_bth *bth)
{
    URO_ASSERT(bth->pad_count <= 3);
    URO_ASSERT(bth->version <= 15);

    out[AT_OPCODE] = bth->opcode;
    out[AT_FLAGS] =
        (uint8_t)(bth->solicited << 7 | bth->migrated << 6 | bth->pad_count << 4 | bth->version);
    uro_put_be16(&out[AT_PKEY], bth->pkey);
    out[AT_CONGESTION] = (uint8_t)(bth->fecn << 7 | bth->becn << 6);
    uro_put_be24(&out[AT_DEST_QPN], bth->dest_qpn);
    out[AT_ACK_REQ] = (uint8_t)(bth->ack_req << 7);
    uro_put_be24(&out[AT_PSN], bth->psn);
}
