/* SPDX-License-Identifier: BSD-3-Clause */
/* engine.h - the whole stack of one port: transport (core), connections (cm), neighbours and
 * groups.
 *
 * The engine does no I/O and reads no clock. Its driver calls these functions from one thread at a
 * time, with a `now` that never decreases:
 *
 *     input    packets that arrived   -> state, completions
 *     output   room for packets       <- packets to send (due timers run first)
 *     event    -                      <- events for the process; delivers its completions
 *     next     -                      <- time at which output must be called
 *
 * Objects are created and changed through uro_engine_shard(), also by one thread at a time. Posting
 * and polling need no lock of the engine (core/work.h, core/cq.h).
 */
#pragma once

#include "base/time.h"
#include "cm/conn.h"
#include "core/cq.h"
#include "core/limits.h"
#include "core/observer.h"
#include "core/path.h"
#include "core/pkt.h"
#include "core/qp.h"
#include "core/record.h"
#include "core/tx.h"
#include "wire/gid.h"

#define URO_ENGINE_ADDRESSES_MAX 16u
/* Maximum multicast MAC addresses of an engine: of all groups and of its own addresses. */
#define URO_ENGINE_MACS_MAX (URO_MCAST_GROUPS_MAX + URO_ENGINE_ADDRESSES_MAX + 2u)

struct uro_engine;

struct uro_engine_address {
    struct uro_gid gid; /* also the entry of the GID table; maybe zero: an empty entry */
    uint8_t prefix;     /* length of the subnet prefix in bits: 0..32 for IPv4, 0..128 for IPv6 */
};

struct uro_engine_config {
    struct uro_mac mac;
    uint32_t mtu; /* largest IP packet of the link, 576..9600 bytes */
    struct uro_engine_address addresses[URO_ENGINE_ADDRESSES_MAX];
    uint32_t address_count;
    struct uro_gid gateway4; /* zero: none */
    struct uro_gid gateway6;
    uint8_t seed[32]; /* seed of all random numbers of the engine */
    uint32_t window;  /* packets in flight per queue pair; 0 = URO_WINDOW_DEFAULT */
    uint16_t vlan;    /* VLAN ID: sent frames have its tag; frames of other VLANs are dropped; 0:
                       * no VLAN */
    uint16_t source_port;    /* UDP source port of all packets; 0: many ports, to spread load */
    bool link_routes;        /* the link finds the next hops: the engine does not use ARP or ND */
    uint32_t reorder_buffer; /* packets of the reorder buffer; 0: no buffer, the peer retransmits */
    bool retry_7_forever;    /* retry_cnt 7 means unlimited retries, as in Linux rxe */
    uint8_t timeout_least;   /* shortest ACK timeout, as ibv_qp_attr.timeout; 0: no limit */
    uint32_t hops;           /* next hops in use at once; 0 = URO_NEIGH_HOPS_MAX, the most */
    uint32_t groups;      /* multicast groups joined at once; 0 = URO_MCAST_GROUPS_MAX, the most */
    uint32_t services;    /* maximum services with a listener at one address; 0: no limit */
    uint32_t connections; /* connections of the connection manager at once; 0 = 4096 */
    /* On an address shared with other processes: the upper bits of our QPNs and communication IDs,
     * 1 .. URO_QPN_PREFIXES - 2. 0: the address is not shared. */
    uint8_t qpn_prefix;
    /* If the address is not shared: QPNs get a common random prefix, while such QPNs are free. */
    bool one_qpn_prefix;
    /* Keys of another engine, for an engine of the same device; see struct uro_keys. NULL: the
     * engine has its own keys. */
    struct uro_keys *keys;
    struct uro_record *record; /* memory lent for the record; NULL: part of the engine's memory */
    uint8_t table_bits;        /* log2 of the slots of the QPN and key tables, 4..20; 0 = 14 */
};

/* Returns the number of bytes of memory, which is aligned to 64, for an engine. The caller provides
 * the memory. The engine allocates nothing else. */
size_t uro_engine_size(const struct uro_engine_config *config);

/* Builds an engine in @memory. Returns 0 or
 *   -EINVAL  a value of the configuration is out of its range */
URO_NODISCARD int uro_engine_init(void *memory, const struct uro_engine_config *config,
                                  uro_time now, struct uro_engine **engine);

/* Handles received packets, which are borrowed for the call. */
void uro_engine_input(struct uro_engine *engine, const struct uro_pkt *pkts, uint32_t count,
                      uro_time now);

/* Describes at most @max frames, and returns their number. The caller must write them before the
 * next call that changes the engine, because their spans point into registered memory. Frames to
 * our own addresses use @max too, but are kept and delivered by the next output. So a number below
 * @max does not mean that there is no more work; see uro_engine_next(). */
URO_NODISCARD uint32_t uro_engine_output(struct uro_engine *engine, struct uro_tx *tx, uint32_t max,
                                         uro_time now);

/* Returns the frames to our own addresses that the next output will deliver. They are valid until
 * then. */
const struct uro_pkt *uro_engine_looped(const struct uro_engine *engine, uint32_t *count);

/* Makes the completions of this round visible to programs. Call after transmitting the frames of
 * output(). A caller that fetches all events need not call this. Completions of a call that changes
 * an object are delivered by this call or in the next round. */
void uro_engine_deliver(struct uro_engine *engine);

/* Returns whether the next output() has ACKs to send. */
bool uro_engine_acknowledges(const struct uro_engine *engine);

/* Takes the next event. Returns false when there is none; all completions are then delivered. */
bool uro_engine_event(struct uro_engine *engine, struct uro_event *event);

/* Returns the time at which output() must be called: `now` or earlier when there is work, and
 * URO_TIME_NEVER when only a packet or a doorbell can make work. */
