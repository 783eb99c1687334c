/* SPDX-License-Identifier: BSD-3-Clause */
/* frame.h - a received frame as plain values: link and network first, then the RoCE packet.
 *
 * There are two steps: uro_frame_network() reads every frame, uro_frame_roce() only frames to UDP
 * port 4791.
 */
#pragma once

#include "wire/bth.h"
#include "wire/ether.h"
#include "wire/ext.h"
#include "wire/ip.h"
#include "wire/opcode.h"

enum uro_frame_result {
    URO_FRAME_OK,
    URO_FRAME_SHORT,
    URO_FRAME_ETHER_TYPE,
    URO_FRAME_IP_BAD,
    URO_FRAME_IP_CHECKSUM,
    URO_FRAME_IP_OPTIONS,
    URO_FRAME_IP_FRAGMENT,
    URO_FRAME_UDP_LENGTH,
    URO_FRAME_UDP_CHECKSUM,
    URO_FRAME_OPCODE,  /* reserved or unsupported opcode */
    URO_FRAME_LENGTH,  /* too short for the opcode, or a payload that the opcode does not have */
    URO_FRAME_VERSION, /* BTH transport version not 0 */
    URO_FRAME_ICRC,
    URO_FRAME_RESULT_COUNT
};

/* A decoded frame. Pointers refer to the received octets; other members are copies in host order.
 * Only the extension headers of op->ext are set. */
struct uro_frame {
    struct uro_ether ether;
    struct uro_ip ip; /* unset when ether.type is ARP */
    struct uro_udp udp;
    const uint8_t *network; /* first octet of the IP header or of the ARP message */
    const uint8_t *body;    /* payload of IP, or of UDP */
    uint32_t body_length;
    bool summed; /* the port has checked the ICRC; false after uro_frame_network() */
    /* The IP header in the memory that has the payload (core/pkt.h), when only the head was copied.
     * Otherwise, and after uro_frame_network(), NULL. */
    const uint8_t *indirect;

    const struct uro_opcode *op;
    struct uro_bth bth;
    uint32_t xrc_srqn;
    struct uro_deth deth;
    struct uro_feth feth;
    struct uro_reth reth;
    struct uro_atomic_eth atomic;
    struct uro_aeth aeth;
    uint64_t atomic_ack; /* original remote value */
    uint32_t imm;        /* the four octets in network byte order */
    uint32_t inv_rkey;
    const uint8_t *payload;
    uint32_t payload_length; /* without padding */
};

/* Returns the length of the packet in bytes, from the IP header to the ICRC. */
static inline uint32_t uro_frame_packet_length(const struct uro_frame *frame)
{
    return (uint32_t)(frame->body - frame->network) + frame->body_length;
}

#define URO_FRAME_HEAD 128u /* octets; larger than all headers together */

/* Returns whether the frame of @length octets, URO_FRAME_HEAD or more, is a RoCE packet that fills
 * the frame, may have payload, has no VLAN tag and no UDP checksum, and is not for QP1. @head: its
 * first octets. */
URO_NODISCARD bool uro_frame_is_data(const uint8_t head[static URO_FRAME_HEAD], uint32_t length);

/* Reads Ethernet, then IPv4 or IPv6, then UDP if present. UDP checksum 0 is accepted for both IP
 * versions. For ARP the body is the ARP message. For other IP protocols the body is the payload of
 * IP. */
URO_NODISCARD enum uro_frame_result uro_frame_network(const uint8_t *octets, uint32_t length,
                                                      struct uro_frame *frame);

/* Reads BTH, extension headers, padding and, unless summed, the ICRC of a frame whose UDP port is
 * 4791. A FLUSH may have the standard ICRC or the ICRC of rxe (docs/PROTOCOL.md, ICRC.FLUSH). */
URO_NODISCARD enum uro_frame_result uro_frame_roce(struct uro_frame *frame);

const char *uro_frame_result_text(enum uro_frame_result result);
