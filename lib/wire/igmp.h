/* SPDX-License-Identifier: BSD-3-Clause */
/* igmp.h - membership of IPv4 groups (RFC 3376): reports and queries of every version. */
#pragma once

#include "wire/ip.h"
#include "wire/membership.h"

#define URO_IGMP_REPORT_LEN 8u /* octets before the records */
#define URO_IGMP_RECORD_LEN 8u /* octets of a record without sources */

URO_NODISCARD enum uro_membership_result uro_igmp_decode(const uint8_t *in, uint32_t length,
                                                         struct uro_membership_query *query);

#define URO_IGMP_OLD_LEN 8u
/* Writes a message of version 1 or 2 about one group: a report if @member, else a leave message,
 * which only version 2 has. */
void uro_igmp_encode_old(uint8_t out[static URO_IGMP_OLD_LEN], uint8_t version, bool member,
                         const struct uro_gid *group);

/* Writes a report: first the records, then the header before them, because the checksum covers
 * both. */
void uro_igmp_encode_record(uint8_t out[static URO_IGMP_RECORD_LEN],
                            enum uro_membership record_type, const struct uro_gid *group);
/* Writes the header, URO_IGMP_REPORT_LEN octets, to @out. @count records follow it. */
void uro_igmp_encode_report(uint8_t *out, uint16_t count);
