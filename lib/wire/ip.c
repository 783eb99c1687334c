/* SPDX-License-Identifier: BSD-3-Clause */
/* ip.c - IPv4, IPv6 and UDP headers and their checksum. */
#include "wire/ip.h"

#include "base/mark.h"

enum {
    V4_VERSION_IHL = 0,
    V4_TOS = 1,
    V4_TOTAL_LENGTH = 2,
    V4_IDENTIFICATION = 4,
    V4_FRAGMENT = 6,
    V4_TTL = 8,
    V4_PROTOCOL = 9,
    V4_CHECKSUM = 10,
    V4_SOURCE = 12,
    V4_DEST = 16,
};
static_assert(V4_DEST + 4 == URO_IPV4_LEN, "the offsets must cover the header");

#define V4_PLAIN           0x45u /* version 4, no options */
#define V4_DONT_FRAGMENT   0x4000u
#define V4_MORE_FRAGMENTS  0x2000u
#define V4_FRAGMENT_OFFSET 0x1fffu
#define V4_GROUP           0xeu /* highest bits of a multicast address */

enum {
    V6_VERSION_CLASS_FLOW = 0,
    V6_PAYLOAD_LENGTH = 4,
    V6_NEXT_HEADER = 6,
    V6_HOP_LIMIT = 7,
    V6_SOURCE = 8,
    V6_DEST = 24,
};
static_assert(V6_DEST + 16 == URO_IPV6_LEN, "the offsets must cover the header");

/* Next headers that are extension headers (IANA "IPv6 Extension Header Types"). */
#define V6_HOP_BY_HOP 0u
#define V6_FRAGMENT   44u

/* Router Alert (RFC 2113, RFC 2711): the only supported option, and its value */
#define V4_OPTION_END     0u
#define V4_OPTION_NOP     1u
#define V4_OPTION_ALERT   0x94u
#define V6_OPTION_PAD1    0u
#define V6_OPTION_PADN    1u
#define V6_OPTION_ALERT   5u
#define V6_HOP_BY_HOP_LEN 8u /* octets of the header with Router Alert and padding */

static const uint8_t v4_alert[] = { V4_OPTION_ALERT, 4, 0, 0 };
static const uint8_t v6_alert[] = { V6_OPTION_ALERT, 2, 0, 0 };
static_assert(URO_IPV4_LEN + sizeof v4_alert <= URO_IP_LEN_MAX, "room in every buffer");
static_assert(URO_IPV6_LEN + V6_HOP_BY_HOP_LEN == URO_IP_LEN_MAX, "room in every buffer");

static bool v6_is_extension(uint8_t next_header)
{
    switch (next_header) {
    case V6_HOP_BY_HOP:
    case 43:  /* routing */
    case 50:  /* encapsulating security payload */
    case 51:  /* authentication */
    case 60:  /* destination options */
    case 135: /* mobility */
    case 139: /* host identity */
    case 140: /* shim6 */
        return true;
    default:
        return false;
    }
}

uint32_t uro_ip_sum(uint32_t sum, const void *from, size_t length)
{
    const uint8_t *pos = from;
    uint64_t wide = sum;

    /* A 32-bit word may be added at once, because 2^16 is 1 modulo 2^16 - 1. */
    for (; length >= 4; pos += 4, length -= 4)
        wide += uro_get_be32(pos);
    if (length >= 2)
        wide += uro_get_be16(pos);
    if (length % 2 != 0)
        wide += (uint32_t)pos[length - 1] << 8;
    while (wide >> 24 != 0)
        wide = (wide & 0xffff) + (wide >> 16);
    return (uint32_t)wide;
}

uint16_t uro_ip_sum_finish(uint32_t sum)
{
    while (sum >> 16 != 0)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)~sum;
}

uint32_t uro_ip_pseudo_sum(const struct uro_ip *ip, uint8_t protocol, uint32_t length)
{
    const size_t skip = ip->v6 ? 0 : 12; /* prefix of an IPv4-mapped GID */
    uint32_t sum = uro_ip_sum(0, ip->source.octets + skip, 16 - skip);

    sum = uro_ip_sum(sum, ip->dest.octets + skip, 16 - skip);
    return sum + protocol + (length & 0xffff) + (length >> 16);
}

