/* SPDX-License-Identifier: BSD-3-Clause */
/* mld.c - reports and queries of MLDv1 and v2. */
#include "wire/mld.h"

#include "base/mark.h"

enum {
    AT_TYPE = 0,
    AT_CHECKSUM = 2,
    AT_MAX_RESPONSE = 4, /* offset in a query */
    AT_RECORD_COUNT = 6, /* offset in a report */
    AT_GROUP = 8,        /* offset in a query, and in reports before version 2 */
};
static_assert(AT_RECORD_COUNT + 2 == URO_MLD_REPORT_LEN, "the offsets must cover the header");

enum { RECORD_TYPE = 0, RECORD_GROUP = 4 };
static_assert(RECORD_GROUP + 16 == URO_MLD_RECORD_LEN, "the offsets must cover the record");

#define TYPE_QUERY     130u
#define TYPE_REPORT_V1 131u
#define TYPE_DONE      132u
#define TYPE_REPORT_V2 143u

#define LEN_V1 24u /* exact length of version 1 */
#define LEN_V2 28u /* minimum length of version 2 */

#define HOP_LIMIT 1u

/* Converts a response code to milliseconds (RFC 3810, 5.1.3). Codes from 32768 on are floating
 * point numbers, except in version 1: @plain. */
static uint32_t response_ms(uint16_t code, bool plain)
{
    if (plain || code < 32768)
        return code;
    return ((code & 0xfffu) | 0x1000u) << ((code >> 12 & 7u) + 3);
}

bool uro_mld_is(uint8_t type)
{
    return type == TYPE_QUERY || type == TYPE_REPORT_V1 || type == TYPE_DONE ||
           type == TYPE_REPORT_V2;
}

static uint16_t checksum(const struct uro_ip *ip, const uint8_t *in, uint32_t length)
{
    const uint32_t pseudo = uro_ip_pseudo_sum(ip, URO_IPPROTO_ICMPV6, length);

    return uro_ip_sum_finish(uro_ip_sum(pseudo, in, length));
}

enum uro_membership_result uro_mld_decode(const struct uro_ip *ip, const uint8_t *in,
                                          uint32_t length, struct uro_membership_query *query)
{
    if (length < LEN_V1 || checksum(ip, in, length) != 0)
        return URO_MEMBERSHIP_BAD;
    if (in[AT_TYPE] != TYPE_QUERY)
        return URO_MEMBERSHIP_OTHER;
    if (!ip->router_alert || ip->hop_limit != HOP_LIMIT || !uro_gid_is_link_local(&ip->source) ||
        (length > LEN_V1 && length < LEN_V2)) {
        URO_MARK("MCAST.QUERY.FORM");
        return URO_MEMBERSHIP_BAD;
    }

    *query = (struct uro_membership_query){ .version = length == LEN_V1 ? 1 : 2 };
    query->max_response_ms = response_ms(uro_get_be16(&in[AT_MAX_RESPONSE]), query->version == 1);
    memcpy(query->group.octets, &in[AT_GROUP], sizeof query->group.octets);
    return URO_MEMBERSHIP_QUERY;
}

void uro_mld_encode_old(uint8_t out[static URO_MLD_OLD_LEN], const struct uro_ip *ip, bool member,
                        const struct uro_gid *group)
{
    memset(out, 0, URO_MLD_OLD_LEN);
    out[AT_TYPE] = member ? TYPE_REPORT_V1 : TYPE_DONE;
    memcpy(&out[AT_GROUP], group->octets, sizeof group->octets);
    uro_put_be16(&out[AT_CHECKSUM], checksum(ip, out, URO_MLD_OLD_LEN));
}

void uro_mld_encode_record(uint8_t out[static URO_MLD_RECORD_LEN], enum uro_membership record_type,
                           const struct uro_gid *group)
{
    memset(out, 0, URO_MLD_RECORD_LEN);
    out[RECORD_TYPE] = (uint8_t)record_type;
    memcpy(&out[RECORD_GROUP], group->octets, sizeof group->octets);
}

void uro_mld_encode_report(uint8_t *out, const struct uro_ip *ip, uint16_t count)
{
    const uint32_t length = URO_MLD_REPORT_LEN + (uint32_t)count * URO_MLD_RECORD_LEN;

    URO_MARK("MCAST.REPORT.FORM");
    memset(out, 0, URO_MLD_REPORT_LEN);
    out[AT_TYPE] = TYPE_REPORT_V2;
    uro_put_be16(&out[AT_RECORD_COUNT], count);
    uro_put_be16(&out[AT_CHECKSUM], checksum(ip, out, length));
}
