/* SPDX-License-Identifier: BSD-3-Clause */
/* queue.h - completion queues and the programs that read them; shared receive queues and the
 * programs that post to them; the checks of both. */
#pragma once

#include "sim/net/host.h"
#include "sim/oracle/memory.h"
#include "sim/plan/plan.h"

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
    bool armed;      /* the program waits for an event */
    bool reported;   /* the event was reported */
    bool overflowed; /* the overflow was reported */
    uint32_t last;   /* number of completions at the overflow; no completion may follow */
    struct sim_workload *workload;
    struct sim_world *world;
    struct sim_host *host;
    struct uro_rng rng;
    uint32_t capacity;
    uint32_t least;    /* smallest capacity that a resize may choose */
    uint32_t wait_max; /* maximum pause after a poll, ns; a doze adds to it */
};

void sim_cq_init(struct sim_cq *cq, struct sim_workload *workload, struct sim_host *host,
                 uint32_t capacity);
void sim_cq_fini(struct sim_cq *cq);
/* Returns whether no completion waits; @cq may be NULL. */
bool sim_cq_empty(const struct uroce_cq *cq);
/* Polls all waiting completions. */
void sim_cq_poll(struct sim_cq *cq);

/* Tight completion queues are too small for their users, one at each host.
 *
 * Such a queue may overflow, and then reports one event. A queue pair whose completion does not fit
 * ends with QP_FATAL. Only completions of this queue may be missing. Completions before the
 * overflow are correct, and none follows it. Queue pairs of other completion queues are not
 * affected. When no queue pair uses the full queue any more, a new queue replaces it.
 */
/* Draws which CQs of the endpoint are the tight CQ. Call it before the queue pair is created. The
 * last life never uses the tight CQ. @shared: only with plan->cq_tight_all may the tight CQ be the
 * CQ of the receives. */
void sim_tight_choose(struct sim_endpoint *end, bool shared);
/* Returns whether the queue pair uses a tight CQ. */
bool sim_tight_uses(const struct sim_endpoint *end);
/* Returns whether completions may be missing in that CQ. */
bool sim_tight_lost(const struct sim_workload *workload, const struct uroce_cq *cq);

/* Handles the event of an overflow: CQ_ERR or QP_FATAL. */
void sim_tight_on_overflow(struct sim_cq *cq);
void sim_tight_on_fatal(struct sim_endpoint *end);

/* ---- shared receive queues ---- */

/* The wr_id of a shared receive: this bit, the queue, and the number of the receive. */
#define SIM_SRQ_BIT           (UINT64_C(1) << 62)
#define SIM_SRQ_SHIFT         48u
#define SIM_SRQ_INDEX(wr_id)  ((uint32_t)((wr_id) >> SIM_SRQ_SHIFT & 0xff))
#define SIM_SRQ_NUMBER(wr_id) ((wr_id) & ((UINT64_C(1) << SIM_SRQ_SHIFT) - 1))

#define SIM_BAD_KEY 0x5a5a5a5au /* a key XOR this number is not a valid key */

/* A receive. */
struct sim_recv {
    uint32_t size; /* bytes of its elements */
    bool bad_lkey;
    struct sim_buffer buffer;
};

struct sim_srq_recv {
    bool used;
    uint64_t number;
    struct sim_recv recv;
};

struct sim_srq {
    struct sim_node poster;
    struct sim_workload *workload;
    struct sim_world *world;
    struct sim_host *host;
    const struct sim_plan_srq *plan;
    struct uro_rng rng;
    uint32_t side;
    uint32_t index;
    struct uroce_pd *pd;
    struct uroce_srq *srq; /* owned; NULL: none */
    uint32_t capacity;
    struct sim_cq *cq;      /* XRC: CQ of its receives */
    struct sim_cq *wide_cq; /* XRC: CQ of its receives when it uses no tight CQ */
    struct sim_memory memory;
    uint32_t recv_size; /* bytes of a receive */
    uint32_t slot_count;
    struct sim_srq_recv *recvs; /* owned; each has a slot of the memory */
    uint64_t posted;            /* receives posted so far */
    /* Receives that completed, or whose completion disappeared with a queue pair. */
    uint64_t done;
    uint32_t lost_max;   /* maximum receives that were lost with a queue pair that used them */
    uint64_t dropped;    /* receives that were dropped with a queue that was replaced */
    uint32_t generation; /* number of times that another queue replaced it */
    uint64_t seen;       /* oldest waiting receive after the last round */
    uint32_t limit;      /* limit that is armed; 0: none */
    uint64_t armed_at;   /* oldest waiting receive when the limit was armed */
    uro_time post_at;
};

/* Draws the elements of a receive, at most @sge_max, and fills its slot and @sges. Returns the
 * number of elements. */
uint32_t sim_recv_fill(struct sim_recv *recv, uint32_t sge_max, struct uro_rng *rng,
                       struct uroce_sge *sges);

void sim_srq_init(struct sim_srq *srq, struct sim_workload *workload, uint32_t side,
                  uint32_t index);
void sim_srq_fini(struct sim_srq *srq);
/* Returns shared queue @index of the endpoint's host. */
struct sim_srq *sim_srq_at(const struct sim_endpoint *end, uint32_t index);
/* Returns the number of the oldest waiting receive, or of the next receive when none waits. */
uint64_t sim_srq_oldest(const struct sim_srq *srq);
/* Returns the receive, or NULL if it was never posted or has completed. */
struct sim_srq_recv *sim_srq_find(struct sim_srq *srq, uint64_t number);
/* Returns the XRC domain of the queue. */
struct uroce_xrcd *sim_srq_domain(const struct sim_workload *workload, unsigned side,
                                  uint32_t index);
/* Frees the slots of receives that a destroyed queue pair had taken. It was the only user of the
 * queue. */
void sim_srq_forget(struct sim_srq *srq);
/* Frees the slot of the receive. */
void sim_srq_done(struct sim_srq *srq, struct sim_srq_recv *recv);
void sim_srq_on_limit(struct sim_srq *srq);
void sim_srq_after_round(struct sim_srq *srq);
/* Prepares for the reset or destruction of a queue pair that uses a basic shared queue. */
void sim_srq_on_stop(struct sim_srq *srq, const struct uroce_cq *cq, uint32_t qpn);
/* Destroys the queue and checks its memory, after all queue pairs are gone. */
void sim_srq_check(struct sim_srq *srq);