/* Returns whether the options are one or more Router Alerts, and padding. */
static bool v4_only_alert(const uint8_t *pos, const uint8_t *end)
{
    bool found = false;

    while (pos < end && *pos != V4_OPTION_END) {
        if (*pos == V4_OPTION_NOP) {
            pos++;
            continue;
        }
        if ((size_t)(end - pos) < sizeof v4_alert || memcmp(pos, v4_alert, sizeof v4_alert) != 0)
            return false;
        found = true;
        pos += sizeof v4_alert;
    }
    return found;
}

/* Refuses an address: a multicast source address, or an IPv4-mapped address in an IPv6 header,
 * which would look like that IPv4 host. */
static enum uro_ip_result refuse_address(void)
{
    URO_MARK("IP.ADDRESS");
    return URO_IP_BAD;
}

/* Returns whether the checksum of an IPv4 header is right: the sum of its words is then 0 modulo
 * 2^16 - 1, in any byte order. The sum itself is never 0, because the version is not 0. */
static bool v4_sum_right(const uint8_t *in, size_t header)
{
    uint64_t pairs[2], sum;
    uint32_t word;

    memcpy(pairs, in, sizeof pairs);
    memcpy(&word, in + sizeof pairs, sizeof word);
    sum = (pairs[0] >> 32) + (uint32_t)pairs[0] + (pairs[1] >> 32) + (uint32_t)pairs[1] + word;
    for (size_t offset = URO_IPV4_LEN; offset < header; offset += sizeof word) {
        memcpy(&word, in + offset, sizeof word);
        sum += word;
    }
    return sum % 0xffff == 0;
}
static_assert(sizeof(uint64_t[2]) + sizeof(uint32_t) == URO_IPV4_LEN, "all of a plain header");

static bool v4_is_part(const uint8_t *in)
{
    return (uro_get_be16(&in[V4_FRAGMENT]) & (V4_MORE_FRAGMENTS | V4_FRAGMENT_OFFSET)) != 0;
}

static void v4_fill(const uint8_t *in, uint16_t payload_length, struct uro_ip *ip)
{
    ip->v6 = false;
    ip->dont_fragment = uro_get_be16(&in[V4_FRAGMENT]) & V4_DONT_FRAGMENT;
    ip->traffic_class = in[V4_TOS];
    ip->hop_limit = in[V4_TTL];
    ip->protocol = in[V4_PROTOCOL];
    ip->identification = uro_get_be16(&in[V4_IDENTIFICATION]);
    ip->flow_label = 0;
    ip->payload_length = payload_length;
    ip->source = uro_gid_from_ipv4(&in[V4_SOURCE]);
    ip->dest = uro_gid_from_ipv4(&in[V4_DEST]);
}

/* rule IP.LIBERAL */
static enum uro_ip_result v4_take(struct uro_reader *reader, struct uro_ip *ip)
{
    const uint8_t *in = uro_take(reader, URO_IPV4_LEN);
    if (in == NULL)
        return URO_IP_SHORT;

    const size_t header = (size_t)(in[V4_VERSION_IHL] & 0xf) * 4;
    if (in[V4_VERSION_IHL] >> 4 != 4 || header < URO_IPV4_LEN)
        return URO_IP_BAD;
    if (uro_take(reader, header - URO_IPV4_LEN) == NULL)
        return URO_IP_SHORT;
    if (!v4_sum_right(in, header))
        return URO_IP_CHECKSUM;

    const size_t total = uro_get_be16(&in[V4_TOTAL_LENGTH]);
    if (total < header)
        return URO_IP_BAD;
    if (total - header > (size_t)(reader->end - reader->pos))
        return URO_IP_SHORT;
    ip->router_alert = header != URO_IPV4_LEN;
    if (ip->router_alert &&
        !(in[V4_PROTOCOL] == URO_IPPROTO_IGMP && v4_only_alert(in + URO_IPV4_LEN, in + header)))
        return URO_IP_OPTIONS;

    if (v4_is_part(in))
        return URO_IP_FRAGMENT;

    if (in + total < reader->end)
        URO_MARK("IP.TRAILER");
    reader->end = in + total;
    v4_fill(in, (uint16_t)(total - header), ip);
    return in[V4_SOURCE] >> 4 == V4_GROUP ? refuse_address() : URO_IP_OK;
}

