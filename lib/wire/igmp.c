/* SPDX-License-Identifier: BSD-3-Clause */
/* igmp.c - encodes reports and decodes queries of IGMPv1 to v3. */
#include "wire/igmp.h"

#include "base/mark.h"

enum {
    AT_TYPE = 0,
    AT_MAX_RESPONSE = 1,
    AT_CHECKSUM = 2,
    AT_GROUP = 4,        /* offset in a query, and in reports before version 3 */
    AT_RECORD_COUNT = 6, /* offset in a report */
};
static_assert(AT_RECORD_COUNT + 2 == URO_IGMP_REPORT_LEN, "the offsets must cover the header");

enum { RECORD_TYPE = 0, RECORD_GROUP = 4 };
static_assert(RECORD_GROUP + 4 == URO_IGMP_RECORD_LEN, "the offsets must cover the record");

#define TYPE_QUERY     0x11u
#define TYPE_REPORT_V1 0x12u
#define TYPE_REPORT_V2 0x16u
#define TYPE_LEAVE_V2  0x17u
#define TYPE_REPORT_V3 0x22u

#define LEN_SHORT 8u  /* exact length of versions 1 and 2 */
#define LEN_V3    12u /* minimum length of version 3 */

#define RESPONSE_UNIT_MS 100u
#define RESPONSE_V1_MS   10000u

/* Converts a response code to its units (RFC 3376, 4.1.1). Codes from 128 on are floating point
 * numbers. */
static uint32_t response_units(uint8_t code)
{
    if (code < 128)
        return code;
    return ((code & 0xfu) | 0x10u) << ((code >> 4 & 7u) + 3);
}

enum uro_membership_result uro_igmp_decode(const uint8_t *in, uint32_t length,
                                           struct uro_membership_query *query)
{
    if (length < LEN_SHORT || uro_ip_sum_finish(uro_ip_sum(0, in, length)) != 0)
        return URO_MEMBERSHIP_BAD;
    if (in[AT_TYPE] != TYPE_QUERY)
        return URO_MEMBERSHIP_OTHER;
    if (length > LEN_SHORT && length < LEN_V3) {
        URO_MARK("MCAST.QUERY.FORM");
        return URO_MEMBERSHIP_BAD;
    }

    const uint8_t code = in[AT_MAX_RESPONSE];
    *query = (struct uro_membership_query){ .version = 3 };
    if (uro_get_be32(&in[AT_GROUP]) != 0)
        query->group = uro_gid_from_ipv4(&in[AT_GROUP]);
    if (length >= LEN_V3) {
        query->max_response_ms = response_units(code) * RESPONSE_UNIT_MS;
    } else {
        query->version = code == 0 ? 1 : 2;
        query->max_response_ms = code == 0 ? RESPONSE_V1_MS : code * RESPONSE_UNIT_MS;
    }
    return URO_MEMBERSHIP_QUERY;
}

void uro_igmp_encode_old(uint8_t out[static URO_IGMP_OLD_LEN], uint8_t version, bool member,
                         const struct uro_gid *group)
{
    const uint8_t report = version == 1 ? TYPE_REPORT_V1 : TYPE_REPORT_V2;

    URO_ASSERT(member || version == 2);
    memset(out, 0, URO_IGMP_OLD_LEN);
    out[AT_TYPE] = member ? report : TYPE_LEAVE_V2;
    memcpy(&out[AT_GROUP], &group->octets[12], 4);
    uro_put_be16(&out[AT_CHECKSUM], uro_ip_sum_finish(uro_ip_sum(0, out, URO_IGMP_OLD_LEN)));
}

void uro_igmp_encode_record(uint8_t out[static URO_IGMP_RECORD_LEN],
                            enum uro_membership record_type, const struct uro_gid *group)
{
    memset(out, 0, URO_IGMP_RECORD_LEN);
    out[RECORD_TYPE] = (uint8_t)record_type;
    memcpy(&out[RECORD_GROUP], &group->octets[12], 4);
}

void uro_igmp_encode_report(uint8_t *out, uint16_t count)
{
    URO_MARK("MCAST.REPORT.FORM");
    memset(out, 0, URO_IGMP_REPORT_LEN);
    out[AT_TYPE] = TYPE_REPORT_V3;
    uro_put_be16(&out[AT_RECORD_COUNT], count);
    uro_put_be16(&out[AT_CHECKSUM],
                 uro_ip_sum_finish(uro_ip_sum(
                     0, out, URO_IGMP_REPORT_LEN + (size_t)count * URO_IGMP_RECORD_LEN)));
}
