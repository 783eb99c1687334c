/* SPDX-License-Identifier: BSD-3-Clause */
/* capture_decode.c - decodes one captured frame, which may be truncated; see
 * capture.h. */
#include <string.h>

#include "capture/capture.h"
#include "wire/frame.h"
#include "wire/icrc.h"

#define FRAME_MAX 65600u /* bytes of the largest IP packet and its link header, and some reserve */
#define QPN_GSI   1u

/* bytes of the longest packet that is searched for, from the IP header on */
#define PACKET_MAX 4400u
#define SHORTEST   (URO_BTH_LEN + URO_ICRC_LEN)

#define BTH_FLAGS    4u /* offsets of the bytes of the BTH that have reserved bits */
#define BTH_ACK      8u
#define CONGESTION   0xc0u /* FECN and BECN in byte 4 */
#define RESERVED_4   0x3fu
#define RESERVED_8   0x7fu
#define SYNDROME_TOP 0x80u

/* Returns the frame at its full length. A truncated frame is copied to @scratch and filled with
 * zeros. */
static const uint8_t *whole_frame(const struct uro_pcap_read_frame *frame, uint8_t *scratch,
                                  uint32_t *length)
{
    *length = frame->pkt.length;
    if (frame->length <= frame->pkt.length)
        return frame->pkt.octets;
    const uint32_t stored = frame->pkt.length < FRAME_MAX ? frame->pkt.length : FRAME_MAX;
    *length = frame->length < FRAME_MAX ? frame->length : FRAME_MAX;
    memcpy(scratch, frame->pkt.octets, stored);
    memset(scratch + stored, 0, *length - stored);
    return scratch;
}

/* Decodes up to UDP. Replaces the UDP checksum by 0 if the network card computes it later, or if
 * the frame is truncated. */
static enum uro_frame_result decode_network(const uint8_t **octets, uint32_t length, bool cut,
                                            uint8_t *scratch, struct uro_frame *decoded)
{
    const enum uro_frame_result result = uro_frame_network(*octets, length, decoded);

    if (result != URO_FRAME_UDP_CHECKSUM || length > FRAME_MAX)
        return result;
    const uint32_t sum = uro_ip_pseudo_sum(&decoded->ip, URO_IPPROTO_UDP, decoded->udp.length);
    const uint16_t partial = (uint16_t)~uro_ip_sum_finish(sum);
    if (!cut && decoded->udp.checksum != partial)
        return result;
    const size_t header =
        (size_t)(decoded->network - *octets) + (decoded->ip.v6 ? URO_IPV6_LEN : URO_IPV4_LEN);
    if (*octets != scratch)
        memcpy(scratch, *octets, length);
    memset(scratch + header + 6, 0, sizeof(uint16_t));
    *octets = scratch;
    return uro_frame_network(scratch, length, decoded);
}

static uint32_t icrc_flaws(const struct uro_frame *frame)
{
    const uint8_t *end = frame->body + frame->body_length - URO_ICRC_LEN;
    const size_t length = (size_t)(end - frame->network);

    if (uro_get_be32(end) == uro_icrc(frame->network, frame->ip.v6, length))
        return URO_FLAW_ICRC | URO_FLAW_ICRC_ORDER;
    if (frame->bth.pad_count > 0 &&
        uro_get_le32(end) == uro_icrc(frame->network, frame->ip.v6, length - frame->bth.pad_count))
        return URO_FLAW_ICRC | URO_FLAW_ICRC_PAD;
    return URO_FLAW_ICRC;
}

/* Returns whether the packet at @network has a correct ICRC if it ends after @length bytes of UDP
 * payload. Changes the lengths in the packet's headers. Returns false when the budget is used
 * up. */
static bool ends_after(uint8_t *network, bool v6, uint32_t length,
                       struct uro_capture_joined *joined)
{
    const uint32_t ip = v6 ? URO_IPV6_LEN : URO_IPV4_LEN;
    const uint32_t udp = URO_UDP_LEN + length;
    const size_t summed = ip + udp - URO_ICRC_LEN;

    if (joined->budget < udp)
        return false;
    joined->budget -= udp;
    uro_put_be16(network + (v6 ? 4 : 2), (uint16_t)(v6 ? udp : ip + udp));
    uro_put_be16(network + ip + 4, (uint16_t)udp);
    return uro_get_le32(network + summed) == uro_icrc(network, v6, summed);
}

