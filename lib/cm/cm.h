/* SPDX-License-Identifier: BSD-3-Clause */
/* cm.h - the connection manager of one engine: connections by messages on QP1 (IBTA Vol. 1,
 * "Communication Management"). It does no I/O. Messages are plain values with their source and
 * destination addresses; engine/gsi.c sends and receives them.
 *
 *   cm.c          the pool of connections, the queue of messages, timers
 *   conn.c        the calls of the application: connect, accept, reject, disconnect, close
 *   conn_state.c  the effect of each message in each state
 *   listen.c      listeners
 *   sidr.c        service ID resolution for datagrams
 *   conn_qp.c     the queue pair attributes of a connection
 *   ip_cm.c       the addresses that rdma_cm puts into the private data
 *
 * The caller of each function holds the engine lock.
 */
#pragma once

#include "base/counters.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/rng.h"
#include "base/wheel.h"
#include "wire/cm_msg.h"

/* Number of copies of a request that is reported as undelivered, and the time between two copies. A
 * server may start within these three seconds. */
#define URO_CM_UNDELIVERED_MAX   12u
#define URO_CM_UNDELIVERED_AGAIN URO_MS(250)
/* Size of the queue of messages that are sent once; a full queue drops messages. */
#define URO_CM_REPLIES 64u

struct uro_conn;

struct uro_cm_config {
    uint64_t guid;        /* CA GUID, unique on the network */
    uint32_t connections; /* maximum connections at once, including connections in TIMEWAIT */
    uint32_t services;    /* maximum services with a listener at one address; 0: no limit */
    uint8_t qpn_prefix;   /* upper URO_QPN_PREFIX_BITS of all IDs; 0: any */
    uint8_t path_mtu;     /* largest path MTU of our link now: 1 = 256 .. 5 = 4096 bytes */
    uint8_t seed[URO_RNG_SEED_BYTES];
};

/* The addresses of a message. */
struct uro_cm_route {
    struct uro_gid local;
    struct uro_gid remote;
    uint8_t sgid_index; /* GID index of `local` */
    uint8_t traffic_class;
    uint8_t hop_limit;
    uint32_t flow_label;
};

/* A message to send. */
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
    struct uro_conn *pool; /* config.connections connections */
    bool full;             /* a connection was refused, because the application uses all of them */
    uint32_t pool_used;    /* pool[0 .. pool_used) were used at least once */
    struct uro_list unused;
    /* Connections that the application has closed, and whose DREQ is not answered yet; oldest
     * first. */
    struct uro_list leaving;
    /* Connections that the application has closed, and that are kept for a while for late messages;
     * oldest first. */
    struct uro_list over;
    struct uro_hash by_id;   /* connections by local communication ID */
    uint64_t hash_key;       /* secret: no peer can choose the buckets of its connections */
    struct uro_hash by_peer; /* connections by a hash of the peer's CA GUID and communication ID */
    /* Connections by a hash of the peer's CA GUID and queue pair number. */
    struct uro_hash by_peer_qpn;
    struct uro_list listeners;
    uint32_t listener_count;
    bool services_full; /* a listener was refused: its address has config.services services */
    uint32_t listeners_version; /* changes whenever the listeners may have changed */
    struct uro_list to_send;    /* connections whose message is due */
    struct uro_list events;     /* connections with events to fetch */
    uint32_t reply_first;
    uint32_t reply_count;
    struct uro_cm_out replies[URO_CM_REPLIES];
};

/* Returns the number of bytes of memory, which is aligned to 64, for the manager and its pool. */
size_t uro_cm_size(const struct uro_cm_config *config);
struct uro_cm *uro_cm_init(void *memory, const struct uro_cm_config *config,
                           struct uro_counters *counters, uro_time now);

/* Sets the largest path MTU that requests may ask for from now on. */
void uro_cm_set_path_mtu(struct uro_cm *cm, uint8_t code);

/* Handles a management datagram that arrived on QP1. */
void uro_cm_receive(struct uro_cm *cm, const struct uro_cm_route *route,
                    const uint8_t mad[static URO_MAD_LEN], uro_time now);

/* Handles an ICMP error: no process at @remote has the port that our datagram was sent to. @quoted
 * is the part of our datagram in the error, from the MAD on. If @quoted is the newest copy of a
 * request, the request is sent again after URO_CM_UNDELIVERED_AGAIN: its server may be starting.
 * After URO_CM_UNDELIVERED_MAX such reports the request fails. */
void uro_cm_undelivered(struct uro_cm *cm, const struct uro_gid *remote, const uint8_t *quoted,
                        uint32_t length, uro_time now);

/* Runs the due timers, then returns the next message to send. Returns false when there is none. */
bool uro_cm_output(struct uro_cm *cm, struct uro_cm_out *out, uro_time now);

/* Ends all connections when the process ends: informs the peer of each connection, as far as the
 * message queue has free slots. Call it again after input and output, until it returns true because
 * each peer has answered or did not answer in time, or until the process cannot wait longer. Owners
 * may still close their connections. */
URO_NODISCARD bool uro_cm_end_all(struct uro_cm *cm, uro_time now);

/* Returns the time at which output must be called even if no packet arrives. */
uro_time uro_cm_next(const struct uro_cm *cm);
