/* SPDX-License-Identifier: BSD-3-Clause */
/* packet.c - see packet.h. */
#include "script/packet.h"

#include <string.h>

#include "wire/icrc.h"

#define HOP_LIMIT    64u
#define SOURCE_PORT  0xc000u
#define AT_RESERVED6 4u /* offset in the BTH */
#define AT_RESERVED7 8u

void uro_packet_init(struct uro_packet *packet, uint8_t opcode)
{
    *packet = (struct uro_packet){ .op = &uro_opcodes[opcode] };
    packet->value[URO_FIELD_OPCODE] = opcode;
    packet->value[URO_FIELD_MIGREQ] = 1;
    packet->value[URO_FIELD_PKEY] = URO_PKEY_DEFAULT;
    packet->value[URO_FIELD_SYNDROME] = URO_CREDITS_UNLIMITED;
    packet->value[URO_FIELD_TTL] = HOP_LIMIT;
    packet->value[URO_FIELD_SPORT] = SOURCE_PORT;
    packet->value[URO_FIELD_PAD] = UINT64_MAX; /* the actual number: see write_bth() */
}

static uint8_t *write_bth(const struct uro_packet *packet, uint8_t *pos, uint32_t pad)
{
    const uint64_t *v = packet->value;
    const struct uro_bth bth = { .opcode = (uint8_t)v[URO_FIELD_OPCODE],
                                 .solicited = v[URO_FIELD_SE] != 0,
                                 .migrated = v[URO_FIELD_MIGREQ] != 0,
                                 .pad_count = v[URO_FIELD_PAD] <= 3 ? (uint8_t)v[URO_FIELD_PAD]
                                                                    : (uint8_t)pad,
                                 .version = (uint8_t)v[URO_FIELD_TVER],
                                 .pkey = (uint16_t)v[URO_FIELD_PKEY],
                                 .fecn = v[URO_FIELD_FECN] != 0,
                                 .becn = v[URO_FIELD_BECN] != 0,
                                 .dest_qpn = (uint32_t)v[URO_FIELD_QPN],
                                 .ack_req = v[URO_FIELD_ACKREQ] != 0,
                                 .psn = (uint32_t)v[URO_FIELD_PSN] };

    uro_bth_encode(pos, &bth);
    pos[AT_RESERVED6] = (uint8_t)(pos[AT_RESERVED6] | v[URO_FIELD_RESV6]);
    pos[AT_RESERVED7] = (uint8_t)(pos[AT_RESERVED7] | v[URO_FIELD_RESV7]);
    return pos + URO_BTH_LEN;
}

static uint8_t *write_addresses(const struct uro_packet *packet, uint8_t *pos)
{
    const unsigned ext = packet->op->ext;
    const uint64_t *v = packet->value;

    if (ext & URO_EXT_XRCETH) {
        uro_put_be32(pos, (uint32_t)v[URO_FIELD_SRQN]);
        pos += URO_XRCETH_LEN;
    }
    if (ext & URO_EXT_DETH) {
        uro_deth_encode(pos, &(struct uro_deth){ .qkey = (uint32_t)v[URO_FIELD_QKEY],
                                                 .source_qpn = (uint32_t)v[URO_FIELD_SQPN] });
        pos += URO_DETH_LEN;
    }
    if (ext & URO_EXT_FETH) {
        uro_feth_encode(pos,
                        &(struct uro_feth){ .placement = (uint8_t)v[URO_FIELD_PLACEMENT],
                                            .selectivity = (uint8_t)v[URO_FIELD_SELECTIVITY] });
        pos += URO_FETH_LEN;
    }
    if (ext & URO_EXT_RETH) {
        uro_reth_encode(pos, &(struct uro_reth){ .va = v[URO_FIELD_VA],
                                                 .rkey = (uint32_t)v[URO_FIELD_RKEY],
                                                 .length = (uint32_t)v[URO_FIELD_DMALEN] });
        pos += URO_RETH_LEN;
    }
    return pos;
}

