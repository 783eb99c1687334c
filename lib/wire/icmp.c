/* SPDX-License-Identifier: BSD-3-Clause */
/* icmp.c - echo and "port unreachable" of both IP versions, and neighbour discovery. */
#include "wire/icmp.h"

enum {
    AT_TYPE = 0,
    AT_CODE = 1,
    AT_CHECKSUM = 2,
    AT_ECHO_ID = 4,
    AT_ECHO_SEQ = 6,
    AT_ND_FLAGS = 4,
    AT_ND_TARGET = 8,
    AT_ND_OPTIONS = 24,
};

/* Offsets in the quoted packet. */
enum {
    AT_V4_PROTOCOL = 9,
    AT_V4_SOURCE = 12,
    AT_V4_DEST = 16,
    AT_V6_NEXT = 6,
    AT_V6_SOURCE = 8,
    AT_V6_DEST = 24,
};
static_assert(AT_ECHO_SEQ + 2 == URO_ICMP_ECHO_HEADER, "the offsets must cover the header");
static_assert(AT_ND_OPTIONS + 8 == URO_ND_LEN, "one option of eight octets follows the target");

#define V4_ECHO_REPLY       0u
#define V4_UNREACHABLE      3u
#define V4_NO_PORT          3u /* code of "port unreachable" */
#define V6_UNREACHABLE      1u
#define V6_NO_PORT          4u /* code of "port unreachable" */
#define V4_ECHO_REQUEST     8u
#define V6_ECHO_REQUEST     128u
#define V6_ECHO_REPLY       129u
#define V6_NEIGHBOR_SOLICIT 135u
#define V6_NEIGHBOR_ADVERT  136u

#define ND_HOP_LIMIT      255u /* proves that the sender is on this link */
#define ND_FLAG_SOLICITED 0x40u
#define ND_FLAG_OVERRIDE  0x20u

#define OPTION_SOURCE_MAC 1u
#define OPTION_TARGET_MAC 2u
#define OPTION_UNIT       ((size_t)8) /* unit of the length of an option, octets */

static enum uro_icmp_kind kind_of(bool v6, uint8_t type, uint8_t code)
{
    if (type == (v6 ? V6_UNREACHABLE : V4_UNREACHABLE) && code == (v6 ? V6_NO_PORT : V4_NO_PORT))
        return URO_ICMP_NO_PORT;
    if (!v6 && type == V4_ECHO_REQUEST)
        return URO_ICMP_ECHO_REQUEST;
    if (!v6 && type == V4_ECHO_REPLY)
        return URO_ICMP_ECHO_REPLY;
    if (v6 && type == V6_ECHO_REQUEST)
        return URO_ICMP_ECHO_REQUEST;
    if (v6 && type == V6_ECHO_REPLY)
        return URO_ICMP_ECHO_REPLY;
    if (v6 && type == V6_NEIGHBOR_SOLICIT)
        return URO_ICMP_NEIGHBOR_SOLICIT;
    if (v6 && type == V6_NEIGHBOR_ADVERT)
        return URO_ICMP_NEIGHBOR_ADVERT;
    return URO_ICMP_OTHER;
}

static uint32_t start_sum(const struct uro_ip *ip, uint32_t length)
{
    return ip->v6 ? uro_ip_pseudo_sum(ip, URO_IPPROTO_ICMPV6, length) : 0;
}

static bool take_echo(const uint8_t *in, uint32_t length, struct uro_icmp *icmp)
{
    if (in[AT_CODE] != 0)
        return false;
    icmp->echo_id = uro_get_be16(&in[AT_ECHO_ID]);
    icmp->echo_seq = uro_get_be16(&in[AT_ECHO_SEQ]);
    icmp->echo_data = in + URO_ICMP_ECHO_HEADER;
    icmp->echo_length = length - URO_ICMP_ECHO_HEADER;
    return true;
}

/* Returns whether a packet with these headers is RoCE. */
static bool is_roce(bool v6, const uint8_t *network, const uint8_t *transport)
{
    struct uro_udp udp;

    if (network[0] >> 4 != (v6 ? 6 : 4) || (!v6 && (network[0] & 0xf) != URO_IPV4_LEN / 4) ||
        network[v6 ? AT_V6_NEXT : AT_V4_PROTOCOL] != URO_IPPROTO_UDP)
        return false;
    uro_udp_decode(transport, &udp);
    return udp.dest_port == URO_ROCE_PORT;
}

/* Reads the quoted packet, which may be truncated anywhere after its UDP header. Ignores packets
 * other than RoCE. */
