/* SPDX-License-Identifier: BSD-3-Clause */
/* snapshot.h - copies of the state of all queue pairs, completion queues, keys and shared receive
 * queues of an engine. The owner of the engine adds the identifiers of rdma_cm.
 *
 * The rows are for readers in other processes: they hold no pointers. A snapshot is taken in steps,
 * so that no step holds the engine lock for long. An object that exists during the whole snapshot
 * is in it exactly once. The rows of two steps show the state of two moments.
 */
#pragma once

#include "base/list.h"
#include "base/time.h"
#include "wire/gid.h"

struct uro_cq;
struct uro_shard;
struct uro_table;
struct uro_table_node;

enum uro_snapshot_kind {
    URO_SNAPSHOT_QPS,
    URO_SNAPSHOT_CQS,
    URO_SNAPSHOT_KEYS,
    URO_SNAPSHOT_SRQS,
    URO_SNAPSHOT_IDS, /* identifiers of rdma_cm, which the engine does not have */
    URO_SNAPSHOT_KINDS
};

struct uro_snapshot_qp {
    struct uro_gid peer;  /* zero: not connected */
    uint64_t retransmits; /* times since creation that the requester went back to an earlier PSN */
    uint64_t rnr_naks;    /* RNR NAKs received since creation */
    uint32_t qpn;
    uint32_t peer_qpn;
    uint32_t pd;
    uint32_t send_cq; /* numbers of the CQs; 0: none */
    uint32_t recv_cq;
    uint8_t type;        /* enum uro_qp_type */
    uint8_t state;       /* enum uro_qp_state */
    uint8_t fail_reason; /* enum uro_fail_reason */
    uint8_t has_srq;     /* 0 or 1: receives come from a basic SRQ */
    uint32_t path_mtu;   /* bytes; 0: not connected */
    uint32_t oldest_psn; /* oldest unacknowledged PSN */
    uint32_t next_psn;   /* PSN behind the newest PSN ever sent */
    uint32_t expected_psn;
    uint32_t outstanding;  /* PSNs sent and not acknowledged */
    uint32_t window;       /* maximum number of packets in flight now */
    uint32_t sends_posted; /* running numbers of requests, modulo 2^32 */
    uint32_t sends_done;
    uint32_t recvs_posted;
    uint32_t recvs_done;
    uint32_t msn; /* messages received, modulo 2^24 */
    uint32_t rtt; /* round-trip time, ns, smoothed; 0: not measured */
    uint32_t srq; /* number of the basic SRQ; 0: the queue pair has none */
    uint32_t zero;
};

struct uro_snapshot_cq {
    uint32_t number;
    uint32_t capacity;
    uint32_t waiting; /* completions that the program has not polled */
    uint8_t overrun;  /* 0 or 1: overflowed, and its queue pairs fail */
    uint8_t armed;    /* enum uro_cq_arm */
    uint8_t zero[2];
};

struct uro_snapshot_key {
    uint64_t address; /* first valid address of the key */
    uint64_t length;  /* bytes */
    uint32_t key;     /* lkey and rkey */
    uint32_t pd;
    uint32_t access; /* set of URO_ACCESS_* */
    uint8_t kind;    /* enum uro_key_kind */
    uint8_t bound;   /* 0 or 1: a window that is bound */
    uint8_t zero[2];
};

struct uro_snapshot_srq {
    uint32_t number;
    uint32_t capacity;
    uint32_t posted; /* running numbers of receives, modulo 2^32 */
    uint32_t taken;
    uint32_t pd;
    uint32_t cq;    /* number of the CQ; 0: a basic SRQ */
    uint32_t limit; /* receives of the armed limit event; 0: not armed */
    uint8_t is_xrc; /* 0 or 1 */
    uint8_t zero[3];
};

/* States of an identifier, with the values of the kernel's enum rdma_cm_state. */
enum uro_snapshot_id_state {
    URO_SNAPSHOT_ID_IDLE,
    URO_SNAPSHOT_ID_ADDR_QUERY,
    URO_SNAPSHOT_ID_ADDR_RESOLVED,
    URO_SNAPSHOT_ID_ROUTE_QUERY,
    URO_SNAPSHOT_ID_ROUTE_RESOLVED,
    URO_SNAPSHOT_ID_CONNECT,
    URO_SNAPSHOT_ID_DISCONNECT,
    URO_SNAPSHOT_ID_ADDR_BOUND,
    URO_SNAPSHOT_ID_LISTEN,
    URO_SNAPSHOT_ID_STATES
};

struct uro_snapshot_id {
    struct uro_gid source, dest; /* addresses with the IP versions below; zero: the wildcard */
    uint32_t number;             /* number in this process, from 0 */
    uint32_t qpn;                /* local queue pair of the connection; 0: none */
    uint16_t source_port, dest_port;
    uint16_t port_space;                  /* enum rdma_ucm_port_space */
    uint8_t qp_type;                      /* enum ibv_qp_type */
    uint8_t state;                        /* enum uro_snapshot_id_state */
    uint8_t source_version, dest_version; /* 4 or 6: IP version; 0: there is no address */
    uint8_t zero[6];
};

static_assert(sizeof(struct uro_snapshot_qp) == 112, "no padding");
static_assert(sizeof(struct uro_snapshot_cq) == 16, "no padding");
static_assert(sizeof(struct uro_snapshot_key) == 32, "no padding");
static_assert(sizeof(struct uro_snapshot_srq) == 32, "no padding");
static_assert(sizeof(struct uro_snapshot_id) == 56, "no padding");

/* Memory for the rows of each kind. */
struct uro_snapshot_rows {
    struct uro_snapshot_qp *qps;
    struct uro_snapshot_cq *cqs;
    struct uro_snapshot_key *keys;
    struct uro_snapshot_srq *srqs;
    struct uro_snapshot_id *ids;
    uint32_t capacity[URO_SNAPSHOT_KINDS]; /* rows */
};

/* A snapshot in progress. All zero: none. */
struct uro_snapshot {
    struct uro_shard *shard;
    struct uro_snapshot_rows rows;
    uint32_t count[URO_SNAPSHOT_KINDS]; /* rows so far */
    bool incomplete;                    /* rows are missing, because there is no room for them */
    enum uro_snapshot_kind kind;        /* kind of the next row */
    uint32_t bucket;                    /* next bucket of the table of that kind */
    /* Position in a list of CQs or SRQs, before the next object. */
    struct uro_link place;
};

/* Adds a CQ to the CQs of snapshots, and gives it a number. Engine locked. uro_cq_fini() removes
 * it. */
void uro_snapshot_add_cq(struct uro_shard *shard, struct uro_cq *cq);

/* Returns the number of objects of a kind now. Returns 0 for identifiers. Engine locked. */
uint32_t uro_snapshot_objects(const struct uro_shard *shard, enum uro_snapshot_kind kind);

/* Begins a snapshot into @rows. Engine locked. */
void uro_snapshot_begin(struct uro_snapshot *snapshot, struct uro_shard *shard,
                        const struct uro_snapshot_rows *rows);

/* Copies the next objects, about @rows_max of them. Returns whether this was the last step. Engine
 * locked. */
bool uro_snapshot_step(struct uro_snapshot *snapshot, uint32_t rows_max);

/* Ends a snapshot that is not complete. Engine locked. */
void uro_snapshot_cancel(struct uro_snapshot *snapshot);
