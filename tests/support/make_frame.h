/* SPDX-License-Identifier: BSD-3-Clause */
/* make_frame.h - encodes a struct uro_frame with the encoders of lib/wire. Computes the
 * lengths, the IPv4 checksum and the ICRC. The other fields come from the struct.
 */
#pragma once

#include "wire/frame.h"
#include "wire/icrc.h"

#define MADE_FRAME_MAX 4400u

static inline uint8_t *put_ext(uint8_t *pos, const struct uro_frame *frame)
{
    const unsigned ext = frame->op->ext;

    if (ext & URO_EXT_XRCETH) {
        uro_put_be32(pos, frame->xrc_srqn);
        pos += URO_XRCETH_LEN;
    }
    if (ext & URO_EXT_DETH)
        uro_deth_encode(pos, &frame->deth), pos += URO_DETH_LEN;
    if (ext & URO_EXT_FETH)
        uro_feth_encode(pos, &frame->feth), pos += URO_FETH_LEN;
    if (ext & URO_EXT_RETH)
        uro_reth_encode(pos, &frame->reth), pos += URO_RETH_LEN;
    if (ext & URO_EXT_ATOMIC)
        uro_atomic_eth_encode(pos, &frame->atomic), pos += URO_ATOMIC_LEN;
    if (ext & URO_EXT_AETH)
        uro_aeth_encode(pos, &frame->aeth), pos += URO_AETH_LEN;
    if (ext & URO_EXT_ATOMIC_ACK)
        uro_put_be64(pos, frame->atomic_ack), pos += URO_ATOMIC_ACK_LEN;
    if (ext & URO_EXT_IMM)
        memcpy(pos, &frame->imm, URO_IMM_LEN), pos += URO_IMM_LEN;
    if (ext & URO_EXT_INV)
        uro_put_be32(pos, frame->inv_rkey), pos += URO_INV_LEN;
    if (ext & URO_EXT_CNP)
        memset(pos, 0, URO_CNP_LEN), pos += URO_CNP_LEN;
    return pos;
}

/* Encodes these fields of @frame: op, bth, the extension headers, payload and payload_length,
 * ether, ip and the UDP ports. The padding is frame->bth.pad_count. Returns the frame's length. */
static inline uint32_t make_frame(const struct uro_frame *frame, uint8_t out[static MADE_FRAME_MAX])
{
    struct uro_ip ip = frame->ip;
    struct uro_udp udp = frame->udp;
    uint8_t *const network = out + uro_ether_put(out, &frame->ether);
    const uint32_t roce = URO_BTH_LEN + uro_ext_length(frame->op->ext) + frame->payload_length +
                          frame->bth.pad_count + URO_ICRC_LEN;

    ip.protocol = URO_IPPROTO_UDP;
    udp.length = (uint16_t)(URO_UDP_LEN + roce);
    ip.payload_length = udp.length;
    uint8_t *const udp_start = network + uro_ip_put(network, &ip);
    uint8_t *pos = udp_start + URO_UDP_LEN;
    uro_bth_encode(pos, &frame->bth);
    pos = put_ext(pos + URO_BTH_LEN, frame);
    if (frame->payload_length > 0)
        memcpy(pos, frame->payload, frame->payload_length);
    pos += frame->payload_length;
    memset(pos, 0, frame->bth.pad_count);
    pos += frame->bth.pad_count;

    udp.checksum = 0;
    uro_udp_encode(udp_start, &udp);
    uro_put_le32(pos, uro_icrc(network, ip.v6, (size_t)(pos - network)));
    return (uint32_t)(pos + URO_ICRC_LEN - out);
}

/* Returns a packet of @opcode with @length bytes of @data from one host to another. A test changes
 * the fields that it tests. */
static inline struct uro_frame plain_frame(bool v6, uint8_t opcode, const uint8_t *data,
                                           uint32_t length)
{
    static const uint8_t address[2][4] = { { 10, 0, 0, 1 }, { 10, 0, 0, 2 } };
    struct uro_frame frame = {
        .ether = { .dest = { { 2, 0, 0, 0, 0, 1 } },
                   .source = { { 2, 0, 0, 0, 0, 2 } },
                   .type = v6 ? URO_ETHERTYPE_IPV6 : URO_ETHERTYPE_IPV4 },
        .ip = { .v6 = v6, .dont_fragment = true, .hop_limit = 64 },
        .udp = { .source_port = 0xc123, .dest_port = URO_ROCE_PORT },
        .op = &uro_opcodes[opcode],
        .bth = { .opcode = opcode,
                 .pkey = URO_PKEY_DEFAULT,
                 .dest_qpn = 17,
                 .psn = 99,
                 .pad_count = (uint8_t)(-length & 3u) },
        .payload = data,
        .payload_length = length,
    };

    frame.ip.source = uro_gid_from_ipv4(address[0]);
    frame.ip.dest = uro_gid_from_ipv4(address[1]);
    if (v6) {
        frame.ip.source = (struct uro_gid){ { 0xfd, [15] = 1 } };
        frame.ip.dest = (struct uro_gid){ { 0xfd, [15] = 2 } };
    }
    return frame;
}

/* Writes the correct UDP checksum to an encoded frame. */
static inline void put_udp_checksum(uint8_t *out, const struct uro_frame *frame)
{
    uint8_t *const udp = out + (frame->ether.tagged ? URO_ETHER_LEN_MAX : URO_ETHER_LEN) +
                         (frame->ip.v6 ? URO_IPV6_LEN : URO_IPV4_LEN);
    const uint32_t length = uro_get_be16(udp + 4);
    uint32_t sum = uro_ip_pseudo_sum(&frame->ip, URO_IPPROTO_UDP, length);

    uro_put_be16(udp + 6, 0);
    uint16_t checksum = uro_ip_sum_finish(uro_ip_sum(sum, udp, length));
    uro_put_be16(udp + 6, checksum == 0 ? 0xffff : checksum);
}
