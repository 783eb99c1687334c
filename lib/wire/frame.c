/* SPDX-License-Identifier: BSD-3-Clause */
/* frame.c - the two steps of reading a received frame; see frame.h. */
#include "wire/frame.h"

#include "base/mark.h"
#include "wire/icrc.h"

#define QPN_GSI 1u /* connection managers parse all packets to QP1 */

static enum uro_frame_result of_ip_result(enum uro_ip_result result)
{
    switch (result) {
    case URO_IP_OK:
        return URO_FRAME_OK;
    case URO_IP_SHORT:
        return URO_FRAME_SHORT;
    case URO_IP_BAD:
        return URO_FRAME_IP_BAD;
    case URO_IP_CHECKSUM:
        return URO_FRAME_IP_CHECKSUM;
    case URO_IP_OPTIONS:
        return URO_FRAME_IP_OPTIONS;
    case URO_IP_FRAGMENT:
        return URO_FRAME_IP_FRAGMENT;
    }
    return URO_FRAME_IP_BAD;
}

/* Returns whether the UDP checksum is right. The sum over all octets and the checksum is then 0. */
static bool udp_sum_right(const struct uro_ip *ip, const uint8_t *udp, uint32_t length)
{
    const uint32_t pseudo = uro_ip_pseudo_sum(ip, URO_IPPROTO_UDP, length);
    return uro_ip_sum_finish(uro_ip_sum(pseudo, udp, length)) == 0;
}

/* Takes the UDP header. Octets of the IP packet after the UDP length are ignored. */
static enum uro_frame_result take_udp(struct uro_reader *reader, struct uro_frame *frame)
{
    const uint8_t *in = uro_take(reader, URO_UDP_LEN);
    if (in == NULL)
        return URO_FRAME_SHORT;

    uro_udp_decode(in, &frame->udp);
    if (frame->udp.length < URO_UDP_LEN || frame->udp.length > frame->ip.payload_length)
        return URO_FRAME_UDP_LENGTH;
    if (frame->udp.checksum != 0 && !udp_sum_right(&frame->ip, in, frame->udp.length)) {
        URO_MARK("IP.UDP.CHECKSUM");
        return URO_FRAME_UDP_CHECKSUM;
    }
    reader->end = in + frame->udp.length;
    return URO_FRAME_OK;
}

static enum uro_frame_result take_ip(struct uro_reader *reader, struct uro_frame *frame)
{
    const bool v6 = frame->ether.type == URO_ETHERTYPE_IPV6;

    if (!v6 && uro_ip_take_plain(reader, &frame->ip, &frame->udp))
        return URO_FRAME_OK;
    const enum uro_ip_result result = uro_ip_take(reader, v6, &frame->ip);

    if (result != URO_IP_OK)
        return of_ip_result(result);
    if (frame->ip.protocol != URO_IPPROTO_UDP)
        return URO_FRAME_OK;
    return take_udp(reader, frame);
}

enum uro_frame_result uro_frame_network(const uint8_t *octets, uint32_t length,
                                        struct uro_frame *frame)
{
    struct uro_reader reader = { octets, octets + length };

    frame->summed = false;
    frame->indirect = NULL;
    if (!uro_ether_take(&reader, &frame->ether))
        return URO_FRAME_SHORT;
    frame->network = reader.pos;

    enum uro_frame_result result = URO_FRAME_OK;
    if (frame->ether.type == URO_ETHERTYPE_IPV4 || frame->ether.type == URO_ETHERTYPE_IPV6)
        result = take_ip(&reader, frame);
    else if (frame->ether.type != URO_ETHERTYPE_ARP)
        result = URO_FRAME_ETHER_TYPE;

    frame->body = reader.pos;
    frame->body_length = (uint32_t)(reader.end - reader.pos);
    return result;
}

/* Decodes the extension headers in their order on the wire. Returns the end of the headers. The
 * caller has checked that the packet contains them. */
