/* SPDX-License-Identifier: BSD-3-Clause */
/* gso.c - see gso.h. */
#include "wire/gso.h"

#include "wire/ether.h"

#define AT_TYPE           12u
#define AT_IP             URO_ETHER_LEN
#define V4_VERSION_IHL    0u
#define V4_TOTAL_LENGTH   2u
#define V4_IDENTIFICATION 4u
#define V4_FRAGMENT       6u
#define V4_PROTOCOL       9u
#define V4_CHECKSUM       10u
#define V4_SOURCE         12u
#define V4_PLAIN          0x45u   /* version 4, no options */
#define V4_FRAGMENT_MASK  0x3fffu /* the flag "more fragments", and the fragment offset */
#define V6_PAYLOAD_LENGTH 4u
#define V6_NEXT_HEADER    6u
#define V6_SOURCE         8u
/* Offsets of the UDP length and the UDP checksum, counted backwards from the end of the UDP
 * header. */
#define UDP_LENGTH   4u
#define UDP_CHECKSUM 2u

#define HEAD_V4 (URO_ETHER_LEN + URO_IPV4_LEN + URO_UDP_LEN)
#define HEAD_V6 (URO_ETHER_LEN + URO_IPV6_LEN + URO_UDP_LEN)

static_assert(HEAD_V6 == URO_GSO_HEAD_MAX, "the longest headers");

uint32_t uro_gso_head(const uint8_t *frame, uint32_t length)
{
    const uint8_t *ip = frame + AT_IP;

    if (length < HEAD_V4)
        return 0;
    switch (uro_get_be16(frame + AT_TYPE)) {
    case URO_ETHERTYPE_IPV4:
        return ip[V4_VERSION_IHL] == V4_PLAIN && ip[V4_PROTOCOL] == URO_IPPROTO_UDP &&
                       (uro_get_be16(ip + V4_FRAGMENT) & V4_FRAGMENT_MASK) == 0
                   ? HEAD_V4
                   : 0;
    case URO_ETHERTYPE_IPV6:
        return length >= HEAD_V6 && ip[V6_NEXT_HEADER] == URO_IPPROTO_UDP ? HEAD_V6 : 0;
    default:
        return 0;
    }
}

static bool same(const uint8_t *first, const uint8_t *second, uint32_t from, uint32_t to)
{
    return memcmp(first + from, second + from, to - from) == 0;
}

bool uro_gso_same_flow(const uint8_t *first, const uint8_t *second, uint32_t head)
{
    const uint32_t ports_end = head - UDP_LENGTH;

    if (head == HEAD_V6)
        return same(first, second, 0, AT_IP + V6_PAYLOAD_LENGTH) &&
               same(first, second, AT_IP + V6_NEXT_HEADER, ports_end);
    return same(first, second, 0, AT_IP + V4_TOTAL_LENGTH) &&
           same(first, second, AT_IP + V4_FRAGMENT, AT_IP + V4_CHECKSUM) &&
           same(first, second, AT_IP + V4_SOURCE, ports_end);
}

static void set_lengths(uint8_t *headers, uint32_t head, uint32_t payload)
{
    uint8_t *ip = headers + AT_IP;

    URO_ASSERT(head - AT_IP + payload <= UINT16_MAX);
    if (head == HEAD_V4) {
        uro_put_be16(ip + V4_TOTAL_LENGTH, (uint16_t)(URO_IPV4_LEN + URO_UDP_LEN + payload));
        uro_put_be16(ip + V4_CHECKSUM, 0);
        uro_put_be16(ip + V4_CHECKSUM, uro_ip_sum_finish(uro_ip_sum(0, ip, URO_IPV4_LEN)));
    } else {
        uro_put_be16(ip + V6_PAYLOAD_LENGTH, (uint16_t)(URO_UDP_LEN + payload));
    }
    uro_put_be16(headers + head - UDP_LENGTH, (uint16_t)(URO_UDP_LEN + payload));
}

void uro_gso_join(uint8_t *headers, uint32_t head, uint32_t payload)
{
    const bool v4 = head == HEAD_V4;
    const uint32_t addresses = AT_IP + (v4 ? V4_SOURCE : V6_SOURCE);
    const uint32_t udp = head - URO_UDP_LEN;

    set_lengths(headers, head, payload);
    const uint32_t sum =
        uro_ip_sum(URO_IPPROTO_UDP + URO_UDP_LEN + payload, headers + addresses, udp - addresses);
    uro_put_be16(headers + head - UDP_CHECKSUM, (uint16_t)~uro_ip_sum_finish(sum));
}

void uro_gso_cut(const uint8_t *joined, uint32_t head, uint32_t index, uint32_t payload,
                 uint8_t *out)
{
    memcpy(out, joined, head);
    if (head == HEAD_V4) {
        uint8_t *ident = out + AT_IP + V4_IDENTIFICATION;
        uro_put_be16(ident, (uint16_t)(uro_get_be16(ident) + index));
    }
    set_lengths(out, head, payload);
    uro_put_be16(out + head - UDP_CHECKSUM, 0);
}

void uro_gso_forget_checksum(uint8_t *frame, uint32_t length)
{
    const uint32_t head = uro_gso_head(frame, length);

    if (head != 0)
        uro_put_be16(frame + head - UDP_CHECKSUM, 0);
}
