/* SPDX-License-Identifier: BSD-3-Clause */
/* srq.h - shared receive queues, their posters, and the checks of their receives. */
#pragma once

#include "core/rq.h"
#include "sim/net/host.h"
#include "sim/oracle/memory.h"
#include "sim/plan/plan.h"

struct sim_cq;
struct sim_endpoint;
struct sim_workload;

/* The wr_id of a shared receive: this bit, the queue, and the number of the receive. */
#define SIM_SRQ_BIT           (UINT64_C(1) << 62)
#define SIM_SRQ_SHIFT         48u
#define SIM_SRQ_INDEX(wr_id)  ((uint32_t)((wr_id) >> SIM_SRQ_SHIFT & 0xff))
#define SIM_SRQ_NUMBER(wr_id) ((wr_id) & ((UINT64_C(1) << SIM_SRQ_SHIFT) - 1))

#define SIM_BAD_KEY 0x5a5a5a5au /* turns a key into the number of none */

/* A receive. */
struct sim_recv {
    uint32_t room; /* bytes of its elements */
    bool bad_lkey;
    struct sim_memory_layout layout;
};

struct sim_srq_recv {
    bool used;
    uint64_t number;
    struct sim_recv recv;
};

struct sim_srq {
    struct sim_node poster;
    struct sim_workload *load;
    struct sim_host *host;
    const struct sim_plan_srq *plan;
    struct uro_rng rng;
    uint32_t side;
    uint32_t index;
    uint32_t pd;
    struct uro_srq *srq;    /* owned */
    void *slots;            /* owned */
    struct sim_cq *cq;      /* XRC: where its receives complete */
    struct sim_cq *wide_cq; /* and where they do when not in a tight one */
    struct sim_memory memory;
    uint32_t room; /* bytes of a receive */
    uint32_t slot_count;
    struct sim_srq_recv *recvs; /* owned; each has a slot of the memory */
    uint64_t posted;            /* ever */
    uint64_t done;              /* completed, or forgotten with their queue pair */
    uint32_t lost_max;          /* may have gone with a queue pair that was using them */
    uint64_t dropped;           /* went with the queue that they waited in */
    uint32_t generation;        /* number of times that another queue replaced it */
    uint64_t seen;              /* the oldest after the last round */
    uint32_t limit;             /* armed; 0: not */
    uint64_t armed_at;          /* the oldest then */
    uro_time post_at;
};

/* Draws the elements of a receive, and fills its slot and its work request. */
void sim_recv_fill(struct sim_memory *memory, uint32_t slot, struct sim_recv *recv, uint32_t sges,
                   struct uro_rng *rng, struct uro_rqe *rqe);

void sim_srq_init(struct sim_srq *srq, struct sim_workload *load, uint32_t side, uint32_t index);
void sim_srq_fini(struct sim_srq *srq);
/* Returns shared queue @index of the endpoint's host. */
struct sim_srq *sim_srq_at(const struct sim_endpoint *end, uint32_t index);
/* Returns the number of the oldest waiting receive, or of the next receive when none waits. */
uint64_t sim_srq_oldest(const struct sim_srq *srq);
/* Returns the receive, or NULL if it was never posted or has completed. */
struct sim_srq_recv *sim_srq_find(struct sim_srq *srq, uint64_t number);
/* Returns the XRC domain of the queue. */
uint32_t sim_srq_domain(const struct sim_workload *load, uint32_t index);
/* Frees the slots of receives that were taken by a queue pair that is gone, the only user of the
 * queue. */
void sim_srq_forget(struct sim_srq *srq);
/* Frees the slot of the receive. */
void sim_srq_done(struct sim_srq *srq, struct sim_srq_recv *recv);
void sim_srq_on_limit(struct sim_srq *srq);
void sim_srq_after_round(struct sim_srq *srq);
/* Prepares for the reset or destruction of a queue pair that uses a basic shared queue. */
void sim_srq_on_stop(struct sim_srq *srq, const struct uro_cq *cq, uint32_t qpn);
/* Destroys the queue and checks its memory, after all queue pairs are gone. */
void sim_srq_check(struct sim_srq *srq);