/* Takes a hop-by-hop header before ICMPv6 that contains only Router Alert and padding. */
static bool v6_take_alert(struct uro_reader *reader)
{
    const uint8_t *in = uro_take(reader, V6_HOP_BY_HOP_LEN);
    bool found = false;

    if (in == NULL || in[0] != URO_IPPROTO_ICMPV6 || in[1] != 0)
        return false;
    for (const uint8_t *pos = in + 2, *end = in + V6_HOP_BY_HOP_LEN; pos < end;) {
        const size_t left = (size_t)(end - pos);

        if (*pos == V6_OPTION_PAD1) {
            pos++;
        } else if (left >= sizeof v6_alert && memcmp(pos, v6_alert, sizeof v6_alert) == 0) {
            URO_MARK("IP.ALERT");
            found = true;
            pos += sizeof v6_alert;
        } else if (*pos == V6_OPTION_PADN && left >= 2 && left - 2 >= pos[1]) {
            pos += 2 + pos[1];
        } else {
            return false;
        }
    }
    return found;
}

static enum uro_ip_result v6_take(struct uro_reader *reader, struct uro_ip *ip)
{
    const uint8_t *in = uro_take(reader, URO_IPV6_LEN);
    if (in == NULL)
        return URO_IP_SHORT;

    const uint32_t word = uro_get_be32(&in[V6_VERSION_CLASS_FLOW]);
    if (word >> 28 != 6)
        return URO_IP_BAD;
    const uint16_t length = uro_get_be16(&in[V6_PAYLOAD_LENGTH]);
    if (length > (size_t)(reader->end - reader->pos))
        return URO_IP_SHORT;
    if (in[V6_NEXT_HEADER] == V6_FRAGMENT)
        return URO_IP_FRAGMENT;
    if (reader->pos + length < reader->end)
        URO_MARK("IP.TRAILER");
    reader->end = reader->pos + length;
    ip->router_alert = in[V6_NEXT_HEADER] == V6_HOP_BY_HOP && v6_take_alert(reader);
    if (!ip->router_alert && v6_is_extension(in[V6_NEXT_HEADER]))
        return URO_IP_OPTIONS;

    ip->v6 = true;
    ip->dont_fragment = true;
    ip->traffic_class = (uint8_t)(word >> 20);
    ip->hop_limit = in[V6_HOP_LIMIT];
    ip->protocol = ip->router_alert ? URO_IPPROTO_ICMPV6 : in[V6_NEXT_HEADER];
    ip->identification = 0;
    ip->flow_label = word & 0xfffff;
    ip->payload_length = (uint16_t)(reader->end - reader->pos);
    memcpy(ip->source.octets, &in[V6_SOURCE], sizeof ip->source.octets);
    memcpy(ip->dest.octets, &in[V6_DEST], sizeof ip->dest.octets);
    if (ip->source.octets[0] == 0xff || uro_gid_is_ipv4(&ip->source) || uro_gid_is_ipv4(&ip->dest))
        return refuse_address();
    return URO_IP_OK;
}

enum uro_ip_result uro_ip_take(struct uro_reader *reader, bool v6, struct uro_ip *ip)
{
    enum uro_ip_result result = v6 ? v6_take(reader, ip) : v4_take(reader, ip);

    if (result == URO_IP_OPTIONS || result == URO_IP_FRAGMENT)
        URO_MARK("IP.OPTIONS");
    return result;
}

static size_t v4_put(uint8_t *out, const struct uro_ip *ip)
{
    const size_t header = URO_IPV4_LEN + (ip->router_alert ? sizeof v4_alert : 0);

    URO_ASSERT(ip->payload_length <= 0xffff - header);
    out[V4_VERSION_IHL] = (uint8_t)(0x40 | header / 4);
    out[V4_TOS] = ip->traffic_class;
    uro_put_be16(&out[V4_TOTAL_LENGTH], (uint16_t)(header + ip->payload_length));
    uro_put_be16(&out[V4_IDENTIFICATION], ip->identification);
    uro_put_be16(&out[V4_FRAGMENT], ip->dont_fragment ? V4_DONT_FRAGMENT : 0);
    out[V4_TTL] = ip->hop_limit;
    out[V4_PROTOCOL] = ip->protocol;
    uro_put_be16(&out[V4_CHECKSUM], 0);
    memcpy(&out[V4_SOURCE], &ip->source.octets[12], 4);
    memcpy(&out[V4_DEST], &ip->dest.octets[12], 4);
    if (ip->router_alert)
        memcpy(&out[URO_IPV4_LEN], v4_alert, sizeof v4_alert);
    uro_put_be16(&out[V4_CHECKSUM], uro_ip_sum_finish(uro_ip_sum(0, out, header)));
    return header;
}