uro_time uro_engine_next(const struct uro_engine *engine);

/* Returns whether a doorbell is pending: the engine has not seen a posted request. Any thread. */
bool uro_engine_rung(const struct uro_engine *engine);

/* Returns the connection manager, for the functions of cm/conn.h. Fetch its events with
 * uro_conn_event() after each round. */
struct uro_cm *uro_engine_cm(struct uro_engine *engine);

/* Ends all connections, see uro_cm_end_all(). Call it after each round until it returns true: then
 * each peer has answered or did not answer in time, and all messages are sent. */
URO_NODISCARD bool uro_engine_end_connections(struct uro_engine *engine, uro_time now);

/* Returns the shard, for the object functions of core: uro_qp_create(), uro_key_register() ... */
struct uro_shard *uro_engine_shard(struct uro_engine *engine);

/* Makes the engine report changes of queue pairs to @observer, which must stay valid. NULL stops
 * the reports. */
void uro_engine_observe(struct uro_engine *engine, const struct uro_observer *observer);

/* Makes messages find no receive; see struct uro_no_receive. */
void uro_engine_hide_receives(struct uro_engine *engine, uint32_t first, uint32_t every);

/* Modifies a queue pair as uro_qp_modify(), and finds the next hop of a new address vector. Further
 * errors:
 *   -ENETUNREACH  no route: the destination is in another subnet and no gateway is configured
 *   -ENOMEM       all next hops are in use
 *   -EINVAL       no such sgid_index, its GID is empty or of another IP version than the
 *                 destination, or the destination is zero */
URO_NODISCARD int uro_engine_qp_modify(struct uro_engine *engine, struct uro_qp *qp,
                                       const struct uro_qp_attr *attr, unsigned mask, uro_time now);
void uro_engine_qp_destroy(struct uro_engine *engine, struct uro_qp *qp);

/* Returns whether a next hop was refused (-ENOMEM) because all next hops are in use. */
bool uro_engine_hops_refused(const struct uro_engine *engine);

/* Create and destroy an address handle, and hold its next hop. Errors: the further errors of
 * uro_engine_qp_modify(). */
URO_NODISCARD int uro_engine_ah_create(struct uro_engine *engine, struct uro_ah *ah, uint32_t pd,
                                       const struct uro_address *address, uro_time now);
void uro_engine_ah_destroy(struct uro_engine *engine, struct uro_ah *ah);

/* Joins a multicast group for its first queue pair, or leaves the group after its last. While
 * joined, the engine accepts the frames of the group and informs routers and switches. A repeated
 * join or leave has no effect. Returns 0 or
 *   -EINVAL  not a multicast address
 *   -ENOMEM  the engine has joined as many groups as the configuration allows */
URO_NODISCARD int uro_engine_join(struct uro_engine *engine, const struct uro_gid *group,
                                  uro_time now);
void uro_engine_leave(struct uro_engine *engine, const struct uro_gid *group, uro_time now);

/* A request to find out whether the next hop towards a destination answers. The caller owns the
 * memory. All zero: not in use. */
struct uro_resolve {
    struct uro_link link;
    struct uro_hop *hop; /* held from begin to end */
    uro_time deadline;
    int status; /* 0 or -ETIMEDOUT, once uro_engine_resolved() returned the request */
    void *user;
};

/* Begins to resolve a next hop. When the next hop answers or @deadline has passed,
 * uro_engine_resolved() returns the request. The next hop is held until uro_engine_resolve_end().
 * Errors: the further errors of uro_engine_qp_modify(). */
URO_NODISCARD int uro_engine_resolve_begin(struct uro_engine *engine, struct uro_resolve *resolve,
                                           uint8_t sgid_index, const struct uro_gid *dest,
                                           uro_time deadline, uro_time now);
/* Ends a request and releases its next hop. Has no effect on a request that is not in use. */
void uro_engine_resolve_end(struct uro_engine *engine, struct uro_resolve *resolve);

/* Returns the next finished request, or NULL. */
struct uro_resolve *uro_engine_resolved(struct uro_engine *engine);

/* A service with a listener of rdma_cm. */
struct uro_listened {
    uint64_t id;
    struct uro_gid address; /* zero: any */
};

/* Writes at most @max services that have listeners, and returns their number. The version changes
 * whenever the list may have changed. */
uint32_t uro_engine_services(const struct uro_engine *engine, struct uro_listened *services,
                             uint32_t max);
uint32_t uro_engine_service_count(const struct uro_engine *engine);
uint32_t uro_engine_services_version(const struct uro_engine *engine);

/* Writes at most @max multicast MAC addresses that the port must receive, each once, and returns
 * their number. The version changes whenever the list may have changed. */
uint32_t uro_engine_multicast_macs(const struct uro_engine *engine, struct uro_mac *macs,
                                   uint32_t max);
/* Writes at most @max groups that programs joined, and returns their number. */
uint32_t uro_engine_groups(const struct uro_engine *engine, struct uro_gid *groups, uint32_t max);
uint32_t uro_engine_multicast_version(const struct uro_engine *engine);

/* Counts @count frames of the last output as lost, because the link had no room for them. */
void uro_engine_lost(struct uro_engine *engine, uint32_t count);

const struct uro_counters *uro_engine_counters(const struct uro_engine *engine);

/* rule PORT.MTU: Sets the largest IP packet that the link carries from now on, at most the value in
 * the configuration. Connected queue pairs keep their path MTU. A queue pair that connects later
 * gets no larger path MTU. */
void uro_engine_set_mtu(struct uro_engine *engine, uint32_t mtu);

/* Reports that the link went down or came up, also for the first time. When the link comes up, the
 * engine resolves all next hops again, and reports its groups. */
void uro_engine_link(struct uro_engine *engine, bool up, uro_time now);
