/* SPDX-License-Identifier: BSD-3-Clause */
/* grh.c - see grh.h. */
#include "wire/grh.h"

#include "base/mark.h"
#include "wire/ip.h"

#define V4_AT (URO_GRH_LEN - URO_IPV4_LEN)

enum {
    V4_VERSION_IHL = V4_AT,
    V4_TOS = V4_AT + 1,
    V4_TTL = V4_AT + 8,
    V4_SOURCE = V4_AT + 12,
    V4_DEST = V4_AT + 16,
    V6_VERSION_CLASS_FLOW = 0,
    V6_HOP_LIMIT = 7,
    V6_SOURCE = 8,
    V6_DEST = 24,
};
static_assert(V4_DEST + 4 == URO_GRH_LEN, "an IPv4 header ends the area");
static_assert(V6_DEST + 16 == URO_GRH_LEN, "an IPv6 header fills the area");

#define V4_NO_OPTIONS 0x45u

void uro_grh_encode(uint8_t out[static URO_GRH_LEN], const uint8_t *network, bool v6)
{
    uint32_t length = v6 ? URO_IPV6_LEN : URO_IPV4_LEN;

    URO_MARK("UD.GRH");
    memset(out, 0, URO_GRH_LEN - length);
    memcpy(out + URO_GRH_LEN - length, network, length);
}

static void decode_v4(const uint8_t *in, struct uro_grh *grh)
{
    *grh = (struct uro_grh){ .traffic_class = in[V4_TOS],
                             .hop_limit = in[V4_TTL],
                             .source = uro_gid_from_ipv4(&in[V4_SOURCE]),
                             .dest = uro_gid_from_ipv4(&in[V4_DEST]) };
}

static void decode_v6(const uint8_t *in, struct uro_grh *grh)
{
    const uint32_t word = uro_get_be32(&in[V6_VERSION_CLASS_FLOW]);

    *grh = (struct uro_grh){ .v6 = true,
                             .traffic_class = (uint8_t)(word >> 20),
                             .hop_limit = in[V6_HOP_LIMIT],
                             .flow_label = word & 0xfffff };
    memcpy(grh->source.octets, &in[V6_SOURCE], sizeof grh->source.octets);
    memcpy(grh->dest.octets, &in[V6_DEST], sizeof grh->dest.octets);
}

bool uro_grh_decode(const uint8_t in[static URO_GRH_LEN], struct uro_grh *grh)
{
    bool v6 = in[V6_VERSION_CLASS_FLOW] >> 4 == 6;
    bool v4 = in[V4_VERSION_IHL] >> 4 == 4;

    if (v6)
        v4 = in[V4_VERSION_IHL] == V4_NO_OPTIONS &&
             uro_ip_sum_finish(uro_ip_sum(0, in + V4_AT, URO_IPV4_LEN)) == 0;
    if (v4)
        decode_v4(in, grh);
    else if (v6)
        decode_v6(in, grh);
    return v4 || v6;
}