static size_t v6_put(uint8_t *out, const struct uro_ip *ip)
{
    const size_t options = ip->router_alert ? V6_HOP_BY_HOP_LEN : 0;

    URO_ASSERT(ip->flow_label <= 0xfffff && ip->payload_length <= 0xffff - options);
    uro_put_be32(&out[V6_VERSION_CLASS_FLOW],
                 UINT32_C(6) << 28 | (uint32_t)ip->traffic_class << 20 | ip->flow_label);
    uro_put_be16(&out[V6_PAYLOAD_LENGTH], (uint16_t)(options + ip->payload_length));
    out[V6_NEXT_HEADER] = ip->router_alert ? V6_HOP_BY_HOP : ip->protocol;
    out[V6_HOP_LIMIT] = ip->hop_limit;
    memcpy(&out[V6_SOURCE], ip->source.octets, sizeof ip->source.octets);
    memcpy(&out[V6_DEST], ip->dest.octets, sizeof ip->dest.octets);
    if (ip->router_alert) {
        memset(&out[URO_IPV6_LEN], 0, V6_HOP_BY_HOP_LEN);
        out[URO_IPV6_LEN] = ip->protocol;
        memcpy(&out[URO_IPV6_LEN + 2], v6_alert, sizeof v6_alert);
        out[URO_IPV6_LEN + 2 + sizeof v6_alert] = V6_OPTION_PADN;
    }
    return URO_IPV6_LEN + options;
}

size_t uro_ip_put(uint8_t *out, const struct uro_ip *ip)
{
    return ip->v6 ? v6_put(out, ip) : v4_put(out, ip);
}

enum { UDP_SOURCE = 0, UDP_DEST = 2, UDP_LENGTH = 4, UDP_CHECKSUM = 6 };
static_assert(UDP_CHECKSUM + 2 == URO_UDP_LEN, "the offsets must cover the header");

void uro_udp_decode(const uint8_t in[static URO_UDP_LEN], struct uro_udp *udp)
{
    udp->source_port = uro_get_be16(&in[UDP_SOURCE]);
    udp->dest_port = uro_get_be16(&in[UDP_DEST]);
    udp->length = uro_get_be16(&in[UDP_LENGTH]);
    udp->checksum = uro_get_be16(&in[UDP_CHECKSUM]);
}

bool uro_ip_take_plain(struct uro_reader *reader, struct uro_ip *ip, struct uro_udp *udp)
{
    const uint8_t *in = reader->pos;
    const size_t length = (size_t)(reader->end - in);

    if (length < URO_IPV4_LEN + URO_UDP_LEN || in[V4_VERSION_IHL] != V4_PLAIN ||
        in[V4_PROTOCOL] != URO_IPPROTO_UDP || in[V4_SOURCE] >> 4 == V4_GROUP || v4_is_part(in))
        return false;
    const size_t total = uro_get_be16(&in[V4_TOTAL_LENGTH]);
    if (total < URO_IPV4_LEN + URO_UDP_LEN || total > length || !v4_sum_right(in, URO_IPV4_LEN))
        return false;
    uro_udp_decode(in + URO_IPV4_LEN, udp);
    if (udp->length < URO_UDP_LEN || udp->length > total - URO_IPV4_LEN || udp->checksum != 0)
        return false;

    if (total < length)
        URO_MARK("IP.TRAILER");
    ip->router_alert = false;
    v4_fill(in, (uint16_t)(total - URO_IPV4_LEN), ip);
    reader->pos = in + URO_IPV4_LEN + URO_UDP_LEN;
    reader->end = in + URO_IPV4_LEN + udp->length;
    return true;
}

void uro_udp_encode(uint8_t out[static URO_UDP_LEN], const struct uro_udp *udp)
{
    uro_put_be16(&out[UDP_SOURCE], udp->source_port);
    uro_put_be16(&out[UDP_DEST], udp->dest_port);
    uro_put_be16(&out[UDP_LENGTH], udp->length);
    uro_put_be16(&out[UDP_CHECKSUM], udp->checksum);
}
