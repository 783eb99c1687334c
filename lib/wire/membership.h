/* SPDX-License-Identifier: BSD-3-Clause */
/* membership.h - what IGMP and MLD have in common: queries, and records of a report. */
#pragma once

#include "wire/gid.h"

/* Versions that reports have; queries of older ones ask for reports of theirs. */
#define URO_MEMBERSHIP_IGMP 3u
#define URO_MEMBERSHIP_MLD  2u

/* The meaning of a record. Our records name no sources: "exclude none" is a member, "include
 * none" is not. The values are those of the wire, in IGMPv3 and MLDv2 alike. */
enum uro_membership {
    URO_MEMBERSHIP_IS_EXCLUDE = 2, /* answers a query: a member */
    URO_MEMBERSHIP_TO_INCLUDE = 3, /* left */
    URO_MEMBERSHIP_TO_EXCLUDE = 4, /* joined */
};

struct uro_membership_query {
    uint8_t version;          /* version of IGMP (1 to 3) or MLD (1, 2) */
    uint32_t max_response_ms; /* answer within */
    struct uro_gid group;     /* zero: asks for all */
};

enum uro_membership_result {
    URO_MEMBERSHIP_BAD,   /* too short for its type, a wrong checksum, or not as it must be sent */
    URO_MEMBERSHIP_OTHER, /* no query: other members' reports */
    URO_MEMBERSHIP_QUERY,
};
