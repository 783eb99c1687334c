/* SPDX-License-Identifier: BSD-3-Clause */
/* multicast.h - the multicast groups of this engine. The engine reports its groups to routers and
 * switches (IGMP and MLD). The link gets the list of their MAC addresses for its filter.
 *
 * An engine is a member of the groups that programs join, of the all-hosts and all-nodes groups,
 * and of the solicited-node group of each of its IPv6 addresses.
 */
#pragma once

#include "base/counters.h"
#include "base/rng.h"
#include "base/time.h"
#include "core/limits.h"
#include "core/tx.h"
#include "engine/engine.h"
#include "wire/frame.h"
#include "wire/membership.h"

#define URO_MEMBER_BUCKETS     1024u
#define URO_MEMBER_FRAMES_MAX  4u    /* maximum number of frames described by one output */
#define URO_MEMBER_FRAME_BYTES 1514u /* largest frame of a report */

struct uro_member_group {
    struct uro_gid gid;
    uint16_t next;   /* index of the next group in the bucket */
    bool joined;     /* a program joined the group */
    bool own;        /* the engine itself needs the group */
    bool queried;    /* a query named the group */
    uint8_t changes; /* reports of joining or leaving that must still be sent */
    uint8_t record;  /* record in the report being sent, an enum uro_membership; 0: no record */
};

/* Reports of one IP version. */
struct uro_member_reports {
    uro_time change_due; /* time of the report of groups with changes */
    uro_time answer_due; /* time of the answer to a query for all groups or for `queried` groups */
    bool all_queried;
    uro_time older_until[2]; /* end of the time with an older querier; index: version - 1 */
    uint8_t version;         /* version of the report being sent */
    bool pending;            /* groups have a record: a report is being sent */
    uint32_t cursor;         /* groups[0 .. cursor) are in the current report already */
};

struct uro_member {
    const struct uro_engine_config *config;
    struct uro_counters *counters;
    struct uro_rng *rng;
    uint32_t joined;  /* number of groups that programs joined */
    uint32_t version; /* changes with the list of MAC addresses */
    uint32_t used;    /* groups[0 .. used) are in buckets, also groups that were left */
    struct uro_member_reports reports[2]; /* for IPv4 and IPv6 */
    /* First group of each bucket; the hash uses the bits in the MAC address. */
    uint16_t buckets[URO_MEMBER_BUCKETS];
    uint8_t frames[URO_MEMBER_FRAMES_MAX][URO_MEMBER_FRAME_BYTES];
    struct uro_member_group groups[URO_ENGINE_MACS_MAX];
};

/* Initialises the groups. No report is sent before a program joins a group, a query arrives, or the
 * link is reported up. @rng is the generator of the shard. */
void uro_member_init(struct uro_member *member, const struct uro_engine_config *config,
                     struct uro_counters *counters, struct uro_rng *rng);

/* Joins a group for its first queue pair. A repeated join has no effect. Returns 0 or
 *   -EINVAL  not a multicast address
 *   -ENOMEM  the engine has joined as many groups as the configuration allows */
URO_NODISCARD int uro_member_join(struct uro_member *member, const struct uro_gid *group,
                                  uro_time now);
/* Leaves a group, when its last member leaves. */
void uro_member_leave(struct uro_member *member, const struct uro_gid *group, uro_time now);

/* Returns whether a program joined @group. */
bool uro_member_of(const struct uro_member *member, const struct uro_gid *group);

/* Handles a received IGMP or MLD message. */
void uro_member_input(struct uro_member *member, const struct uro_frame *frame, uro_time now);

/* Reports all groups again after the link came up: routers may not have them. */
void uro_member_report_all(struct uro_member *member, uro_time now);

/* Puts the records that are due into reports. */
void uro_member_run(struct uro_member *member, uro_time now);
/* Describes at most @max frames. Their spans are memory of @member, which the next call
 * overwrites. */
URO_NODISCARD uint32_t uro_member_output(struct uro_member *member, struct uro_tx *tx,
                                         uint32_t max);
uro_time uro_member_next(const struct uro_member *member, uro_time now);

/* Writes at most @max groups that programs joined, and returns their number. */
uint32_t uro_member_groups(const struct uro_member *member, struct uro_gid *groups, uint32_t max);

/* Writes at most @max MAC addresses of all groups, each once, and returns their number. */
uint32_t uro_member_macs(const struct uro_member *member, struct uro_mac *macs, uint32_t max);
