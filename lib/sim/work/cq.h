/* SPDX-License-Identifier: BSD-3-Clause */
/* cq.h - completion queues, and programs that read them, by polling or by waiting for events. */
#pragma once

#include "core/cq.h"
#include "sim/net/host.h"

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
    bool told;       /* the event was reported */
    bool overflowed; /* that was reported */
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
