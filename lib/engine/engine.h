/* SPDX-License-Identifier: BSD-3-Clause */
/* engine.h - the whole stack of one port: transport (core), neighbours, groups, later
 * connections (cm).
 *
 * The engine does no I/O and reads no clock. Its driver calls, from one thread at a time and with
 * a `now` that never decreases:
 *
 *     input    packets that arrived   -> state, completions
 *     output   room for packets       <- packets to send (due timers run first)
 *     event    -                      <- what the process must be told; its completions are delivered
 *     next     -                      <- when output must be called even if nothing arrives
 *
 * Objects are made and changed through uro_engine_shard() with the same one-thread rule; posting
 * and polling need no lock of the engine (core/work.h, core/cq.h).
 */
#pragma once

#include "base/counters.h"
#include "base/time.h"
#include "cm/conn.h"
#include "core/cq.h"
#include "core/limits.h"
#include "core/path.h"
#include "core/pkt.h"
#include "core/qp.h"
#include "core/tx.h"
#include "wire/gid.h"

#define URO_ENGINE_ADDRESSES_MAX 16u
/* Multicast MAC addresses an engine can want: of all groups and of its own addresses. */
#define URO_ENGINE_MACS_MAX (URO_MCAST_GROUPS_MAX + URO_ENGINE_ADDRESSES_MAX + 2u)

struct uro_engine;

struct uro_engine_address {
    struct uro_gid gid; /* also the GID table entry: index 0 is the link-local GID */
    uint8_t prefix;     /* bits; of an IPv4 address counted from its own start (0..32) */
};

struct uro_engine_config {
    struct uro_mac mac;
    uint32_t mtu; /* largest IP packet of the link, 576..9600 octets */
    struct uro_engine_address addresses[URO_ENGINE_ADDRESSES_MAX];
    uint32_t address_count;
    struct uro_gid gateway4; /* zero: none */
    struct uro_gid gateway6;
    uint8_t seed[32]; /* all randomness of the engine */
    uint32_t window;  /* packets in flight per queue pair; 0 = URO_WINDOW_DEFAULT */
    uint16_t vlan;    /* 802.1Q: sent frames have its tag, others are not ours; 0: none has one */
    uint16_t source_port; /* UDP port that every frame leaves from; 0: many, for load to spread */
    bool
        link_routes; /* the link finds the way itself: no neighbour is asked, none is out of reach */
    uint32_t reorder_buffer; /* packets of the reorder buffer; 0: no buffer, the peer retransmits */
    bool retry_7_forever;    /* read retry_cnt 7 as Linux rxe does: never give up */
    uint8_t
        timeout_least; /* shorter ACK timeouts of queue pairs are this long, as their attribute; 0: none */
    uint32_t hops;        /* next hops in use at once; 0 = URO_NEIGH_HOPS_MAX, the most */
    uint32_t groups;      /* multicast groups joined at once; 0 = URO_MCAST_GROUPS_MAX, the most */
    uint32_t services;    /* most services with a listener at one address; 0: no limit */
    uint32_t connections; /* of the connection manager, at once; 0 = 4096 */
    uint8_t share; /* of an address that other processes use too: the upper bits of our numbers,
                             1 .. URO_SHARES - 2; 0 = it is ours alone */
    uint8_t table_bits; /* log2 of the places of the QPN and key tables, 4..20; 0 = 14 */
};

/* Octets of memory an engine needs: its only allocation, made by the caller, aligned to 64. */
size_t uro_engine_size(const struct uro_engine_config *config);

/* Returns 0 or
 *   -EINVAL  a value of the configuration is out of its range */
URO_NODISCARD int uro_engine_init(void *memory, const struct uro_engine_config *config,
                                  uro_time now, struct uro_engine **engine);

/* The packets are borrowed for the call. */
void uro_engine_input(struct uro_engine *engine, const struct uro_pkt *pkts, uint32_t count,
                      uro_time now);

/* Describes at most @room frames; returns how many. Each must be written before anything else is
 * called: its spans point into registered memory. Frames to ourselves take room too, but are kept
 * and delivered by the next call: fewer than @room does not mean that there is no more to do, next()
 * says that. */
URO_NODISCARD uint32_t uro_engine_output(struct uro_engine *engine, struct uro_tx *tx,
                                         uint32_t room, uro_time now);

/* The frames to ourselves that the next output will deliver, lent until then. */
const struct uro_pkt *uro_engine_looped(const struct uro_engine *engine, uint32_t *count);

/* Lets programs see the completions of this round, after transmitting what output() described. A caller that fetches
 * all events need not call this. Completions of a control call are delivered with it, or with the next round's. */
void uro_engine_deliver(struct uro_engine *engine);

/* Whether ACKs are left for the next output(). */
bool uro_engine_acknowledges(const struct uro_engine *engine);

/* Takes the next event; false when there is none, and all completions are delivered. */
bool uro_engine_event(struct uro_engine *engine, struct uro_event *event);

