/* SPDX-License-Identifier: BSD-3-Clause */
/* qp.h - the public functions of a queue pair: create, modify, query, destroy, post.
 *
 * The caller holds the engine lock. Exceptions are functions with the words "Any thread", and
 * functions that return a size or a value that never changes.
 */
#pragma once

#include "base/time.h"
#include "core/cq.h"
#include "core/qp_state.h"
#include "core/work.h"
#include "wire/gid.h"

struct uro_qp;
struct uro_shard;

struct uro_qp_init {
    enum uro_qp_type type;
    uint32_t pd;            /* XRC_TGT: unused, because the SRQ of each packet has a PD */
    uint32_t xrcd;          /* XRC_TGT */
    struct uro_cq *send_cq; /* XRC_TGT: NULL */
    struct uro_cq *recv_cq; /* XRC: NULL */
    struct uro_srq *srq;    /* a basic SRQ, maybe of another PD; or NULL */
    uint32_t send_capacity; /* work requests, 0 .. URO_WR_MAX */
    uint32_t recv_capacity;
    uint32_t send_sge_max; /* 0 .. URO_SGE_MAX */
    uint32_t recv_sge_max;
    uint32_t inline_max; /* bytes, 0 .. URO_INLINE_MAX */
    bool signal_all;
    bool block_self_multicast; /* UD: the queue pair does not receive its own multicasts */
    bool lends_resources;      /* RC, XRC_TGT: the caller uses uro_qp_lend_resources() */
    void *user;                /* the owner's handle, for events */
};

struct uro_hop;
struct uro_srq;

/* The address vector, as in ibv_ah_attr with is_global. */
struct uro_address {
    struct uro_gid dest;
    uint8_t sgid_index;
    uint8_t hop_limit;
    uint8_t traffic_class;
    uint8_t service_level;
    uint32_t flow_label; /* 20 bits */
    struct uro_hop *hop; /* next hop towards dest; set by engine/ */
};

/* As struct ibv_qp_attr. A mask of URO_ATTR_* names the valid fields (core/qp_state.h). */
struct uro_qp_attr {
    uint32_t dest_qpn;
    uint32_t access; /* URO_ACCESS_REMOTE_* */
    enum uro_qp_state state;
    enum uro_qp_state current_state;
    uint32_t path_mtu; /* bytes: 256, 512, 1024, 2048, 4096 */
    uint32_t qkey;
    uint32_t rq_psn;
    uint32_t sq_psn;
    struct uro_address address;
    uint16_t pkey_index;
    uint8_t port;
    uint8_t max_rd_atomic;      /* largest number of outstanding READs and atomics of this side */
    uint8_t max_dest_rd_atomic; /* largest number of outstanding READs and atomics of the peer */
    uint8_t min_rnr_timer;
    uint8_t timeout;
    uint8_t retry_count;
    uint8_t rnr_retry;
    uint8_t path_mig_state;
    bool sq_draining; /* query only */
    bool sqd_notify;
};

/* Returns the number of bytes of memory, which is aligned to 64, for a queue pair, or 0 when a
 * limit is exceeded. */
size_t uro_qp_size(const struct uro_qp_init *init);

/* Maximum queue pairs of an engine when other processes also use its address. The engine then has
 * 2^18 QPNs. One in 16 stays unused, so that a few random draws find an unused QPN. */
#define URO_QP_SHARED_MAX 245760u

/* Returns the largest number of queue pairs of the shard. */
uint32_t uro_qp_most(const struct uro_shard *shard);

/* Creates a queue pair in RESET in @memory, with a random unused QPN. The shard has fewer than
 * uro_qp_most() queue pairs. */
struct uro_qp *uro_qp_create(struct uro_shard *shard, const struct uro_qp_init *init, void *memory);

/* Returns the number of bytes of responder resources for a peer that may have @max_dest_rd_atomic
 * READs and atomics outstanding. A queue pair without lends_resources has the largest number that
 * is possible. */
size_t uro_qp_resources_size(uint8_t max_dest_rd_atomic);

/* Returns the number of bytes of responder resources that uro_qp_modify() with these arguments
 * requires. It is 0 if the queue pair cannot get READs or atomics yet, for example because its
 * access flags allow no remote access. For FLUSH, it may exceed uro_qp_resources_size(). */
size_t uro_qp_resources_needed(const struct uro_qp *qp, const struct uro_qp_attr *attr,
                               unsigned mask);

/* Lends memory for responder resources, aligned to 8, to a queue pair that was created with
 * lends_resources. Copies the content of the memory that was lent before. Returns that memory,
 * which belongs to the caller again, or NULL. @size is not below the size lent before. */
void *uro_qp_lend_resources(struct uro_qp *qp, void *memory, size_t size);

/* Modifies a queue pair. Returns 0, or
 *   -EINVAL  no such transition, an attribute is missing or is not allowed, a value is out of its
 *            range, the queue pair still drains in SQD, or fewer responder resources are lent than
 *            the queue pair needs */
URO_NODISCARD int uro_qp_modify(struct uro_shard *shard, struct uro_qp *qp,
                                const struct uro_qp_attr *attr, unsigned mask, uro_time now);

/* Returns the attributes as the caller has set them, and the current state. */
void uro_qp_query(const struct uro_qp *qp, struct uro_qp_attr *attr);

/* Destroys the queue pair. Afterwards no packet, timer or completion in its CQs refers to it, and
 * its memory belongs to the caller again. */
void uro_qp_destroy(struct uro_shard *shard, struct uro_qp *qp);

enum uro_qp_type uro_qp_type(const struct uro_qp *qp);
/* Returns the first reason since RESET why the queue pair went to ERR or SQE. */
enum uro_fail_reason uro_qp_failure(const struct uro_qp *qp);
uint32_t uro_qp_number(const struct uro_qp *qp);
struct uro_wq *uro_qp_send_queue(struct uro_qp *qp);
struct uro_wq *uro_qp_recv_queue(struct uro_qp *qp);

/* Returns the current state, which another thread may change at any time. A poster publishes first
 * and then calls this function, so that it does not miss a change to ERR. Any thread. */
enum uro_qp_state uro_qp_state_now(const struct uro_qp *qp);

/* Returns a violated invariant, or NULL. For the simulator and tests. */
const char *uro_qp_problem(const struct uro_qp *qp);

/* Rings the doorbell. Call after uro_wq_publish(): always for sends, and for receives if
 * uro_qp_state_now() is then ERR, so that they are flushed. Any thread. */
void uro_qp_ring(struct uro_shard *shard, struct uro_qp *qp);
