/* SPDX-License-Identifier: BSD-3-Clause */
/* icrc.c - the masks of the invariant CRC; see icrc.h. */
#include "wire/icrc.h"

/* rule ICRC.MASK: Fields that routers may change are replaced by ones. Offsets count from the first
 * octet of the IP header, after the pad of the mask. The initial register is the register after
 * eight octets of ones, which replace the LRH: RoCEv2 does not have it. */
#define V4(offset)     (URO_CRC32_MASK_PAD + (offset))
#define V6(offset)     (URO_CRC32_MASK_PAD + (offset))
#define V4_UDP(offset) V4(URO_IPV4_LEN + (offset))
#define V6_UDP(offset) V6(URO_IPV6_LEN + (offset))
#define ONES_16                                                                                    \
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff
#define PAD_OF_ONES    ONES_16, ONES_16, ONES_16, ONES_16
#define AFTER_LRH      0xe3, 0x20, 0xbb, 0xde
#define UDP_CHECKSUM   6
#define BTH_CONGESTION (URO_UDP_LEN + 4)

static const struct uro_crc32_mask mask_v4 = {
    .ones = { PAD_OF_ONES, [V4(1)] = 0xff, /* TOS */
              [V4(8)] = 0xff,              /* TTL */
              [V4(10)] = 0xff,             /* checksum */
              [V4(11)] = 0xff, [V4_UDP(UDP_CHECKSUM)] = 0xff, [V4_UDP(UDP_CHECKSUM + 1)] = 0xff,
              [V4_UDP(BTH_CONGESTION)] = 0xff },
    .flip = { PAD_OF_ONES, AFTER_LRH },
};

static const struct uro_crc32_mask mask_v6 = {
    .ones = { PAD_OF_ONES, [V6(0)] = 0x0f, /* class and flow label; the version counts */
              [V6(1)] = 0xff, [V6(2)] = 0xff, [V6(3)] = 0xff, [V6(7)] = 0xff, /* hop limit */
              [V6_UDP(UDP_CHECKSUM)] = 0xff, [V6_UDP(UDP_CHECKSUM + 1)] = 0xff,
              [V6_UDP(BTH_CONGESTION)] = 0xff },
    .flip = { PAD_OF_ONES, AFTER_LRH },
};

static size_t headers_length(bool v6)
{
    return (v6 ? URO_IPV6_LEN : URO_IPV4_LEN) + URO_UDP_LEN + URO_BTH_LEN;
}

const struct uro_crc32_mask *uro_icrc_mask(bool v6)
{
    return v6 ? &mask_v6 : &mask_v4;
}

static uint32_t feed_whole(const uint8_t *network, bool v6, size_t length)
{
    const size_t headers = headers_length(v6);

    URO_ASSERT(length >= headers);
    return uro_crc32_masked(uro_icrc_mask(v6), network, headers, length - headers);
}

/* rule ICRC.PAD */
uint32_t uro_icrc(const uint8_t *network, bool v6, size_t length)
{
    return uro_crc32_finish(feed_whole(network, v6, length));
}

uint32_t uro_icrc_apart(const uint8_t *network, bool v6, size_t headers, const uint8_t *rest,
                        size_t length)
{
    return uro_crc32_finish(uro_crc32(feed_whole(network, v6, headers), rest, length));
}

uint32_t uro_icrc_rxe_flush(const uint8_t *network, bool v6, size_t length)
{
    const size_t bth = headers_length(v6) - URO_BTH_LEN;

    return uro_crc32_finish(
        uro_crc32(feed_whole(network, v6, length), network + bth, length - bth));
}
