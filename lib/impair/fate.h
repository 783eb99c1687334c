/* SPDX-License-Identifier: BSD-3-Clause */
/* fate.h - the fate of each packet.
 *
 * The fate that uro_impair_fate_draw() finds depends only on the plan, the flow and the number of
 * the packet in its flow. Time, threads and packets of other flows do not change it.
 * uro_impair_fate_pass() adds the faults that depend on time: a limited rate, and a link that is
 * down.
 */
#pragma once

#include "impair/flow.h"

struct uro_impair_fate {
    bool lost;       /* the packet is lost; the other members are then 0 */
    bool duplicated; /* the packet arrives twice */
    bool overtaken;  /* the next packet overtakes it */
    bool marked;     /* the packet gets a CE mark */
    bool corrupted;
    bool resummed;   /* the corrupted packet has the right ICRC */
    uint64_t damage; /* a random number that chooses the changed bits; valid with `corrupted` */
    uro_time delay;
};

/* Returns whether the packet passes unchanged and without delay. */
static inline bool uro_impair_fate_is_plain(const struct uro_impair_fate *fate)
{
    return !fate->lost && !fate->duplicated && !fate->overtaken && !fate->marked &&
           !fate->corrupted && fate->delay == 0;
}

/* Finds the fate of the next packet of @flow, and counts the packet. */
void uro_impair_fate_draw(const struct uro_impair_plan *plan, struct uro_impair_flow *flow,
                          struct uro_impair_fate *fate);

/* The links with a limited rate: the time at which each link has sent all waiting packets, in ps
 * since the plan began. */
struct uro_impair_links {
    uint64_t busy_until[URO_IMPAIR_RULES_MAX][URO_IMPAIR_DIRECTIONS];
};

/* Adds the faults that depend on time to the fate of a packet of @length bytes, at the time
 * @elapsed since the plan began. */
void uro_impair_fate_pass(const struct uro_impair_plan *plan, struct uro_impair_links *links,
                          const struct uro_impair_flow *flow, uint32_t length, uro_time elapsed,
                          struct uro_impair_fate *fate);

/* Returns whether a rule reports the link as down now. */
bool uro_impair_fate_flaps(const struct uro_impair_plan *plan, uro_time elapsed);

/* Changes the bits that fate->damage chooses. Without `resummed`, they are 1 to 3 bits behind the
 * UDP header, which the ICRC detects. With `resummed`, the bits are in the payload, and the packet
 * gets the matching ICRC. A packet without payload then does not change. @packet is what
 * uro_impair_packet_read() has read from the frame. */
void uro_impair_fate_corrupt(const struct uro_impair_fate *fate,
                             const struct uro_impair_packet *packet, uint8_t *frame,
                             uint32_t length);

/* Marks the frame CE as a router does: also corrects the IPv4 checksum, but not the ICRC, which
 * does not cover the mark. @head: the headers of the frame. */
void uro_impair_fate_mark(const struct uro_impair_packet *packet, uint8_t *head);
