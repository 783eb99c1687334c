/* SPDX-License-Identifier: BSD-3-Clause */
/* membership.h - types that IGMP and MLD share: queries, and records of a report. */
#pragma once

#include "wire/gid.h"

/* Versions of reports. A query of an older version requests reports of that version. */
#define URO_MEMBERSHIP_IGMP 3u
#define URO_MEMBERSHIP_MLD  2u

/* Record types, with the values of IGMPv3 and MLDv2. Our records name no sources: "exclude none"
 * means a member, "include none" means not a member. */
enum uro_membership {
    URO_MEMBERSHIP_IS_EXCLUDE = 2, /* in the response to a query: a member */
    URO_MEMBERSHIP_TO_INCLUDE = 3, /* left */
    URO_MEMBERSHIP_TO_EXCLUDE = 4, /* joined */
};

struct uro_membership_query {
    uint8_t version;          /* version of IGMP (1 to 3) or MLD (1, 2) */
    uint32_t max_response_ms; /* longest delay of the response */
    struct uro_gid group;     /* zero: all groups are queried */
};

enum uro_membership_result {
    URO_MEMBERSHIP_BAD,   /* too short, wrong checksum, or sent in a forbidden way */
    URO_MEMBERSHIP_OTHER, /* another message, such as a report of another member */
    URO_MEMBERSHIP_QUERY,
};
