/* SPDX-License-Identifier: BSD-3-Clause */
/* shard.h - all mutable state of one engine's transport. One thread at a time uses it; only `mtu`
 * and `doorbells` are for any thread. */
#pragma once

#include "base/doorbell.h"
#include "base/list.h"
#include "base/rng.h"
#include "base/table.h"
#include "base/wheel.h"
#include "core/record.h"
#include "core/reorder.h"
#include "core/sgl.h"
#include "wire/gid.h"

/* When several processes share an address, the upper bits of each QPN and communication ID name the
 * process. The value 0 is unused because QPN 1 begins with it. The last value is unused because the
 * multicast QPN begins with it. */
#define URO_QPN_BITS        24u
#define URO_QPN_PREFIX_BITS 6u
#define URO_QPN_OWN_BITS    (URO_QPN_BITS - URO_QPN_PREFIX_BITS) /* below the prefix */
#define URO_QPN_PREFIXES    (1u << URO_QPN_PREFIX_BITS)

#define URO_SHARD_GIDS_MAX      16u
#define URO_SHARD_GROUP_BUCKETS 256u

struct uro_observer;

/* Registered memory. Several shards may have the same keys. Then a thread that changes the keys
 * excludes the threads that use these shards. */
struct uro_keys {
    struct uro_table table; /* keys by their upper 24 bits */
    uint32_t on_demand;     /* number of regions that may fault */
};

struct uro_shard_config {
    struct uro_mac mac;
    uint32_t mtu;    /* largest IP packet that the link ever carries */
    uint32_t window; /* packets in flight per queue pair */
    uint16_t vlan;   /* VLAN ID in the tag of all frames; 0: no tag */
    bool retry_7_forever;
    uint8_t timeout_least; /* shortest ACK timeout, as an exponent; 0: no limit */
    /* UDP port that every frame leaves from; 0: from the flow label or QPNs */
    uint16_t source_port;
    uint8_t table_bits;
    uint8_t qpn_prefix;    /* upper URO_QPN_PREFIX_BITS of all QPNs; 0: any */
    bool one_qpn_prefix;   /* with qpn_prefix 0: QPNs get a common prefix; see engine.h */
    struct uro_keys *keys; /* keys of another shard, which this shard then shares; NULL: own keys */
    uint8_t seed[URO_RNG_SEED_BYTES];
    struct uro_gid gids[URO_SHARD_GIDS_MAX];
    uint32_t gid_count;
};

/* Lists of queue pairs with a deferred ACK; rxe.c. */
struct uro_deferred {
    struct uro_list waiting[2];
    uint32_t young; /* index of the list with the ACKs deferred since the timer was armed */
    struct uro_timer timer;
};

/* Messages of RC and XRC that find no receive on purpose: message `first`, counted from 1, and
 * every `every`-th message after it. With `every` 0, only message `first`. */
struct uro_no_receive {
    uint32_t first; /* 0: each message finds its receive */
    uint32_t every;
    uint32_t taken; /* receives taken so far */
    bool due;       /* the next message finds none */
};

struct uro_shard {
    struct uro_counters *counters; /* counters in the record */
    struct uro_shard_config config;
    /* a timer for each queue pair, one for the gaps, one for the deferred ACKs */
    struct uro_wheel wheel;
    struct uro_reorder reorder;
    struct uro_deferred deferred;
    struct uro_rng rng;
    struct uro_table qps;                            /* queue pairs by QPN */
    struct uro_keys *keys;                           /* own_keys, or those of config */
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
    struct uro_list cqs;        /* completion queues; snapshot.c */
    uint32_t cq_count;          /* length of `cqs` */
    uint32_t cq_number;         /* number of the newest CQ */
    uint32_t qpn_prefix;        /* the prefix of config, or the common prefix; 0: none yet */
    struct uro_list srq_list;   /* all shared receive queues; snapshot.c */
    uint32_t srq_count;         /* length of `srq_list` */
    uint32_t srq_number;        /* uro_srq.listed_as of the newest SRQ */
    /* The next round begins with requests, because responses used up this round. */
    bool requests_first;
    uint8_t *copies;            /* uro_touch_size() bytes */
    size_t copied;              /* offset of the next copy in `copies`, which is a ring */
    uro_touch_attempt *attempt; /* accesses memory that may fault; NULL: no memory faults */
    uro_time now;               /* time of the newest input, output or modify */
    struct uro_no_receive no_receive;
    const struct uro_observer *observer; /* NULL: there is no observer */
    struct uro_keys own_keys;
    atomic_uint mtu; /* current MTU of the link, <= config.mtu; uro_engine_set_mtu() */
    _Alignas(64) struct uro_doorbell_list doorbells; /* rung by posting threads */
};

/* Returns the number of bytes of memory for the buckets of the tables, and for `copies`. */
size_t uro_shard_table_size(const struct uro_shard_config *config);

/* Initialises a shard, and sets its @record to zero. @tables: uro_shard_table_size() bytes, aligned
 * to 64. */
void uro_shard_init(struct uro_shard *shard, const struct uro_shard_config *config, void *tables,
                    struct uro_record *record, uro_time now);

/* Returns whether the address belongs to this engine. */
bool uro_shard_owns(const struct uro_shard *shard, const struct uro_gid *address);

/* Returns the largest IP packet that the link carries now. Any thread. */
uint32_t uro_shard_mtu(const struct uro_shard *shard);

/* Returns the largest path MTU whose packets fit into an IP packet of @packet bytes, or the
 * smallest path MTU if none fits. */
uint32_t uro_shard_payload_of(uint32_t packet);

/* Return the largest path MTU that the link carries now (any thread), and that it ever carries. */
uint32_t uro_shard_path_mtu(const struct uro_shard *shard);
uint32_t uro_shard_path_mtu_ever(const struct uro_shard *shard);

/* Returns a random number of @bits bits that is not below @least and not in @table. */
uint32_t uro_shard_unused(struct uro_shard *shard, const struct uro_table *table, unsigned bits,
                          uint32_t least);

/* Returns a QPN that no queue pair has, with the configured or the common prefix if possible. */
uint32_t uro_shard_unused_qpn(struct uro_shard *shard);

/* ---- for the engine, which drives the shard --------------------------------------- */

/* Handles a RoCE packet for one of our addresses or groups that passed uro_frame_roce(). Every
 * reason to drop it has a counter. receive.c */
void uro_receive(struct uro_shard *shard, const struct uro_frame *frame);

/* Takes the doorbells, runs due timers, then describes at most @max packets. The turns are fair
 * between queue pairs. Responses come before requests, unless they used up the last round.
 * schedule.c */
URO_NODISCARD uint32_t uro_schedule_output(struct uro_shard *shard, struct uro_tx *tx,
                                           uint32_t max);

/* Takes the doorbells only. */
void uro_schedule_take_doorbells(struct uro_shard *shard);

/* Puts all queue pairs on the lists of schedule.c again: a next hop changed, and any queue pair may
 * have waited for it. */
void uro_schedule_all(struct uro_shard *shard);

/* Returns the time at which uro_schedule_output() must be called, as uro_engine_next(). */
uro_time uro_schedule_next(const struct uro_shard *shard);
