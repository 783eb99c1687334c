/* SPDX-License-Identifier: BSD-3-Clause */
/* scene_wire.c - encodes the packets of the peer, and decodes those of the engine. */
#include "scene_wire.h"

#include <stdio.h>
#include <string.h>

#include "wire/arp.h"
#include "wire/frame.h"
#include "wire/icrc.h"
#include "wire/text.h"

#define SYNDROME_ACK 0x1f

static struct uro_gid address(const char *text)
{
    struct uro_gid gid;
    assert_true(uro_gid_parse(text, &gid));
    return gid;
}

uint32_t scene_arp_reply(const struct uro_mac *to, const struct uro_mac *from, const char *who,
                         uint8_t *out)
{
    const struct uro_ether ether = { .dest = *to, .source = *from, .type = URO_ETHERTYPE_ARP };
    const struct uro_arp arp = { .sender_mac = *from,
                                 .sender = address(who),
                                 .target_mac = *to,
                                 .target = address("10.0.0.1") };
    size_t at = uro_ether_put(out, &ether);
    uro_arp_encode(out + at, &arp);
    return (uint32_t)at + URO_ARP_LEN;
}

static uint8_t *put_ext(const struct scene_packet *packet, unsigned ext, uint8_t *at)
{
    if (ext & URO_EXT_XRCETH) {
        uro_put_be32(at, packet->srqn);
        at += URO_XRCETH_LEN;
    }
    if (ext & URO_EXT_DETH) {
        uro_deth_encode(at, &(const struct uro_deth){ packet->qkey, packet->source_qpn });
        at += URO_DETH_LEN;
    }
    if (ext & URO_EXT_FETH) {
        uro_feth_encode(at, &(const struct uro_feth){ packet->placement, packet->selectivity });
        at += URO_FETH_LEN;
    }
    if (ext & URO_EXT_RETH) {
        uro_reth_encode(at, &(const struct uro_reth){ packet->va, packet->rkey, packet->dma });
        at += URO_RETH_LEN;
    }
    if (ext & URO_EXT_ATOMIC) {
        uro_atomic_eth_encode(at,
                              &(const struct uro_atomic_eth){ packet->va, packet->rkey,
                                                              packet->swap_add, packet->compare });
        at += URO_ATOMIC_LEN;
    }
    if (ext & URO_EXT_AETH) {
        uint8_t syndrome = packet->syndrome != 0 ? packet->syndrome : SYNDROME_ACK;
        uro_put_be32(at, (uint32_t)syndrome << 24 | packet->msn);
        at += URO_AETH_LEN;
    }
    if (ext & URO_EXT_ATOMIC_ACK) {
        uro_put_be64(at, packet->original);
        at += URO_ATOMIC_ACK_LEN;
    }
    if (ext & URO_EXT_CNP) {
        memset(at, 0, URO_CNP_LEN);
        at += URO_CNP_LEN;
    }
    if (ext & (URO_EXT_IMM | URO_EXT_INV)) {
        memcpy(at, &packet->imm, URO_IMM_LEN);
        at += URO_IMM_LEN;
    }
    return at;
}

static uint8_t *put_payload(const struct scene_packet *packet, uint8_t *at)
{
    if (packet->text != NULL) {
        memcpy(at, packet->text, strlen(packet->text));
        return at + strlen(packet->text);
    }
    if (packet->octets != NULL)
        memcpy(at, packet->octets, packet->length);
    else
        scene_fill(at, packet->fill, packet->length);
    return at + packet->length;
}

static uint32_t icrc_of(const struct scene_packet *packet, const uint8_t *network, bool v6,
                        size_t length)
{
    return packet->rxe_icrc ? uro_icrc_rxe_flush(network, v6, length)
                            : uro_icrc(network, v6, length);
}

uint32_t scene_wire_build(const struct scene_packet *packet, const struct uro_mac *to,
                          const struct uro_mac *from, uint8_t *out)
{
    int opcode = uro_opcode_by_name(packet->op);
    uint8_t body[8192];
    uint8_t *at = body + URO_BTH_LEN;

    if (opcode < 0)
        fail_msg("no opcode %s in wire/opcode.c", packet->op);
    at = put_ext(packet, uro_opcodes[opcode].ext, at);
    uint8_t *payload = at;
    at = put_payload(packet, at);
    uint8_t pad = (uint8_t)(((uint32_t) - (at - payload) & 3u));
    if (packet->pad != 0)
        pad = (uint8_t)packet->pad & 3;
    memset(at, 0, pad);
    at += pad;
    uro_bth_encode(
        body, &(const struct uro_bth){ .opcode = (uint8_t)opcode,
                                       .solicited = packet->solicited,
                                       .migrated = !packet->rxe,
                                       .pad_count = pad,
                                       .version = packet->version,
                                       .pkey = packet->pkey != 0 ? packet->pkey : URO_PKEY_DEFAULT,
                                       .dest_qpn = packet->qpn,
                                       .ack_req = packet->ack_req,
                                       .psn = packet->psn });

    uint32_t udp_length = URO_UDP_LEN + (uint32_t)(at - body) + URO_ICRC_LEN;
    const struct uro_gid dest = address(packet->to);
    const bool v6 = !uro_gid_is_ipv4(&dest);
    const struct uro_ip ip = { .v6 = v6,
                               .dont_fragment = true,
                               .traffic_class = packet->ce ? 3 : packet->ect,
                               .hop_limit = 64,
                               .protocol = URO_IPPROTO_UDP,
                               .payload_length = (uint16_t)udp_length,
                               .source = address(packet->from),
                               .dest = dest };
    const struct uro_ether ether = { .dest = *to,
                                     .source = *from,
                                     .type = v6 ? URO_ETHERTYPE_IPV6 : URO_ETHERTYPE_IPV4 };
    uint8_t *to_network = out + uro_ether_put(out, &ether);
    uint8_t *end = to_network + uro_ip_put(to_network, &ip);
    uro_udp_encode(end, &(const struct uro_udp){ 0xc000, URO_ROCE_PORT, (uint16_t)udp_length, 0 });
    end += URO_UDP_LEN;
    memcpy(end, body, (size_t)(at - body));
    end += at - body;
    uro_put_le32(end, icrc_of(packet, to_network, v6, (size_t)(end - to_network)));
    return (uint32_t)(end + URO_ICRC_LEN - out);
}