static const uint8_t *decode_ext(const uint8_t *pos, const struct uro_opcode *op,
                                 struct uro_frame *frame)
{
    const uint8_t *const end = pos + op->ext_length;

    for (unsigned left = op->ext; left != 0; left &= left - 1) {
        switch (left & -left) {
        case URO_EXT_XRCETH:
            frame->xrc_srqn = uro_get_be24(pos + 1); /* offset 1, after a reserved octet */
            pos += URO_XRCETH_LEN;
            break;
        case URO_EXT_DETH:
            uro_deth_decode(pos, &frame->deth);
            pos += URO_DETH_LEN;
            break;
        case URO_EXT_FETH:
            uro_feth_decode(pos, &frame->feth);
            pos += URO_FETH_LEN;
            break;
        case URO_EXT_RETH:
            uro_reth_decode(pos, &frame->reth);
            pos += URO_RETH_LEN;
            break;
        case URO_EXT_ATOMIC:
            uro_atomic_eth_decode(pos, &frame->atomic);
            pos += URO_ATOMIC_LEN;
            break;
        case URO_EXT_AETH:
            uro_aeth_decode(pos, &frame->aeth);
            pos += URO_AETH_LEN;
            break;
        case URO_EXT_ATOMIC_ACK:
            frame->atomic_ack = uro_get_be64(pos);
            pos += URO_ATOMIC_ACK_LEN;
            break;
        case URO_EXT_IMM:
            memcpy(&frame->imm, pos, URO_IMM_LEN);
            pos += URO_IMM_LEN;
            break;
        case URO_EXT_INV:
            frame->inv_rkey = uro_get_be32(pos);
            pos += URO_INV_LEN;
            break;
        default: /* reserved bytes of a CNP */
            break;
        }
    }
    return end;
}

/* No octet is read before the length is checked.
 *
 * Decodes everything between the UDP header and the ICRC. frame->op stays NULL for an unknown
 * opcode. frame->payload stays NULL if the packet is refused. */
static enum uro_frame_result decode_roce(struct uro_frame *frame)
{
    const uint8_t *const end = frame->body + frame->body_length - URO_ICRC_LEN;
    const uint8_t *pos = frame->body + URO_BTH_LEN;

    uro_bth_decode(frame->body, &frame->bth);
    const struct uro_opcode *op = &uro_opcodes[frame->bth.opcode];
    if (op->name == NULL) {
        URO_MARK("WIRE.ANY");
        return URO_FRAME_OPCODE;
    }
    frame->op = op;
    if (frame->bth.version != 0) {
        URO_MARK("WIRE.TVER");
        return URO_FRAME_VERSION;
    }

    if (op->ext != 0) {
        if ((size_t)(end - pos) < op->ext_length)
            return URO_FRAME_LENGTH;
        pos = decode_ext(pos, op, frame);
    }
    const size_t rest = (size_t)(end - pos);
    if (rest < frame->bth.pad_count || (rest != 0 && !op->payload)) {
        URO_MARK("WIRE.LENGTH");
        return URO_FRAME_LENGTH;
    }

    frame->payload = frame->indirect == NULL ? pos : frame->indirect + (pos - frame->network);
    frame->payload_length = (uint32_t)rest - frame->bth.pad_count;
    return URO_FRAME_OK;
}

static bool icrc_right_apart(const struct uro_frame *frame)
{
    const size_t headers = (size_t)(frame->payload - frame->indirect);
    const size_t rest = frame->payload_length + frame->bth.pad_count;

    return uro_icrc_apart(frame->network, frame->ip.v6, headers, frame->payload, rest) ==
           uro_get_le32(frame->payload + rest);
}

static bool icrc_right(const struct uro_frame *frame)
{
    const uint8_t *const end = frame->body + frame->body_length - URO_ICRC_LEN;
    const size_t length = (size_t)(end - frame->network);
    const uint32_t found = uro_get_le32(end);

    if (frame->summed || uro_icrc(frame->network, frame->ip.v6, length) == found)
        return true;
    if (frame->op == NULL || frame->op->operation != URO_FLUSH ||
        uro_icrc_rxe_flush(frame->network, frame->ip.v6, length) != found)
        return false;
    URO_MARK("ICRC.FLUSH");
    return true;
}