/* `now` or earlier when there is work; URO_TIME_NEVER when only a packet or a bell can make some. */
uro_time uro_engine_next(const struct uro_engine *engine);

/* Thread: any. True when a posted request waits to be seen. */
bool uro_engine_rung(const struct uro_engine *engine);

/* For the functions of cm/conn.h. Its events are fetched with uro_conn_event() after each round. */
struct uro_cm *uro_engine_cm(struct uro_engine *engine);

/* Ends all connections, see uro_cm_end_all(). To be called again after rounds until it says that the
 * peers have been told and have answered. */
URO_NODISCARD bool uro_engine_end_connections(struct uro_engine *engine, uro_time now);

/* For core's object functions: uro_qp_create(), uro_key_register() ... */
struct uro_shard *uro_engine_shard(struct uro_engine *engine);

/* Like uro_qp_modify(), and finds the next hop of a new address vector. Further error:
 *   -ENETUNREACH  no route: the destination is in another subnet and no gateway is configured
 *   -EINVAL       sgid_index is empty or of another IP version than the destination */
URO_NODISCARD int uro_engine_qp_modify(struct uro_engine *engine, struct uro_qp *qp,
                                       const struct uro_qp_attr *attr, unsigned mask, uro_time now);
void uro_engine_qp_destroy(struct uro_engine *engine, struct uro_qp *qp);

/* Returns whether a next hop was refused (-ENOMEM) because URO_NEIGH_HOPS_MAX are in use. */
bool uro_engine_hops_refused(const struct uro_engine *engine);

/* Address handles and their next hops. Errors as of uro_engine_qp_modify(). */
URO_NODISCARD int uro_engine_ah_create(struct uro_engine *engine, struct uro_ah *ah, uint32_t pd,
                                       const struct uro_address *address, uro_time now);
void uro_engine_ah_destroy(struct uro_engine *engine, struct uro_ah *ah);

/* Joins a multicast group for its first queue pair, or leaves the group after its last. While joined, the engine accepts the
 * frames of the group and informs routers and switches. A repeated join or leave has no effect.
 * Returns 0 or
 *   -EINVAL  not a multicast address
 *   -ENOMEM  the engine has joined as many groups as the configuration allows */
URO_NODISCARD int uro_engine_join(struct uro_engine *engine, const struct uro_gid *group,
                                  uro_time now);
void uro_engine_leave(struct uro_engine *engine, const struct uro_gid *group, uro_time now);

/* Somebody waits to hear whether the next hop towards a destination answers. His memory; zero: in no
 * use. */
struct uro_resolve {
    struct uro_link link;
    struct uro_hop *hop; /* held from begin to end */
    uro_time deadline;
    int status; /* when done: 0 or -ETIMEDOUT */
    void *user;
};

/* Asks; the answer, or that there was none before @deadline, is fetched with uro_engine_resolved().
 * The next hop stays known until uro_engine_resolve_end(). Errors as of uro_engine_qp_modify(). */
URO_NODISCARD int uro_engine_resolve_begin(struct uro_engine *engine, struct uro_resolve *resolve,
                                           uint8_t sgid_index, const struct uro_gid *dest,
                                           uro_time deadline, uro_time now);
/* Harmless on what is in no use. */
void uro_engine_resolve_end(struct uro_engine *engine, struct uro_resolve *resolve);

/* The next one that is done, or NULL. */
struct uro_resolve *uro_engine_resolved(struct uro_engine *engine);

/* A service that a process listens for, by rdma_cm. */
struct uro_listened {
    uint64_t id;
    struct uro_gid address; /* zero: any */
};

/* At most @room of them; returns how many. The version is another one whenever the list may be. */
uint32_t uro_engine_services(const struct uro_engine *engine, struct uro_listened *services,
                             uint32_t room);
uint32_t uro_engine_service_count(const struct uro_engine *engine);
uint32_t uro_engine_services_version(const struct uro_engine *engine);

/* The multicast MAC addresses to let in, each once, at most @room; returns how many. The version is
 * another one whenever the list may be. */
uint32_t uro_engine_multicast_macs(const struct uro_engine *engine, struct uro_mac *macs,
                                   uint32_t room);
/* The groups that programs joined, at most @room; returns how many. */
uint32_t uro_engine_groups(const struct uro_engine *engine, struct uro_gid *groups, uint32_t room);
uint32_t uro_engine_multicast_version(const struct uro_engine *engine);

/* The link had no room for the @count frames of the last output: they are lost, and counted. */
void uro_engine_lost(struct uro_engine *engine, uint32_t count);

const struct uro_counters *uro_engine_counters(const struct uro_engine *engine);

/* The largest IP packet that the link carries from now on; never more than in the configuration. Queue pairs
 * keep their path MTU. A queue pair that connects later gets no larger MTU. rule PORT.MTU */
void uro_engine_set_mtu(struct uro_engine *engine, uint32_t mtu);

/* The link went down or came up, also for the first time: neighbours are asked again, groups
 * reported. */
void uro_engine_link(struct uro_engine *engine, bool up, uro_time now);