static uint8_t *write_ext(const struct uro_packet *packet, uint8_t *pos)
{
    const unsigned ext = packet->op->ext;
    const uint64_t *v = packet->value;
    const uint32_t syndrome = (uint32_t)v[URO_FIELD_SYNDROME];

    pos = write_addresses(packet, pos);
    if (ext & URO_EXT_ATOMIC) {
        uro_atomic_eth_encode(pos, &(struct uro_atomic_eth){ .va = v[URO_FIELD_VA],
                                                             .rkey = (uint32_t)v[URO_FIELD_RKEY],
                                                             .swap_add = v[URO_FIELD_SWAP],
                                                             .compare = v[URO_FIELD_COMPARE] });
        pos += URO_ATOMIC_LEN;
    }
    if (ext & URO_EXT_AETH) {
        uro_aeth_encode(pos, &(struct uro_aeth){ .kind = (enum uro_aeth_kind)(syndrome >> 5 & 3),
                                                 .value = (uint8_t)(syndrome & 31),
                                                 .msn = (uint32_t)v[URO_FIELD_MSN] });
        pos[0] = (uint8_t)syndrome; /* the reserved top bit, too */
        pos += URO_AETH_LEN;
    }
    if (ext & URO_EXT_ATOMIC_ACK) {
        uro_put_be64(pos, v[URO_FIELD_ORIGINAL]);
        pos += URO_ATOMIC_ACK_LEN;
    }
    if (ext & URO_EXT_IMM) {
        uro_put_be32(pos, (uint32_t)v[URO_FIELD_IMM]);
        pos += URO_IMM_LEN;
    }
    if (ext & URO_EXT_INV) {
        uro_put_be32(pos, (uint32_t)v[URO_FIELD_INV]);
        pos += URO_INV_LEN;
    }
    if (ext & URO_EXT_CNP) {
        memset(pos, 0, URO_CNP_LEN);
        pos += URO_CNP_LEN;
    }
    return pos;
}

static uint8_t *write_octets(const struct uro_packet *packet, uint8_t *pos)
{
    for (uint32_t i = 0; i < packet->length; i++)
        pos[i] = packet->octets != NULL ? packet->octets[i]
                                        : uro_packet_pattern(packet->value[URO_FIELD_FILL] + i);
    return pos + packet->length;
}

/* Writes the IP and UDP headers for @length bytes after the UDP header. */
static void write_network(const struct uro_packet *packet, uint8_t *network, uint32_t length)
{
    const uint64_t *v = packet->value;
    const bool v6 = !uro_gid_is_ipv4(&packet->to);
    const struct uro_ip ip = { .v6 = v6,
                               .dont_fragment = !v6,
                               .traffic_class = (uint8_t)v[URO_FIELD_TOS],
                               .hop_limit = (uint8_t)v[URO_FIELD_TTL],
                               .protocol = URO_IPPROTO_UDP,
                               .flow_label = (uint32_t)v[URO_FIELD_FLOW],
                               .payload_length = (uint16_t)(URO_UDP_LEN + length),
                               .source = packet->from,
                               .dest = packet->to };
    const struct uro_udp udp = { .source_port = (uint16_t)v[URO_FIELD_SPORT],
                                 .dest_port = URO_ROCE_PORT,
                                 .length = v[URO_FIELD_UDPLENGTH] != 0
                                               ? (uint16_t)v[URO_FIELD_UDPLENGTH]
                                               : ip.payload_length,
                                 .checksum = (uint16_t)v[URO_FIELD_UDPSUM] };

    uro_udp_encode(network + uro_ip_put(network, &ip), &udp);
}

static uint8_t *write_icrc(const struct uro_packet *packet, const uint8_t *network, uint8_t *pos)
{
    const bool v6 = !uro_gid_is_ipv4(&packet->to);
    const uint64_t icrc = packet->value[URO_FIELD_ICRC];
    const uint32_t least = (v6 ? URO_IPV6_LEN : URO_IPV4_LEN) + URO_UDP_LEN + URO_BTH_LEN;
    const uint32_t length = (uint32_t)(pos - network);

    if (icrc == URO_PACKET_ICRC_NONE || length < least)
        return pos;
    const uint32_t right = uro_icrc(network, v6, length);
    uro_put_le32(pos, icrc == URO_PACKET_ICRC_BAD ? right ^ 1 : right);
    return pos + URO_ICRC_LEN;
}