/* Returns the UDP payload length of the first packet if the frame begins with a shorter packet that
 * has a correct ICRC. Such a frame contains several packets, which the kernel has not split yet, or
 * has joined already. Returns 0 if the frame is one packet. */
static uint32_t joined_length(const struct uro_frame *frame, struct uro_capture_joined *joined)
{
    static _Thread_local uint8_t packet[PACKET_MAX];
    const bool v6 = frame->ip.v6;
    const uint32_t headers = (v6 ? URO_IPV6_LEN : URO_IPV4_LEN) + URO_UDP_LEN;
    const uint32_t most = PACKET_MAX - headers, body = frame->body_length;
    const uint32_t end = body < most ? body : most;

    if (body < 2 * SHORTEST)
        return 0;
    memcpy(packet, frame->network, headers + end);
    for (uint32_t i = 0; i < URO_ARRAY_LEN(joined->lengths); i++) {
        const uint32_t length = joined->lengths[i];
        if (length >= SHORTEST && length <= end && length + SHORTEST <= body &&
            ends_after(packet, v6, length, joined))
            return length;
    }
    for (uint32_t length = SHORTEST; length <= end && length + SHORTEST <= body; length += 4) {
        if (!ends_after(packet, v6, length, joined))
            continue;
        joined->lengths[joined->number++ % URO_ARRAY_LEN(joined->lengths)] = length;
        return length;
    }
    return 0;
}

static uint32_t flaws_of(enum uro_frame_result result, const struct uro_frame *frame)
{
    if (result == URO_FRAME_OPCODE)
        return URO_FLAW_OPCODE;
    if (result == URO_FRAME_VERSION)
        return URO_FLAW_VERSION;
    return result == URO_FRAME_ICRC ? icrc_flaws(frame) : URO_FLAW_LENGTH;
}

/* Returns the flaws of a CNP: a BECN bit that is clear, or a reserved byte that is not zero. All 16
 * bytes after the BTH are reserved. */
static uint32_t cnp_flaws(const struct uro_frame *frame)
{
    const uint8_t *rest = frame->body + URO_BTH_LEN;
    uint32_t flaws = frame->bth.becn ? 0 : URO_FLAW_BECN;

    for (uint32_t i = 0; i < URO_CNP_LEN; i++)
        if (rest[i] != 0)
            flaws |= URO_FLAW_RESERVED;
    return flaws;
}

static uint32_t reserved_flaws(const struct uro_frame *frame)
{
    const bool cnp = frame->op->operation == URO_NOTIFY;
    uint32_t flaws = cnp ? cnp_flaws(frame) : 0;

    if ((frame->body[BTH_FLAGS] & (cnp ? RESERVED_4 : RESERVED_4 | CONGESTION)) != 0 ||
        (frame->body[BTH_ACK] & RESERVED_8) != 0)
        flaws |= URO_FLAW_RESERVED;
    if (frame->op->ext & URO_EXT_AETH && frame->body[URO_BTH_LEN] & SYNDROME_TOP)
        flaws |= URO_FLAW_RESERVED;
    return flaws;
}

/* Returns the flaws of a packet whose ICRC was accepted, or cannot be checked. */
static uint32_t small_flaws(const struct uro_frame *frame, bool cut)
{
    uint32_t flaws = reserved_flaws(frame);

    if ((frame->payload_length + frame->bth.pad_count) % 4 != 0)
        flaws |= URO_FLAW_PAD;
    if (frame->op->service == URO_UD && frame->bth.dest_qpn == QPN_GSI &&
        (frame->payload_length != URO_MAD_LEN || frame->deth.qkey != URO_CM_QKEY))
        flaws |= URO_FLAW_GSI;
    if (uro_gid_is_multicast(&frame->ip.dest) && frame->bth.dest_qpn != URO_QPN_MULTICAST)
        flaws |= URO_FLAW_GROUP;
    if (!cut && frame->op->operation == URO_FLUSH) {
        const uint8_t *end = frame->body + frame->body_length - URO_ICRC_LEN;
        const size_t length = (size_t)(end - frame->network);
        if (uro_get_le32(end) != uro_icrc(frame->network, frame->ip.v6, length))
            flaws |= URO_FLAW_ICRC_FLUSH;
    }
    return flaws;
}

static void fill_bth(struct uro_capture_packet *packet, const struct uro_frame *frame)
{
    packet->opcode = frame->bth.opcode;
    packet->dest_qpn = frame->bth.dest_qpn;
    packet->psn = frame->bth.psn;
    packet->ack_req = frame->bth.ack_req;
    packet->migrated = frame->bth.migrated;
    packet->congestion = frame->ip.traffic_class % 4 == 3;
    packet->icrc = uro_get_le32(frame->body + frame->body_length - URO_ICRC_LEN);
}

