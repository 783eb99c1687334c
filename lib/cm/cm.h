/* SPDX-License-Identifier: BSD-3-Clause */
/* cm.h - the connection manager of one engine: connections by messages on QP1 (IBTA Vol. 1,
 * "Communication Management"). Sans-IO like the transport; messages come and go as plain values
 * with the addresses they are from and for, engine/gsi.c carries them.
 *
 *   cm.c          the pool of connections, the queue of messages, timers
 *   conn.c        what the owner asks for: connect, accept, reject, disconnect, close
 *   conn_state.c  what each message means in each state
 *   listen.c      who waits for requests
 *   sidr.c        the same for datagrams
 *   conn_qp.c     what a connection means for its queue pair
 *   ip_cm.c       the addresses that rdma_cm puts into the private data
 *
 * Everything runs with the engine locked.
 */
#pragma once

#include "base/counters.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/rng.h"
#include "base/wheel.h"
#include "wire/cm_msg.h"

/* A request that nobody took is sent so many times, so far apart: about three seconds for a server
 * that is starting. */
#define URO_CM_UNDELIVERED_MAX   12u
#define URO_CM_UNDELIVERED_AGAIN URO_MS(250)
#define URO_CM_REPLIES           64u /* messages that are sent once; more are lost, as on any wire */

struct uro_conn;

struct uro_cm_config {
    uint64_t guid;        /* CA GUID, unlike that of any other stack on the network */
    uint32_t connections; /* that may exist at once, those in time-wait included */
    uint32_t services;    /* most services with a listener at one address; 0: no limit */
    uint8_t share;        /* upper URO_SHARE_BITS of all IDs; 0: any */
    uint8_t path_mtu;     /* the largest of our link now: 1 = 256 .. 5 = 4096 octets */
    uint8_t seed[URO_RNG_SEED_OCTETS];
};

/* Where a message is from and for. */
struct uro_cm_route {
    struct uro_gid local;
    struct uro_gid remote;
    uint8_t sgid_index; /* of local */
    uint8_t traffic_class;
    uint8_t hop_limit;
    uint32_t flow_label;
};

/* A message on its way out. */
struct uro_cm_out {
    struct uro_cm_route route;
    uint8_t mad[URO_MAD_LEN];
};

struct uro_cm {
    struct uro_cm_config config;
    struct uro_counters *counters;
    struct uro_rng rng;
    uro_time now;
    struct uro_wheel wheel;
    struct uro_conn *pool; /* config.connections of them */
    bool full;             /* a connection was refused, since all have an owner */
    uint32_t pool_used;    /* the first so many were used at least once */
    struct uro_list unused;
    struct uro_list leaving; /* nobody's, their DREQ not answered yet, oldest first */
    struct uro_list over;    /* without owner, kept for a while for late messages, oldest first */
    struct uro_hash by_id;   /* by local communication ID */
    uint64_t hash_key;       /* secret: no peer can choose the buckets of its connections */
    struct uro_hash by_peer; /* by a hash of the peer's CA GUID and communication ID */
    struct uro_hash by_peer_qpn; /* by a hash of the peer's CA GUID and queue pair number */
    struct uro_list listeners;
    uint32_t listener_count;
    bool services_full; /* a listener was refused: its address has config.services services */
    uint32_t listeners_version; /* another one whenever they may have changed */
    struct uro_list to_send;    /* connections whose message is due */
    struct uro_list events;     /* connections with events to fetch */
    uint32_t reply_first;
    uint32_t reply_count;
    struct uro_cm_out replies[URO_CM_REPLIES];
};

/* Octets of memory, aligned to 64, for the manager and its pool. */
size_t uro_cm_size(const struct uro_cm_config *config);
struct uro_cm *uro_cm_init(void *memory, const struct uro_cm_config *config,
                           struct uro_counters *counters, uro_time now);

/* The largest that requests may ask for from now on. */
void uro_cm_set_path_mtu(struct uro_cm *cm, uint8_t code);

/* A management datagram of ours arrived on QP1. */
void uro_cm_receive(struct uro_cm *cm, const struct uro_cm_route *route,
                    const uint8_t mad[static URO_MAD_LEN], uro_time now);

/* Nobody has the port at @remote that a datagram of ours went to, somebody says. @quoted is what he
 * shows of it, from the MAD on. If @quoted is the newest copy of a request of ours, the request is
 * sent again after URO_CM_UNDELIVERED_AGAIN: its server may be starting. After
 * URO_CM_UNDELIVERED_MAX such reports the request fails. */
void uro_cm_undelivered(struct uro_cm *cm, const struct uro_gid *remote, const uint8_t *quoted,
                        uint32_t length, uro_time now);

/* Lets due timers act, then gives the next message to send; false when there is none. */
bool uro_cm_output(struct uro_cm *cm, struct uro_cm_out *out, uro_time now);

/* The process ends: the peer of every connection is told, as far as there is room for that. To be
 * called again after input and output until it says that all have answered, or for as long as the
 * process may be held up. Owners still have to close what they own, should they come to it. */
URO_NODISCARD bool uro_cm_end_all(struct uro_cm *cm, uro_time now);

/* When output must be called even if nothing arrives. */
uro_time uro_cm_next(const struct uro_cm *cm);
