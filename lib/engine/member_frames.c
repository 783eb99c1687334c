/* SPDX-License-Identifier: BSD-3-Clause */
/* member_frames.c - IGMPv3 and MLDv2 reports as frames.
 *
 * Both are sent to one group of all routers that listen for reports, with a TTL of 1. IPv4 says so in
 * its TOS too: internetwork control.
 */
#include "engine/member_frames.h"

#include "wire/ether.h"
#include "wire/icmp.h"
#include "wire/igmp.h"
#include "wire/mld.h"

#define TTL         1u
#define TOS_CONTROL 0xc0u
#define ETHER_LEAST 60u /* without the frame check sequence */

#define V4_REPORT_AT (URO_ETHER_LEN + URO_IPV4_LEN + 4u) /* behind Router Alert */
#define V6_REPORT_AT (URO_ETHER_LEN + URO_IP_LEN_MAX)

static const struct uro_gid routers4 = { { [10] = 0xff, 0xff, 224, 0, 0, 22 } };
static const struct uro_gid routers6 = { { 0xff, 0x02, [15] = 0x16 } };

void uro_member_writer_init(struct uro_member_writer *writer,
                            const struct uro_engine_config *config, bool v6, uint8_t *octets)
{
    *writer = (struct uro_member_writer){ .config = config, .v6 = v6, .octets = octets };
}

static uint32_t report_at(bool v6)
{
    return v6 ? V6_REPORT_AT : V4_REPORT_AT;
}

static uint32_t report_length(bool v6, uint32_t count)
{
    return v6 ? URO_MLD_REPORT_LEN + count * URO_MLD_RECORD_LEN
              : URO_IGMP_REPORT_LEN + count * URO_IGMP_RECORD_LEN;
}

bool uro_member_writer_add(struct uro_member_writer *writer, enum uro_membership what,
                           const struct uro_gid *group)
{
    const bool v6 = writer->v6;
    const uint32_t link = URO_ETHER_LEN + writer->config->mtu;
    const uint32_t most = link < URO_MEMBER_FRAME_OCTETS ? link : URO_MEMBER_FRAME_OCTETS;
    uint8_t *at = writer->octets + report_at(v6) + report_length(v6, writer->count);

    if (report_at(v6) + report_length(v6, writer->count + 1u) > most)
        return false;
    if (v6)
        uro_mld_encode_record(at, what, group);
    else
        uro_igmp_encode_record(at, what, group);
    writer->count++;
    return true;
}

/* The first of our addresses that is of the right kind, or none: zero, which both protocols take. */
static struct uro_gid source(const struct uro_engine_config *config, bool v6)
{
    static const uint8_t none[4];

    for (uint32_t i = 0; i < config->address_count; i++) {
        const struct uro_gid *gid = &config->addresses[i].gid;
        if (v6 ? uro_gid_is_link_local(gid) : uro_gid_is_ipv4(gid))
            return *gid;
    }
    return v6 ? (struct uro_gid){ { 0 } } : uro_gid_from_ipv4(none);
}

bool uro_member_writer_finish(struct uro_member_writer *writer, struct uro_tx *tx)
{
    const bool v6 = writer->v6;
    const struct uro_ip ip = { .v6 = v6,
                               .dont_fragment = true,
                               .router_alert = true,
                               .traffic_class = v6 ? 0 : TOS_CONTROL,
                               .hop_limit = TTL,
                               .protocol = v6 ? URO_IPPROTO_ICMPV6 : URO_IPPROTO_IGMP,
                               .payload_length = (uint16_t)report_length(v6, writer->count),
                               .source = source(writer->config, v6),
                               .dest = v6 ? routers6 : routers4 };
    const struct uro_ether ether = { .dest = uro_mac_multicast(&ip.dest),
                                     .source = writer->config->mac,
                                     .type = v6 ? URO_ETHERTYPE_IPV6 : URO_ETHERTYPE_IPV4 };
    uint8_t *at = writer->octets;

    if (writer->count == 0)
        return false;
    at += uro_ether_put(at, &ether);
    at += uro_ip_put(at, &ip);
    if (v6)
        uro_mld_encode_report(at, &ip, writer->count);
    else
        uro_igmp_encode_report(at, writer->count);

    uint32_t length = report_at(v6) + report_length(v6, writer->count);
    static_assert(V4_REPORT_AT + URO_IGMP_REPORT_LEN + URO_IGMP_RECORD_LEN < ETHER_LEAST,
                  "one record of IPv4 needs padding");
    if (length < ETHER_LEAST) {
        memset(writer->octets + length, 0, ETHER_LEAST - length);
        length = ETHER_LEAST;
    }
    tx->way = URO_TX_WIRE;
    tx->head_length = 0;
    tx->pad_count = 0;
    tx->icrc = false;
    tx->payload_length = length;
    tx->span_count = 1;
    tx->spans[0] = (struct uro_span){ .at = writer->octets, .length = length };
    return true;
}
