/* SPDX-License-Identifier: BSD-3-Clause */
/* member.h - the multicast groups this engine belongs to, and who is told of them: routers and
 * switches by IGMP and MLD, the link's filter by a list of MAC addresses.
 *
 * Besides what programs join, an engine is a member of what it needs itself: all nodes, and the
 * solicited-node group of each of its IPv6 addresses.
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

#define URO_MEMBER_BUCKETS      1024u
#define URO_MEMBER_FRAMES_MAX   4u    /* described by one output */
#define URO_MEMBER_FRAME_OCTETS 1514u /* a link may carry more; a report needs not */

struct uro_member_group {
    struct uro_gid gid;
    uint16_t next;   /* in its bucket */
    bool joined;     /* by a program */
    bool own;        /* needed by the engine itself */
    bool asked;      /* a query named it */
    uint8_t changes; /* reports of joining or leaving that are still to be made */
    uint8_t record;  /* what the report being sent says of it, an enum uro_membership; 0: nothing */
};

/* Reports of one IP version. */
struct uro_member_reports {
    uro_time change_due; /* groups with changes are reported */
    uro_time answer_due; /* a query is answered: of all groups or of those asked for */
    bool all_asked;
    uro_time older_until[2]; /* a querier of version 1, of IGMP also 2, is there; by version - 1 */
    uint8_t version;         /* of the report being sent */
    bool pending;            /* groups have a record: a report is being sent */
    uint32_t cursor;         /* groups before it are in it already */
};

struct uro_member {
    const struct uro_engine_config *config;
    struct uro_counters *counters;
    struct uro_rng *rng;
    uint32_t joined;  /* groups */
    uint32_t version; /* changes with the list of MAC addresses */
    uint32_t used;    /* groups[0 .. used) are in buckets; those that were left stay until needed */
    struct uro_member_reports reports[2]; /* IPv4, IPv6 */
    uint16_t buckets[URO_MEMBER_BUCKETS]; /* by what makes the MAC address */
    uint8_t frames[URO_MEMBER_FRAMES_MAX][URO_MEMBER_FRAME_OCTETS];
    struct uro_member_group groups[URO_ENGINE_MACS_MAX];
};

/* Nothing is sent before somebody joins or the link is said to be up. @rng is the shard's. */
void uro_member_init(struct uro_member *member, const struct uro_engine_config *config,
                     struct uro_counters *counters, struct uro_rng *rng);

/* Joins a group for its first queue pair. A repeated join has no effect. Returns 0 or
 *   -EINVAL  not a multicast address
 *   -ENOMEM  the engine has joined as many groups as the configuration allows */
URO_NODISCARD int uro_member_join(struct uro_member *member, const struct uro_gid *group,
                                  uro_time now);
/* Leaves a group, when its last member leaves. */
void uro_member_leave(struct uro_member *member, const struct uro_gid *group, uro_time now);

/* Whether a program joined it. */
bool uro_member_of(const struct uro_member *member, const struct uro_gid *group);

/* A received IGMP or MLD message. */
void uro_member_input(struct uro_member *member, const struct uro_frame *frame, uro_time now);

/* The link came up: whoever is there has not heard of us. */
void uro_member_tell_all(struct uro_member *member, uro_time now);

/* Puts the records that are due into reports. */
void uro_member_run(struct uro_member *member, uro_time now);
/* Describes at most @room frames; their spans are memory of ours, written again by the next call. */
URO_NODISCARD uint32_t uro_member_output(struct uro_member *member, struct uro_tx *tx,
                                         uint32_t room);
uro_time uro_member_next(const struct uro_member *member, uro_time now);

/* The groups that programs joined, at most @room; returns how many. */
uint32_t uro_member_groups(const struct uro_member *member, struct uro_gid *groups, uint32_t room);

/* The MAC addresses of all groups, each once, at most @room; returns how many. */
uint32_t uro_member_macs(const struct uro_member *member, struct uro_mac *macs, uint32_t room);