static void take_quoted(bool v6, const uint8_t *in, uint32_t length, struct uro_icmp *icmp)
{
    struct uro_reader reader = { in + URO_ICMP_ECHO_HEADER, in + length };
    const uint8_t *network = uro_take(&reader, v6 ? URO_IPV6_LEN : URO_IPV4_LEN);
    const uint8_t *transport = network != NULL ? uro_take(&reader, URO_UDP_LEN) : NULL;

    if (transport == NULL || !is_roce(v6, network, transport)) {
        icmp->kind = URO_ICMP_OTHER;
        return;
    }
    if (v6) {
        memcpy(icmp->source.octets, network + AT_V6_SOURCE, sizeof icmp->source.octets);
        memcpy(icmp->dest.octets, network + AT_V6_DEST, sizeof icmp->dest.octets);
    } else {
        icmp->source = uro_gid_from_ipv4(network + AT_V4_SOURCE);
        icmp->dest = uro_gid_from_ipv4(network + AT_V4_DEST);
    }
    icmp->quoted = reader.pos;
    icmp->quoted_length = (uint32_t)(reader.end - reader.pos);
}

static bool take_options(struct uro_reader *reader, struct uro_icmp *icmp)
{
    const uint8_t wanted =
        icmp->kind == URO_ICMP_NEIGHBOR_SOLICIT ? OPTION_SOURCE_MAC : OPTION_TARGET_MAC;

    while (reader->pos != reader->end) {
        if (reader->end - reader->pos < 2)
            return false;
        const size_t length = reader->pos[1] * OPTION_UNIT;
        const uint8_t *option = uro_take(reader, length);
        if (length == 0 || option == NULL)
            return false;
        if (option[0] != wanted)
            continue;
        if (length != OPTION_UNIT)
            return false;
        icmp->has_mac = true;
        memcpy(icmp->mac.octets, &option[2], sizeof icmp->mac.octets);
    }
    return true;
}

/* Reads a neighbour message, and checks the conditions of RFC 4861, 7.1. */
static bool take_neighbor(const struct uro_ip *ip, const uint8_t *in, uint32_t length,
                          struct uro_icmp *icmp)
{
    struct uro_reader reader = { in, in + length };

    if (ip->hop_limit != ND_HOP_LIMIT || in[AT_CODE] != 0)
        return false;
    if (uro_take(&reader, AT_ND_OPTIONS) == NULL)
        return false;
    memcpy(icmp->target.octets, &in[AT_ND_TARGET], sizeof icmp->target.octets);
    if (uro_gid_is_multicast(&icmp->target) || !take_options(&reader, icmp))
        return false;

    if (icmp->kind == URO_ICMP_NEIGHBOR_SOLICIT)
        return !icmp->has_mac || !uro_gid_is_zero(&ip->source);
    icmp->solicited = in[AT_ND_FLAGS] & ND_FLAG_SOLICITED;
    icmp->override = in[AT_ND_FLAGS] & ND_FLAG_OVERRIDE;
    return !icmp->solicited || !uro_gid_is_multicast(&ip->dest);
}

bool uro_icmp_decode(const struct uro_ip *ip, const uint8_t *in, uint32_t length,
                     struct uro_icmp *icmp)
{
    if (length < URO_ICMP_ECHO_HEADER ||
        uro_ip_sum_finish(uro_ip_sum(start_sum(ip, length), in, length)) != 0)
        return false;

    *icmp = (struct uro_icmp){ .kind = kind_of(ip->v6, in[AT_TYPE], in[AT_CODE]) };
    switch (icmp->kind) {
    case URO_ICMP_OTHER:
        return true;
    case URO_ICMP_ECHO_REQUEST:
    case URO_ICMP_ECHO_REPLY:
        return take_echo(in, length, icmp);
    case URO_ICMP_NEIGHBOR_SOLICIT:
    case URO_ICMP_NEIGHBOR_ADVERT:
        return take_neighbor(ip, in, length, icmp);
    case URO_ICMP_NO_PORT:
        take_quoted(ip->v6, in, length, icmp);
        return true;
    }
    return false;
}

static void put_checksum(uint8_t *out, const struct uro_ip *ip, uint32_t length)
{
    uro_put_be16(&out[AT_CHECKSUM], 0);
    uro_put_be16(&out[AT_CHECKSUM],
                 uro_ip_sum_finish(uro_ip_sum(start_sum(ip, length), out, length)));
}

