/* SPDX-License-Identifier: BSD-3-Clause */
/* icmp.h - ICMP and ICMPv6 echo and "port unreachable" (RFC 792, 4443), and neighbour discovery
 * (RFC 4861). */
#pragma once

#include "wire/ip.h"

#define URO_ICMP_ECHO_HEADER 8u
#define URO_ND_LEN           32u /* solicitation or advertisement with one link-layer option */

enum uro_icmp_kind {
    URO_ICMP_OTHER, /* valid, but not used by uroce */
    URO_ICMP_ECHO_REQUEST,
    URO_ICMP_ECHO_REPLY,
    URO_ICMP_NEIGHBOR_SOLICIT,
    URO_ICMP_NEIGHBOR_ADVERT,
    URO_ICMP_NO_PORT, /* port unreachable, for a RoCE packet that we sent */
};

struct uro_icmp {
    enum uro_icmp_kind kind;
    uint16_t echo_id; /* echo only */
    uint16_t echo_seq;
    const uint8_t *echo_data;
    uint32_t echo_length;
    struct uro_gid target; /* neighbour messages only */
    bool has_mac;          /* the link-layer address option is present */
    struct uro_mac mac;
    bool solicited; /* advertisements */
    bool override;
    struct uro_gid source; /* NO_PORT: addresses of the undelivered packet */
    struct uro_gid dest;
    const uint8_t *quoted; /* NO_PORT: quoted octets, from the BTH on */
    uint32_t quoted_length;
};

/* Reads a message. @ip: the header before it. Returns false when the message is too short or its
 * checksum is wrong. Also returns false for an echo message whose code is not 0, and for a
 * neighbour message that is not valid by RFC 4861, for example with a hop limit other than 255. */
URO_NODISCARD bool uro_icmp_decode(const struct uro_ip *ip, const uint8_t *in, uint32_t length,
                                   struct uro_icmp *icmp);

/* Encodes an echo request or reply (ip->v6 chooses the protocol) with its checksum; @out has room
 * for URO_ICMP_ECHO_HEADER + echo_length octets. Returns the number of octets written. */
uint32_t uro_icmp_encode_echo(uint8_t *out, const struct uro_ip *ip, const struct uro_icmp *icmp);

/* Encodes a solicitation or advertisement with @icmp->mac as its option. */
void uro_icmp_encode_neighbor(uint8_t out[static URO_ND_LEN], const struct uro_ip *ip,
                              const struct uro_icmp *icmp);

/* Encodes NO_PORT for the packet that icmp->source, dest and quoted describe; @out has room for
 * URO_ICMP_NO_PORT_HEADERS and icmp->quoted_length octets. Returns the number of octets written. */
#define URO_ICMP_NO_PORT_HEADERS (URO_ICMP_ECHO_HEADER + URO_IPV6_LEN + URO_UDP_LEN)
uint32_t uro_icmp_encode_no_port(uint8_t *out, const struct uro_ip *ip,
                                 const struct uro_icmp *icmp);

/* Returns the solicited-node multicast address of @target, or the MAC address of any IP multicast
 * group. */
struct uro_gid uro_gid_solicited_node(const struct uro_gid *target);
struct uro_mac uro_mac_multicast(const struct uro_gid *group);
