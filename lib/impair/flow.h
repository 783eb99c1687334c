/* SPDX-License-Identifier: BSD-3-Clause */
/* flow.h - flows of packets: packets of one kind and direction, between two hosts, to one queue
 * pair.
 *
 * The number of retransmitted packets depends on time. Such packets have a flow of their own
 * (REPEAT), so that they do not change the numbers of other packets.
 *
 * A flow has a number instead of its addresses: flows of a kind and direction are numbered in the
 * order of their first packets. So a run with other queue pair numbers has the same flows.
 */
#pragma once

#include "impair/plan.h"

/* Further flows of the same kind and direction count as one flow. */
#define URO_IMPAIR_FLOWS_MAX 3072u
/* power of two; larger than FLOWS_MAX, so that a search ends soon */
#define URO_IMPAIR_FLOW_SLOTS 4096u

/* The members of a packet that the model uses. */
struct uro_impair_packet {
    enum uro_impair_direction direction;
    enum uro_impair_kind kind;
    uint32_t qpn; /* destination QP; 0 for OTHER */
    uint32_t psn;
    uint32_t peer; /* hash of the address of the other host */
    /* offset of the IP header; this and the next fields are valid unless kind is OTHER */
    uint32_t network_at;
    uint32_t bth_at;     /* offset of the BTH */
    uint32_t payload_at; /* offset of the first byte behind the extension headers */
    bool v6;
};

/* Reads a frame. @head: its first @length bytes, at least the headers if the frame has them. Does
 * not check whether the packet is valid. */
void uro_impair_packet_read(struct uro_impair_packet *packet, enum uro_impair_direction direction,
                            const uint8_t *head, uint32_t length);

struct uro_impair_flow {
    enum uro_impair_direction direction;
    enum uro_impair_kind kind;
    uint32_t qpn, peer;
    uint32_t number; /* number within its direction and kind, from 0 */
    /* Key of the flow's random numbers; depends on seed, direction, kind and number. */
    uint64_t key;
    uint64_t count;     /* packets so far */
    uint32_t psn;       /* newest PSN; valid if `count` is not 0 and the kind has repeats */
    uint32_t rules;     /* bit i: rule i of the plan is for this flow */
    uint32_t in_burst;  /* bit i: the flow is in a burst of rule i */
    uint32_t replay_at; /* position in a trace that is replayed */
    bool used;          /* the slot has a flow */
};

struct uro_impair_flows {
    struct uro_impair_flow slots[URO_IMPAIR_FLOW_SLOTS];
    /* Flows that have no slot. */
    struct uro_impair_flow others[URO_IMPAIR_DIRECTIONS][URO_IMPAIR_KINDS];
    /* Flow that was found last, or NULL. */
    struct uro_impair_flow *recent[URO_IMPAIR_DIRECTIONS][URO_IMPAIR_KINDS];
    uint32_t numbers[URO_IMPAIR_DIRECTIONS][URO_IMPAIR_KINDS]; /* next numbers */
    uint32_t count;
};

/* Returns the flow of the packet. The first packet of a flow creates it, with `replay_at`
 * UINT32_MAX. */
struct uro_impair_flow *uro_impair_flow_find(struct uro_impair_flows *flows,
                                             const struct uro_impair_plan *plan,
                                             const struct uro_impair_packet *packet);

/* Replaces the plan of all flows. The numbers of the packets continue. */
void uro_impair_flow_replan(struct uro_impair_flows *flows, const struct uro_impair_plan *plan);

/* Sets the key and the rules of a flow for @plan. The caller has set its direction, kind, QP and
 * number. */
void uro_impair_flow_plan(struct uro_impair_flow *flow, const struct uro_impair_plan *plan);