uint32_t uro_icmp_encode_echo(uint8_t *out, const struct uro_ip *ip, const struct uro_icmp *icmp)
{
    const bool request = icmp->kind == URO_ICMP_ECHO_REQUEST;
    const uint32_t length = URO_ICMP_ECHO_HEADER + icmp->echo_length;

    URO_ASSERT(request || icmp->kind == URO_ICMP_ECHO_REPLY);
    if (ip->v6)
        out[AT_TYPE] = request ? V6_ECHO_REQUEST : V6_ECHO_REPLY;
    else
        out[AT_TYPE] = request ? V4_ECHO_REQUEST : V4_ECHO_REPLY;
    out[AT_CODE] = 0;
    uro_put_be16(&out[AT_ECHO_ID], icmp->echo_id);
    uro_put_be16(&out[AT_ECHO_SEQ], icmp->echo_seq);
    if (icmp->echo_length > 0)
        memcpy(out + URO_ICMP_ECHO_HEADER, icmp->echo_data, icmp->echo_length);
    put_checksum(out, ip, length);
    return length;
}

void uro_icmp_encode_neighbor(uint8_t out[static URO_ND_LEN], const struct uro_ip *ip,
                              const struct uro_icmp *icmp)
{
    const bool solicit = icmp->kind == URO_ICMP_NEIGHBOR_SOLICIT;

    URO_ASSERT(ip->v6);
    URO_ASSERT(solicit || icmp->kind == URO_ICMP_NEIGHBOR_ADVERT);
    memset(out, 0, URO_ND_LEN);
    out[AT_TYPE] = solicit ? V6_NEIGHBOR_SOLICIT : V6_NEIGHBOR_ADVERT;
    if (!solicit && icmp->solicited)
        out[AT_ND_FLAGS] |= ND_FLAG_SOLICITED;
    if (!solicit && icmp->override)
        out[AT_ND_FLAGS] |= ND_FLAG_OVERRIDE;
    memcpy(&out[AT_ND_TARGET], icmp->target.octets, sizeof icmp->target.octets);
    out[AT_ND_OPTIONS] = solicit ? OPTION_SOURCE_MAC : OPTION_TARGET_MAC;
    out[AT_ND_OPTIONS + 1] = 1;
    memcpy(&out[AT_ND_OPTIONS + 2], icmp->mac.octets, sizeof icmp->mac.octets);
    put_checksum(out, ip, URO_ND_LEN);
}

uint32_t uro_icmp_encode_no_port(uint8_t *out, const struct uro_ip *ip, const struct uro_icmp *icmp)
{
    const struct uro_ip quoted = { .v6 = ip->v6,
                                   .dont_fragment = !ip->v6,
                                   .hop_limit = 1,
                                   .protocol = URO_IPPROTO_UDP,
                                   .payload_length = (uint16_t)(URO_UDP_LEN + icmp->quoted_length),
                                   .source = icmp->source,
                                   .dest = icmp->dest };
    const struct uro_udp udp = { .source_port = URO_ROCE_PORT,
                                 .dest_port = URO_ROCE_PORT,
                                 .length = (uint16_t)(URO_UDP_LEN + icmp->quoted_length) };
    uint32_t length = URO_ICMP_ECHO_HEADER;

    URO_ASSERT(icmp->kind == URO_ICMP_NO_PORT);
    memset(out, 0, URO_ICMP_ECHO_HEADER);
    out[AT_TYPE] = ip->v6 ? V6_UNREACHABLE : V4_UNREACHABLE;
    out[AT_CODE] = ip->v6 ? V6_NO_PORT : V4_NO_PORT;
    length += (uint32_t)uro_ip_put(out + length, &quoted);
    uro_udp_encode(out + length, &udp);
    length += URO_UDP_LEN;
    if (icmp->quoted_length > 0)
        memcpy(out + length, icmp->quoted, icmp->quoted_length);
    length += icmp->quoted_length;
    put_checksum(out, ip, length);
    return length;
}

struct uro_gid uro_gid_solicited_node(const struct uro_gid *target)
{
    struct uro_gid group = { { 0xff, 0x02, [11] = 0x01, [12] = 0xff } };

    memcpy(&group.octets[13], &target->octets[13], 3);
    return group;
}

struct uro_mac uro_mac_multicast(const struct uro_gid *group)
{
    struct uro_mac mac = { { 0x33, 0x33 } };

    memcpy(&mac.octets[2], &group->octets[12], 4);
    if (uro_gid_is_ipv4(group)) {
        memcpy(mac.octets, (const uint8_t[]){ 0x01, 0x00, 0x5e }, 3);
        mac.octets[3] &= 0x7f;
    }
    return mac;
}
