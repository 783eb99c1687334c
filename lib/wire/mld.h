/* SPDX-License-Identifier: BSD-3-Clause */
/* mld.h - membership of IPv6 groups: reports and queries of version 2 (RFC 3810) and 1 (RFC 2710).
 * They are ICMPv6 messages. */
#pragma once

#include "wire/ip.h"
#include "wire/membership.h"

#define URO_MLD_REPORT_LEN 8u  /* octets before the records */
#define URO_MLD_RECORD_LEN 20u /* octets of a record without sources */

/* Returns whether the first octet of an ICMPv6 message is a type of MLD. */
bool uro_mld_is(uint8_t type);

/* Reads a query. @ip: the header before it. Returns BAD for a query unless the source is
 * link-local, the hop limit is 1 and Router Alert is present. */
URO_NODISCARD enum uro_membership_result uro_mld_decode(const struct uro_ip *ip, const uint8_t *in,
                                                        uint32_t length,
                                                        struct uro_membership_query *query);

#define URO_MLD_OLD_LEN 24u
/* Writes a message of version 1 about one group: a report if @member, else a done message. */
void uro_mld_encode_old(uint8_t out[static URO_MLD_OLD_LEN], const struct uro_ip *ip, bool member,
                        const struct uro_gid *group);

/* Writes a report: first the records, then the header before them, because the checksum covers both
 * and the addresses of @ip. */
void uro_mld_encode_record(uint8_t out[static URO_MLD_RECORD_LEN], enum uro_membership record_type,
                           const struct uro_gid *group);
/* Writes the header, URO_MLD_REPORT_LEN octets, to @out. @count records follow it. */
void uro_mld_encode_report(uint8_t *out, const struct uro_ip *ip, uint16_t count);