void scene_wire_fail(const char *why, const uint8_t *frame, uint32_t length)
{
    char line[URO_TEXT_LINE_MAX];

    (void)uro_text_line(frame, length, line);
    fail_msg("%s: %s", why, line);
}

static void compare_ext(const struct scene_packet *packet, const struct uro_frame *frame)
{
    unsigned ext = frame->op->ext;

    if (ext & URO_EXT_XRCETH)
        assert_int_equal(frame->xrc_srqn, packet->srqn);
    if (ext & URO_EXT_DETH) {
        assert_int_equal(frame->deth.qkey, packet->qkey);
        assert_int_equal(frame->deth.source_qpn, packet->source_qpn);
    }
    if (ext & URO_EXT_AETH) {
        uint8_t syndrome = packet->syndrome != 0 ? packet->syndrome : SYNDROME_ACK;
        assert_int_equal((unsigned)frame->aeth.kind << 5 | frame->aeth.value, syndrome);
        assert_int_equal(frame->aeth.msn, packet->msn);
    }
    if (ext & URO_EXT_FETH) {
        assert_int_equal(frame->feth.placement, packet->placement);
        assert_int_equal(frame->feth.selectivity, packet->selectivity);
    }
    if (ext & URO_EXT_RETH) {
        assert_int_equal(frame->reth.va, packet->va);
        assert_int_equal(frame->reth.rkey, packet->rkey);
        assert_int_equal(frame->reth.length, packet->dma);
    }
    if (ext & URO_EXT_ATOMIC) {
        assert_int_equal(frame->atomic.va, packet->va);
        assert_int_equal(frame->atomic.rkey, packet->rkey);
        assert_int_equal(frame->atomic.swap_add, packet->swap_add);
        assert_int_equal(frame->atomic.compare, packet->compare);
    }
    if (ext & URO_EXT_ATOMIC_ACK)
        assert_int_equal(frame->atomic_ack, packet->original);
    if (ext & URO_EXT_IMM)
        assert_int_equal(frame->imm, packet->imm);
    if (ext & URO_EXT_INV)
        assert_int_equal(frame->inv_rkey, uro_get_be32((const uint8_t *)&packet->imm));
}

void scene_wire_compare(const struct scene_packet *packet, const uint8_t *octets, uint32_t length)
{
    struct uro_frame frame;
    uint8_t payload[8192];

    if (uro_frame_network(octets, length, &frame) != URO_FRAME_OK ||
        uro_frame_roce(&frame) != URO_FRAME_OK)
        scene_wire_fail("the engine sent a malformed frame", octets, length);
    if (strcmp(frame.op->name, packet->op) != 0 || frame.bth.psn != packet->psn ||
        frame.bth.ack_req != packet->ack_req) {
        char why[128];
        (void)snprintf(why, sizeof why, "expected %s psn %u%s, but sent", packet->op, packet->psn,
                       packet->ack_req ? " ack" : "");
        scene_wire_fail(why, octets, length);
    }
    assert_int_equal(frame.bth.solicited, packet->solicited);
    assert_int_equal(frame.bth.becn, frame.op->service == URO_CNP);
    assert_int_equal(frame.bth.dest_qpn, packet->qpn);
    const struct uro_gid dest = address(packet->to);
    assert_memory_equal(&frame.ip.dest, &dest, sizeof dest);
    compare_ext(packet, &frame);

    size_t summed = (size_t)(octets + length - URO_ICRC_LEN - frame.network);
    assert_int_equal(uro_get_le32(frame.network + summed),
                     icrc_of(packet, frame.network, frame.ip.v6, summed));

    uint32_t want = (uint32_t)(put_payload(packet, payload) - payload);
    if (frame.payload_length != want || memcmp(frame.payload, payload, want) != 0)
        scene_wire_fail("wrong payload", octets, length);
}
