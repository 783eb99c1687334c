/* SPDX-License-Identifier: BSD-3-Clause */
/* shard.h - all mutable state of one engine's transport; one thread at a time. */
#pragma once

#include "base/bells.h"
#include "base/counters.h"
#include "base/list.h"
#include "base/rng.h"
#include "base/table.h"
#include "base/wheel.h"
#include "core/reorder.h"
#include "core/sgl.h"
#include "wire/gid.h"

/* Of an address that several processes use: the upper bits of a number that peers send to say whose
 * it is. 0 is nobody's, for queue pair 1 begins so; neither is the last, for that of multicast
 * does. */
#define URO_SHARE_BITS 6u
#define URO_SHARES     (1u << URO_SHARE_BITS)

#define URO_SHARD_GIDS_MAX      16u
#define URO_SHARD_GROUP_BUCKETS 256u

struct uro_shard_config {
    struct uro_mac mac;
    uint32_t mtu;    /* largest IP packet of the link, ever */
    uint32_t window; /* packets in flight per queue pair */
    uint16_t vlan;   /* whose tag all frames have; 0: none has one */
    bool retry_7_forever;
    uint8_t timeout_least; /* shorter ACK timeouts of queue pairs are this long; 0: any is obeyed */
    uint16_t
        source_port; /* UDP port that every frame leaves from; 0: from the flow label or QPNs */
    uint8_t table_bits;
    uint8_t share; /* upper URO_SHARE_BITS of all queue pair numbers; 0: any */
    uint8_t seed[URO_RNG_SEED_OCTETS];
    struct uro_gid gids[URO_SHARD_GIDS_MAX];
    uint32_t gid_count;
};

/* Lists of queue pairs with a deferred ACK; rxe.c. */
struct uro_deferred {
    struct uro_list waiting[2];
    uint32_t young; /* which of them came since the timer was armed */
    struct uro_timer timer;
};

struct uro_shard {
    struct uro_counters counters;
    struct uro_shard_config config;
    struct uro_wheel
        wheel; /* a timer for each queue pair, one for the gaps, one for the deferred ACKs */
    struct uro_reorder reorder;
    struct uro_deferred deferred;
    struct uro_rng rng;
    struct uro_table qps;                            /* by QPN */
    struct uro_table keys;                           /* by the upper 24 bits of lkey = rkey */
    struct uro_table ahs;                            /* address handles, by number */
    struct uro_table srqs;                           /* XRC shared receive queues, by number */
    struct uro_list groups[URO_SHARD_GROUP_BUCKETS]; /* multicast members; datagram.c */
    struct uro_list acks;       /* queue pairs whose next response is an ACK or a NAK */
    struct uro_list responses;  /* other queue pairs with responses to send */
    struct uro_list requests;   /* queue pairs that may have something to send */
    struct uro_list sent;       /* UC and UD queue pairs with sends to complete */
    struct uro_list cq_events;  /* completion queues with an event to fetch, or fresh completions */
    struct uro_list qp_events;  /* queue pairs with an event to fetch */
    struct uro_list srq_events; /* shared receive queues with an event to fetch */
    bool requests_first;        /* in the next round: the last one was all responses */
    uint32_t on_demand;         /* regions in keys that may fault */
    uint8_t *copies;            /* uro_touch_size() octets */
    size_t copied;              /* octets of them that are lent */
    uro_touch_attempt *attempt; /* how memory that may fault is touched; NULL: it does not */
    uro_time now;               /* of the round in progress */
    atomic_uint mtu;            /* of the link now, at most config.mtu; uro_engine_set_mtu() */
    _Alignas(64) struct uro_bells bells; /* rung by posting threads */
};

/* Octets of bucket memory the tables need. */
size_t uro_shard_table_size(const struct uro_shard_config *config);

/* @tables: uro_shard_table_size() octets, aligned to 64. */
void uro_shard_init(struct uro_shard *shard, const struct uro_shard_config *config, void *tables,
                    uro_time now);

/* Whether the address is one of ours. */
bool uro_shard_owns(const struct uro_shard *shard, const struct uro_gid *address);

/* The largest IP packet that the link carries now; any thread. */
uint32_t uro_shard_mtu(const struct uro_shard *shard);

/* Octets of the largest payload of one packet that fits into an IP packet of @packet, or the least
 * there is. */
uint32_t uro_shard_payload_of(uint32_t packet);

/* Octets of the largest payload of one packet that the link carries now, any thread, and that it
 * ever will. */
uint32_t uro_shard_path_mtu(const struct uro_shard *shard);
uint32_t uro_shard_path_mtu_ever(const struct uro_shard *shard);

/* A number of @bits bits, not below @least and not in @table. */
uint32_t uro_shard_unused(struct uro_shard *shard, const struct uro_table *table, unsigned bits,
                          uint32_t least);

/* ---- for the engine, which drives the shard --------------------------------------- */

/* Handles a RoCE packet for one of our addresses, which passed uro_frame_roce(). Every refusal is
 * one counter. receive.c */
void uro_receive(struct uro_shard *shard, const struct uro_frame *frame);

/* Takes the doorbells, runs due timers, then describes at most @room packets. The turns are fair
 * between queue pairs, and responses come before requests. schedule.c */
URO_NODISCARD uint32_t uro_schedule_output(struct uro_shard *shard, struct uro_tx *tx,
                                           uint32_t room);

/* Takes the doorbells only. */
void uro_schedule_hear(struct uro_shard *shard);

/* Puts all queue pairs on the lists of schedule.c again: a next hop changed, and any queue pair may
 * have waited for it. */
void uro_schedule_all(struct uro_shard *shard);

/* Returns the time at which uro_schedule_output() must be called, as uro_engine_next(). */
uro_time uro_schedule_next(const struct uro_shard *shard);