static void fill_ext(struct uro_capture_packet *packet, const struct uro_frame *frame)
{
    const unsigned ext = frame->op->ext;

    packet->payload = frame->payload_length;
    if (ext & URO_EXT_RETH) {
        packet->va = frame->reth.va;
        packet->rkey = frame->reth.rkey;
        packet->message_length = frame->reth.length;
    }
    if (ext & URO_EXT_ATOMIC) {
        packet->va = frame->atomic.va;
        packet->rkey = frame->atomic.rkey;
    }
    if (ext & URO_EXT_AETH) {
        packet->aeth_kind = (uint8_t)frame->aeth.kind;
        packet->aeth_value = frame->aeth.value;
        packet->msn = frame->aeth.msn;
    }
    packet->source_qpn = ext & URO_EXT_DETH ? frame->deth.source_qpn : URO_CAPTURE_NONE;
}

static void decode_roce(struct uro_frame *frame, const uint8_t *octets, uint32_t stored, bool cut,
                        struct uro_capture_packet *packet, struct uro_capture_link *link)
{
    frame->summed = cut;
    const enum uro_frame_result result = uro_frame_roce(frame);

    packet->kind = URO_CAPTURE_BAD;
    packet->flaws = URO_FLAW_LENGTH;
    if (frame->body_length < URO_BTH_LEN + URO_ICRC_LEN)
        return;
    if (cut && (result != URO_FRAME_OK || (size_t)(frame->payload - octets) > stored)) {
        packet->kind = URO_CAPTURE_CUT;
        packet->flaws = 0;
        return;
    }
    fill_bth(packet, frame);
    if (result == URO_FRAME_ICRC || result == URO_FRAME_LENGTH)
        link->first_length = joined_length(frame, link->joined);
    if (link->first_length != 0) {
        link->network = (uint32_t)(frame->network - octets);
        link->v6 = frame->ip.v6;
        packet->kind = URO_CAPTURE_JOINED;
        packet->flaws = 0;
        return;
    }
    if (result != URO_FRAME_OK) {
        packet->flaws = flaws_of(result, frame);
        return;
    }
    packet->kind = URO_CAPTURE_ROCE;
    packet->flaws = small_flaws(frame, cut);
    fill_ext(packet, frame);
}

bool uro_capture_decode(const struct uro_pcap_read_frame *frame, struct uro_capture_packet *packet,
                        struct uro_capture_link *link)
{
    static _Thread_local uint8_t scratch[FRAME_MAX];
    const bool cut = frame->length > frame->pkt.length;
    struct uro_frame decoded = { .op = NULL };
    uint32_t length;
    const uint8_t *octets = whole_frame(frame, scratch, &length);

    *link = (struct uro_capture_link){ .joined = link->joined };
    *packet = (struct uro_capture_packet){ .time = frame->time,
                                           .length = frame->length,
                                           .source = URO_CAPTURE_NONE,
                                           .dest = URO_CAPTURE_NONE,
                                           .flow = URO_CAPTURE_NONE,
                                           .source_qpn = URO_CAPTURE_NONE,
                                           .kind = URO_CAPTURE_OTHER };
    const enum uro_frame_result result = decode_network(&octets, length, cut, scratch, &decoded);
    const bool udp_bad = result == URO_FRAME_UDP_CHECKSUM;
    if ((result != URO_FRAME_OK && !udp_bad) || decoded.ether.type == URO_ETHERTYPE_ARP)
        return false;
    link->source = decoded.ip.source;
    link->dest = decoded.ip.dest;
    link->vlan = decoded.ether.tagged ? decoded.ether.tag & 0xfffu : 0;
    packet->identification = decoded.ip.identification;
    if (decoded.ip.protocol != URO_IPPROTO_UDP || decoded.udp.dest_port != URO_ROCE_PORT)
        return true;
    packet->source_port = decoded.udp.source_port;
    if (udp_bad) {
        packet->kind = URO_CAPTURE_BAD;
        packet->flaws = URO_FLAW_UDP_CHECKSUM;
        return true;
    }
    decode_roce(&decoded, octets, frame->pkt.length, cut, packet, link);
    if (!cut && packet->kind == URO_CAPTURE_ROCE && decoded.op->service == URO_UD)
        link->payload = decoded.payload;
    return true;
}
