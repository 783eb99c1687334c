/* SPDX-License-Identifier: BSD-3-Clause */
/* ip.h - IPv4 (RFC 791), IPv6 (RFC 8200) and UDP (RFC 768) headers.
 *
 * Options, extension headers and fragments are recognised, so that they can be refused by name.
 * One is taken: Router Alert, before IGMP and, in a hop-by-hop header, before ICMPv6.
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

/* Both versions in one value: what the transport needs to know. */
struct uro_ip {
    bool v6;
    bool dont_fragment; /* IPv4 only; 1 on all we send */
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
    URO_IP_SHORT,    /* fewer octets than the header, or than its length field says */
    URO_IP_BAD,      /* version, header length, total length or addresses nonsense */
    URO_IP_CHECKSUM, /* IPv4 header checksum wrong */
    URO_IP_OPTIONS,  /* IPv4 options, IPv6 extension headers, other than the one taken */
    URO_IP_FRAGMENT,
};

/* Takes an IP header of the version @v6 says and cuts the reader to the payload length, which
 * removes Ethernet padding. */
URO_NODISCARD enum uro_ip_result uro_ip_take(struct uro_reader *reader, bool v6, struct uro_ip *ip);

struct uro_udp;

/* The same, and the UDP header behind it, for what nearly all packets are: IPv4 without options,
 * whole, UDP with the checksum 0. False, and nothing taken, for all others, good or bad. */
URO_NODISCARD bool uro_ip_take_plain(struct uro_reader *reader, struct uro_ip *ip,
                                     struct uro_udp *udp);

/* Writes 20 or 40 octets to @out, with Router Alert 24 or 48, and a correct IPv4 checksum; returns
 * how many. */
size_t uro_ip_put(uint8_t *out, const struct uro_ip *ip);

/* One's complement sum of @length octets added to @sum, not folded. */
uint32_t uro_ip_sum(uint32_t sum, const void *from, size_t length);
/* Folded and complemented: the checksum field. */
uint16_t uro_ip_sum_finish(uint32_t sum);
/* Pseudo-header of UDP and ICMPv6. */
uint32_t uro_ip_pseudo_sum(const struct uro_ip *ip, uint8_t protocol, uint32_t length);

struct uro_udp {
    uint16_t source_port;
    uint16_t dest_port;
    uint16_t length; /* header and payload */
    uint16_t checksum;
};

void uro_udp_decode(const uint8_t in[static URO_UDP_LEN], struct uro_udp *udp);
void uro_udp_encode(uint8_t out[static URO_UDP_LEN], const struct uro_udp *udp);