uint32_t uro_packet_write(const struct uro_packet *packet, uint8_t out[static URO_PACKET_FRAME_MAX])
{
    const bool v6 = !uro_gid_is_ipv4(&packet->to);
    const struct uro_ether ether = { .dest = packet->to_mac,
                                     .source = packet->from_mac,
                                     .type = v6 ? URO_ETHERTYPE_IPV6 : URO_ETHERTYPE_IPV4 };
    const uint32_t pad = packet->op == NULL ? 0 : -packet->length & 3u;
    uint8_t *const network = out + uro_ether_put(out, &ether);
    uint8_t *const body = network + (v6 ? URO_IPV6_LEN : URO_IPV4_LEN) + URO_UDP_LEN;
    uint8_t *pos = body;

    URO_ASSERT(packet->length <= URO_PACKET_BYTES_MAX - 64);
    if (packet->op != NULL)
        pos = write_ext(packet, write_bth(packet, pos, pad));
    pos = write_octets(packet, pos);
    memset(pos, 0, pad);
    pos += pad;
    const uint64_t cut = packet->value[URO_FIELD_CUT];
    pos -= cut < (uint64_t)(pos - body) ? (ptrdiff_t)cut : pos - body;
    /* The ICRC covers the IP and UDP headers, whose lengths include the ICRC. */
    const bool summed = packet->value[URO_FIELD_ICRC] != URO_PACKET_ICRC_NONE &&
                        pos - body >= (ptrdiff_t)URO_BTH_LEN;
    write_network(packet, network, (uint32_t)(pos - body) + (summed ? URO_ICRC_LEN : 0));
    return (uint32_t)(write_icrc(packet, network, pos) - out);
}

static void read_bth(uint64_t *v, const struct uro_bth *bth)
{
    v[URO_FIELD_OPCODE] = bth->opcode;
    v[URO_FIELD_SE] = bth->solicited;
    v[URO_FIELD_MIGREQ] = bth->migrated;
    v[URO_FIELD_PAD] = bth->pad_count;
    v[URO_FIELD_TVER] = bth->version;
    v[URO_FIELD_PKEY] = bth->pkey;
    v[URO_FIELD_FECN] = bth->fecn;
    v[URO_FIELD_BECN] = bth->becn;
    v[URO_FIELD_QPN] = bth->dest_qpn;
    v[URO_FIELD_ACKREQ] = bth->ack_req;
    v[URO_FIELD_PSN] = bth->psn;
}

static void read_ext(uint64_t *v, const struct uro_frame *frame)
{
    const bool atomic = (frame->op->ext & URO_EXT_ATOMIC) != 0;

    v[URO_FIELD_SRQN] = frame->xrc_srqn;
    v[URO_FIELD_QKEY] = frame->deth.qkey;
    v[URO_FIELD_SQPN] = frame->deth.source_qpn;
    v[URO_FIELD_PLACEMENT] = frame->feth.placement;
    v[URO_FIELD_SELECTIVITY] = frame->feth.selectivity;
    v[URO_FIELD_VA] = atomic ? frame->atomic.va : frame->reth.va;
    v[URO_FIELD_RKEY] = atomic ? frame->atomic.rkey : frame->reth.rkey;
    v[URO_FIELD_DMALEN] = frame->reth.length;
    v[URO_FIELD_SWAP] = frame->atomic.swap_add;
    v[URO_FIELD_COMPARE] = frame->atomic.compare;
    v[URO_FIELD_SYNDROME] = (uint64_t)frame->aeth.kind << 5 | frame->aeth.value;
    v[URO_FIELD_MSN] = frame->aeth.msn;
    v[URO_FIELD_ORIGINAL] = frame->atomic_ack;
    v[URO_FIELD_IMM] = uro_get_be32((const uint8_t *)&frame->imm);
    v[URO_FIELD_INV] = frame->inv_rkey;
}

void uro_packet_read(struct uro_packet *packet, const struct uro_frame *frame)
{
    uint64_t *v = packet->value;

    *packet = (struct uro_packet){ .op = frame->op,
                                   .from = frame->ip.source,
                                   .to = frame->ip.dest,
                                   .octets = frame->payload,
                                   .length = frame->payload_length };
    read_bth(v, &frame->bth);
    read_ext(v, frame);
    v[URO_FIELD_RESV6] = frame->body[AT_RESERVED6] & 0x3fu;
    v[URO_FIELD_RESV7] = frame->body[AT_RESERVED7] & 0x7fu;
    v[URO_FIELD_LENGTH] = frame->payload_length;
    v[URO_FIELD_TTL] = frame->ip.hop_limit;
    v[URO_FIELD_TOS] = frame->ip.traffic_class;
    v[URO_FIELD_FLOW] = frame->ip.flow_label;
    v[URO_FIELD_SPORT] = frame->udp.source_port;
    v[URO_FIELD_UDPSUM] = frame->udp.checksum;
    v[URO_FIELD_UDPLENGTH] = frame->udp.length;
}