enum uro_frame_result uro_frame_roce(struct uro_frame *frame)
{
    frame->op = NULL;
    frame->payload = NULL;
    frame->payload_length = 0;
    if (frame->body_length < URO_BTH_LEN + URO_ICRC_LEN)
        return URO_FRAME_LENGTH;

    const enum uro_frame_result result = decode_roce(frame);
    URO_ASSERT(frame->indirect == NULL || result == URO_FRAME_OK);
    if (frame->indirect == NULL ? !icrc_right(frame) : !icrc_right_apart(frame)) {
        URO_MARK("ICRC.CHECK");
        return URO_FRAME_ICRC; /* other fields of the packet may be damaged, too */
    }
    return result;
}

/* Returns the number of octets before the BTH of a UDP packet that fills the frame, or 0 for other
 * frames. */
static uint32_t before_bth(const uint8_t *head, uint32_t length)
{
    const uint8_t *network = head + URO_ETHER_LEN;
    const uint16_t type = uro_get_be16(network - 2);
    uint32_t offset = URO_ETHER_LEN;

    if (type == URO_ETHERTYPE_IPV4 && network[0] == 0x45 && network[9] == URO_IPPROTO_UDP &&
        uro_get_be16(network + 2) == length - offset)
        offset += URO_IPV4_LEN;
    else if (type == URO_ETHERTYPE_IPV6 && network[6] == URO_IPPROTO_UDP &&
             uro_get_be16(network + 4) == length - offset - URO_IPV6_LEN)
        offset += URO_IPV6_LEN;
    else
        return 0;
    const uint8_t *udp = head + offset;
    offset += URO_UDP_LEN;
    return uro_get_be16(udp + 2) == URO_ROCE_PORT && uro_get_be16(udp + 6) == 0 &&
                   uro_get_be16(udp + 4) == length - offset + URO_UDP_LEN
               ? offset
               : 0;
}

bool uro_frame_is_data(const uint8_t head[static URO_FRAME_HEAD], uint32_t length)
{
    const uint32_t offset = before_bth(head, length);
    struct uro_bth bth;

    if (offset == 0)
        return false;
    uro_bth_decode(head + offset, &bth);
    const struct uro_opcode *op = &uro_opcodes[bth.opcode];
    if (op->name == NULL || !op->payload || bth.version != 0 || bth.dest_qpn == QPN_GSI)
        return false;
    return offset + URO_BTH_LEN + op->ext_length + bth.pad_count + URO_ICRC_LEN <= length;
}

const char *uro_frame_result_text(enum uro_frame_result result)
{
    static const char *const texts[URO_FRAME_RESULT_COUNT] = {
        [URO_FRAME_OK] = "good",
        [URO_FRAME_SHORT] = "shorter than its headers say",
        [URO_FRAME_ETHER_TYPE] = "neither IPv4, IPv6 nor ARP",
        [URO_FRAME_IP_BAD] = "malformed IP header",
        [URO_FRAME_IP_CHECKSUM] = "wrong IPv4 header checksum",
        [URO_FRAME_IP_OPTIONS] = "IPv4 options or IPv6 extension headers",
        [URO_FRAME_IP_FRAGMENT] = "IP fragment",
        [URO_FRAME_UDP_LENGTH] = "UDP length disagrees with the IP length",
        [URO_FRAME_UDP_CHECKSUM] = "wrong UDP checksum",
        [URO_FRAME_OPCODE] = "unknown opcode",
        [URO_FRAME_LENGTH] = "length does not fit the opcode",
        [URO_FRAME_VERSION] = "transport version not 0",
        [URO_FRAME_ICRC] = "wrong ICRC",
    };
    URO_ASSERT(result < URO_FRAME_RESULT_COUNT);
    return texts[result];
}
