/* SPDX-License-Identifier: BSD-3-Clause */
/* cq.h - completion queues, and programs that read them, by polling or by waiting for events. */
#pragma once

#include "core/cq.h"
#include "sim/net/host.h"

struct sim_endpoint;
struct sim_workload;

#define SIM_RECV_BIT (UINT64_C(1) << 63) /* in the wr_id of a receive */
#define SIM_GRH      40u                 /* bytes before a datagram in its receive */

/* A completion queue and the program that reads it. */
struct sim_cq {
    struct sim_node poller;
    struct uro_cq *cq;
    uro_time poll_at;
    bool events;     /* the poller waits for events; else it polls */
    bool armed;      /* waits for an event */
    bool reported;   /* the event was reported */
    bool overflowed; /* the overflow was reported */
    uint32_t last;   /* number of completions then: none may follow */
    struct sim_workload *load;
    struct sim_host *host;
    struct uro_rng rng;
    void *memory;      /* owned */
    void *ring;        /* owned; NULL: it was not resized */
    uint32_t least;    /* the smallest it may become */
    uint32_t wait_max; /* ns between a completion and its poll */
};

void sim_cq_init(struct sim_cq *cq, struct sim_workload *load, struct sim_host *host,
                 uint32_t capacity);
void sim_cq_fini(struct sim_cq *cq);
/* Replaces a queue that no queue pair uses. */
void sim_cq_renew(struct sim_cq *cq, uint32_t capacity);
/* Returns whether no completion waits; @cq may be NULL. */
bool sim_cq_empty(const struct uro_cq *cq);
/* Polls all completions that there are now. */
void sim_cq_poll(struct sim_cq *cq);

/* Tight completion queues are too small for their users, one at each host.
 *
 * Such a queue overflows, and reports one event. A queue pair whose completion does not fit ends
 * with QP_FATAL. Completions are missing only in this queue: earlier completions are right, no
 * completion comes later, and queue pairs that complete elsewhere go on. When no queue pair uses it
 * any more, a new queue takes its place.
 */
/* Adds the queue, if the plan has one. */
void sim_tight_init(struct sim_workload *load, unsigned side);
/* Draws which CQs of the endpoint are the tight CQ. Called before its queue pair is created, not in
 * a last life. @shared: the endpoint uses a shared receive queue. */
void sim_tight_choose(struct sim_endpoint *end, bool shared);
/* Returns the tight CQ for receives of an XRC shared queue, or NULL. The CQ may be replaced. */
struct sim_cq *sim_tight_choose_srq(struct sim_workload *load, unsigned side, struct uro_rng *rng);
/* Returns whether the queue pair uses a tight CQ. */
bool sim_tight_uses(const struct sim_endpoint *end);
/* Returns whether completions may be missing in that CQ. */
bool sim_tight_lost(const struct sim_workload *load, const struct uro_cq *cq);

/* Handles the event of an overflow: CQ_ERR or QP_FATAL. */
void sim_tight_on_overflow(struct sim_cq *cq);
void sim_tight_on_fatal(struct sim_endpoint *end);

/* Completions of a queue pair that must exist and were not polled yet. */
struct sim_tight_due {
    uint32_t sends;
    uint32_t receives;
    bool fatal; /* nothing else than QP_FATAL would explain ERR */
};

/* After a round. */
void sim_tight_check(const struct sim_endpoint *end, const struct sim_tight_due *due);
