/* SPDX-License-Identifier: BSD-3-Clause */
/* ip.h - IPv4 (RFC 791), IPv6 (RFC 8200) and UDP (RFC 768) headers.
 *
 * Options, extension headers and fragments are recognised, and refused with results of their own.
 * Only Router Alert is accepted: before IGMP and, in a hop-by-hop header, before ICMPv6.
 */
#pragma once

#include "wire/bytes.h"
#include "wire/gid.h"

#define URO_IPV4_LEN   20u
#define URO_IPV6_LEN   40u
#define URO_IP_LEN_MAX 48u /* IPv6 with Router Alert */
#define URO_UDP_LEN    8u
#define URO_ROCE_PORT  4791u

#define URO_IPPROTO_ICMP   1u
#define URO_IPPROTO_IGMP   2u
#define URO_IPPROTO_UDP    17u
#define URO_IPPROTO_ICMPV6 58u

/* The header fields of both IP versions that the transport needs. */
struct uro_ip {
    bool v6;
    bool dont_fragment; /* IPv4 only */
    bool router_alert;  /* with IGMP and ICMPv6 only */
    uint8_t traffic_class;
    uint8_t hop_limit;
    uint8_t protocol;
    uint16_t identification; /* IPv4 only */
    uint32_t flow_label;     /* IPv6 only, 20 bits */
    uint16_t payload_length; /* octets after the IP header and its options */
    struct uro_gid source;
    struct uro_gid dest;
};

enum uro_ip_result {
    URO_IP_OK,
    URO_IP_SHORT,    /* fewer octets than the header or its length field requires */
    URO_IP_BAD,      /* wrong version, header length, total length or addresses */
    URO_IP_CHECKSUM, /* wrong IPv4 header checksum */
    URO_IP_OPTIONS,  /* IPv4 options or IPv6 extension headers, other than Router Alert */
    URO_IP_FRAGMENT,
};

/* Takes an IP header of the version that @v6 selects. Limits the reader to the payload length,
 * which removes Ethernet padding. */
URO_NODISCARD enum uro_ip_result uro_ip_take(struct uro_reader *reader, bool v6, struct uro_ip *ip);

struct uro_udp;

/* Takes the IP and UDP headers of the most common packets: IPv4 without options and fragments, and
 * UDP with checksum 0. Returns false and takes nothing for all other packets, valid or not. */
URO_NODISCARD bool uro_ip_take_plain(struct uro_reader *reader, struct uro_ip *ip,
                                     struct uro_udp *udp);

/* Writes an IP header with a correct IPv4 checksum to @out, and returns its length: 20 or 40
 * octets, or with Router Alert 24 or 48. */
size_t uro_ip_put(uint8_t *out, const struct uro_ip *ip);

/* Adds the one's complement sum of @length octets to @sum. The result may exceed 16 bits. */
uint32_t uro_ip_sum(uint32_t sum, const void *from, size_t length);
/* Returns the folded and complemented sum: the value of a checksum field. */
uint16_t uro_ip_sum_finish(uint32_t sum);
/* Returns the sum of the pseudo-header of UDP or ICMPv6. */
uint32_t uro_ip_pseudo_sum(const struct uro_ip *ip, uint8_t protocol, uint32_t length);

struct uro_udp {
    uint16_t source_port;
    uint16_t dest_port;
    uint16_t length; /* header and payload */
    uint16_t checksum;
};

void uro_udp_decode(const uint8_t in[static URO_UDP_LEN], struct uro_udp *udp);
void uro_udp_encode(uint8_t out[static URO_UDP_LEN], const struct uro_udp *udp);
