/* SPDX-License-Identifier: BSD-3-Clause */
/* icrc.c - the masks of the invariant CRC; see icrc.h. */
#include "wire/icrc.h"

/* The register after eight octets of ones, which stand for the LRH that RoCEv2 does not have. */
#define AFTER_ONES 0xdebb20e3u

/* rule ICRC.MASK
 * What routers may change, counted as ones. Offsets from the header's first octet. */
enum {
    V4_TOS = 1,
    V4_TTL = 8,
    V4_CHECKSUM = 10,
    V6_VERSION_CLASS = 0,
    V6_CLASS_FLOW = 1,
    V6_HOP_LIMIT = 7,
    UDP_CHECKSUM = 6,
    BTH_CONGESTION = 4,
};

static size_t headers_length(bool v6)
{
    return (v6 ? URO_IPV6_LEN : URO_IPV4_LEN) + URO_UDP_LEN + URO_BTH_LEN;
}

static void mask_transport(uint8_t *udp)
{
    udp[UDP_CHECKSUM] = udp[UDP_CHECKSUM + 1] = 0xff;
    udp[URO_UDP_LEN + BTH_CONGESTION] = 0xff;
}

static uint32_t start_v4(const uint8_t *network)
{
    uint8_t masked[URO_IPV4_LEN + URO_UDP_LEN + URO_BTH_LEN];

    memcpy(masked, network, sizeof masked);
    masked[V4_TOS] = masked[V4_TTL] = 0xff;
    masked[V4_CHECKSUM] = masked[V4_CHECKSUM + 1] = 0xff;
    mask_transport(&masked[URO_IPV4_LEN]);
    return uro_crc32(AFTER_ONES, masked, sizeof masked);
}

static uint32_t start_v6(const uint8_t *network)
{
    uint8_t masked[URO_IPV6_LEN + URO_UDP_LEN + URO_BTH_LEN];

    memcpy(masked, network, sizeof masked);
    masked[V6_VERSION_CLASS] |= 0x0f;
    memset(&masked[V6_CLASS_FLOW], 0xff, 3);
    masked[V6_HOP_LIMIT] = 0xff;
    mask_transport(&masked[URO_IPV6_LEN]);
    return uro_crc32(AFTER_ONES, masked, sizeof masked);
}

uint32_t uro_icrc_start(const uint8_t *network, bool v6)
{
    return v6 ? start_v6(network) : start_v4(network);
}

static uint32_t feed_whole(const uint8_t *network, bool v6, size_t length)
{
    const size_t headers = headers_length(v6);

    URO_ASSERT(length >= headers);
    return uro_crc32(uro_icrc_start(network, v6), network + headers, length - headers);
}

/* rule ICRC.PAD */
uint32_t uro_icrc(const uint8_t *network, bool v6, size_t length)
{
    return uro_crc32_finish(feed_whole(network, v6, length));
}

uint32_t uro_icrc_rxe_flush(const uint8_t *network, bool v6, size_t length)
{
    const size_t bth = headers_length(v6) - URO_BTH_LEN;

    return uro_crc32_finish(
        uro_crc32(feed_whole(network, v6, length), network + bth, length - bth));
}
