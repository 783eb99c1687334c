/* SPDX-License-Identifier: BSD-3-Clause */
/* igmp_mld.c - reports of IGMP and MLD as frames.
 *
 * Reports of IGMPv3 and MLDv2 are sent to the group of all report listeners. Older reports are sent
 * to the group that they report. All reports have a TTL of 1. IPv4 reports have the TOS of
 * internetwork control.
 */
#include "engine/igmp_mld.h"

#include "wire/ether.h"
#include "wire/icmp.h"
#include "wire/igmp.h"
#include "wire/mld.h"

#define TTL         1u
#define TOS_CONTROL 0xc0u
#define ETHER_LEAST 60u /* without the frame check sequence */

#define V4_LEN (URO_IPV4_LEN + 4u) /* with Router Alert */
#define V6_LEN URO_IP_LEN_MAX

static const struct uro_gid listeners4 = { { [10] = 0xff, 0xff, 224, 0, 0, 22 } };
static const struct uro_gid listeners6 = { { 0xff, 0x02, [15] = 0x16 } };
static const struct uro_gid routers4 = { { [10] = 0xff, 0xff, 224, 0, 0, 2 } };
static const struct uro_gid routers6 = { { 0xff, 0x02, [15] = 0x02 } };

void uro_member_writer_init(struct uro_member_writer *writer,
                            const struct uro_engine_config *config, bool v6, uint8_t version,
                            uint8_t *octets)
{
    *writer = (struct uro_member_writer){
        .config = config, .v6 = v6, .version = version, .octets = octets
    };
}

static uint32_t ether_length(const struct uro_member_writer *writer)
{
    return writer->config->vlan != 0 ? URO_ETHER_LEN_MAX : URO_ETHER_LEN;
}

static uint32_t message_offset(const struct uro_member_writer *writer)
{
    return ether_length(writer) + (writer->v6 ? V6_LEN : V4_LEN);
}

static uint8_t *message_of(const struct uro_member_writer *writer)
{
    return writer->octets + message_offset(writer);
}

static bool is_old(const struct uro_member_writer *writer)
{
    return writer->version < (writer->v6 ? URO_MEMBERSHIP_MLD : URO_MEMBERSHIP_IGMP);
}

static uint32_t report_length(bool v6, uint32_t count)
{
    return v6 ? URO_MLD_REPORT_LEN + count * URO_MLD_RECORD_LEN
              : URO_IGMP_REPORT_LEN + count * URO_IGMP_RECORD_LEN;
}

static bool add_old(struct uro_member_writer *writer, enum uro_membership record_type,
                    const struct uro_gid *group)
{
    const bool leaves = record_type == URO_MEMBERSHIP_TO_INCLUDE;

    if (leaves && !writer->v6 && writer->version == 1)
        return true;
    if (writer->count > 0)
        return false;
    writer->member = !leaves;
    writer->group = *group;
    writer->count = 1;
    return true;
}

bool uro_member_writer_add(struct uro_member_writer *writer, enum uro_membership record_type,
                           const struct uro_gid *group)
{
    const bool v6 = writer->v6;
    const uint32_t link = ether_length(writer) + writer->config->mtu;
    const uint32_t most = link < URO_MEMBER_FRAME_BYTES ? link : URO_MEMBER_FRAME_BYTES;
    const uint32_t offset = message_offset(writer);
    uint8_t *record = writer->octets + offset + report_length(v6, writer->count);

    if (is_old(writer))
        return add_old(writer, record_type, group);
    if (offset + report_length(v6, writer->count + 1u) > most)
        return false;
    if (v6)
        uro_mld_encode_record(record, record_type, group);
    else
        uro_igmp_encode_record(record, record_type, group);
    writer->count++;
    return true;
}

/* Returns our first IPv4 or link-local IPv6 address, or zero, which both protocols accept. */
static struct uro_gid source(const struct uro_engine_config *config, bool v6)
{
    static const struct uro_gid unspecified;
    static const uint8_t none[4];

    for (uint32_t i = 0; i < config->address_count; i++) {
        const struct uro_gid *gid = &config->addresses[i].gid;
        if (v6 ? uro_gid_is_link_local(gid) : uro_gid_is_ipv4(gid))
            return *gid;
    }
    return v6 ? unspecified : uro_gid_from_ipv4(none);
}

/* Returns the destination of a report: the address of all report listeners. In older versions it is
 * the group, or all routers for a leave. */
static struct uro_gid dest(const struct uro_member_writer *writer)
{
    if (!is_old(writer))
        return writer->v6 ? listeners6 : listeners4;
    if (writer->member)
        return writer->group;
    return writer->v6 ? routers6 : routers4;
}

static uint32_t encode(const struct uro_member_writer *writer, const struct uro_ip *ip)
{
    uint8_t *pos = message_of(writer);

    if (is_old(writer) && writer->v6)
        uro_mld_encode_old(pos, ip, writer->member, &writer->group);
    else if (is_old(writer))
        uro_igmp_encode_old(pos, writer->version, writer->member, &writer->group);
    else if (writer->v6)
        uro_mld_encode_report(pos, ip, writer->count);
    else
        uro_igmp_encode_report(pos, writer->count);
    return ip->payload_length;
}

static uint32_t message_length(const struct uro_member_writer *writer)
{
    if (is_old(writer))
        return writer->v6 ? URO_MLD_OLD_LEN : URO_IGMP_OLD_LEN;
    return report_length(writer->v6, writer->count);
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
                               .payload_length = (uint16_t)message_length(writer),
                               .source = source(writer->config, v6),
                               .dest = dest(writer) };
    struct uro_ether ether = { .dest = uro_mac_multicast(&ip.dest),
                               .source = writer->config->mac,
                               .type = v6 ? URO_ETHERTYPE_IPV6 : URO_ETHERTYPE_IPV4 };
    uint8_t *pos = writer->octets;

    if (writer->count == 0)
        return false;
    uro_ether_tag(&ether, writer->config->vlan, 0);
    pos += uro_ether_put(pos, &ether);
    pos += uro_ip_put(pos, &ip);
    URO_ASSERT(pos == message_of(writer));
    uint32_t length = (uint32_t)(pos - writer->octets) + encode(writer, &ip);
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
    tx->spans[0] = (struct uro_span){ .data = writer->octets, .length = length };
    return true;
}
