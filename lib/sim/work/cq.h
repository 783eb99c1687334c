/* SPDX-License-Identifier: BSD-3-Clause */
/* cq.h - completion queues, and programs that read them, by polling or by waiting for events. */
#pragma once

#include "sim/net/host.h"

struct sim_endpoint;
struct sim_workload;

#define SIM_RECV_BIT (UINT64_C(1) << 63) /* this bit is set in the wr_id of a receive */
#define SIM_GRH      40u                 /* bytes of the GRH before a datagram in its receive */

/* A completion queue and the program that reads it. */
struct sim_cq {
    struct sim_node poller;
    struct uroce_cq *cq; /* owned */
    uro_time poll_at;
    bool events;     /* true: the program waits for events; false: it polls */
    bool armed;      /* waits for an event */
    bool reported;   /* the event was reported */
    bool overflowed; /* the overflow was reported */
    uint32_t last;   /* number of completions at the overflow; no completion may follow */
    struct sim_workload *workload;
    struct sim_world *world;
    struct sim_host *host;
    struct uro_rng rng;
    uint32_t capacity;
    uint32_t least;    /* smallest capacity that a resize may choose */
    uint32_t wait_max; /* ns between a completion and its poll */
};

void sim_cq_init(struct sim_cq *cq, struct sim_workload *workload, struct sim_host *host,
                 uint32_t capacity);
void sim_cq_fini(struct sim_cq *cq);
/* Replaces a queue that no queue pair uses. */
void sim_cq_renew(struct sim_cq *cq, uint32_t capacity);
/* Returns whether no completion waits; @cq may be NULL. */
bool sim_cq_empty(const struct uroce_cq *cq);
/* Polls all waiting completions. */
void sim_cq_poll(struct sim_cq *cq);

/* Tight completion queues are too small for their users, one at each host.
 *
 * Such a queue overflows, and reports one event. A queue pair whose completion does not fit ends
 * with QP_FATAL. Only completions of this queue may be missing. Completions before the overflow are
 * correct, and none follows it. Queue pairs of other completion queues are not affected. When no
 * queue pair uses the full queue any more, a new queue replaces it.
 */
/* Adds the tight CQ, if the plan has a tight CQ. */
void sim_tight_init(struct sim_workload *workload, unsigned side);
/* Draws which CQs of the endpoint are the tight CQ. Call it before the queue pair is created. The
 * last life never uses the tight CQ. @shared: the endpoint uses a shared receive queue. */
void sim_tight_choose(struct sim_endpoint *end, bool shared);
/* Returns the tight CQ for receives of an XRC shared queue, or NULL. The CQ may be replaced. */
struct sim_cq *sim_tight_choose_srq(struct sim_workload *workload, unsigned side,
                                    struct uro_rng *rng);
/* Returns whether the queue pair uses a tight CQ. */
bool sim_tight_uses(const struct sim_endpoint *end);
/* Returns whether completions may be missing in that CQ. */
bool sim_tight_lost(const struct sim_workload *workload, const struct uroce_cq *cq);

/* Handles the event of an overflow: CQ_ERR or QP_FATAL. */
void sim_tight_on_overflow(struct sim_cq *cq);
void sim_tight_on_fatal(struct sim_endpoint *end);
