/* SPDX-License-Identifier: BSD-3-Clause */
/* cq.h - completion queues of a load and who reads them, by polling or by waiting for events. */
#pragma once

#include "core/cq.h"
#include "sim/net/host.h"

struct sim_workload;

/* A completion queue and who reads it. */
struct sim_cq {
    struct sim_node poller;
    struct sim_workload *load;
    struct sim_host *host;
    struct uro_rng rng;
    void (*take)(struct sim_cq *cq, const struct uro_cqe *cqe);
    void *owner;    /* for take() */
    void *memory;   /* owned */
    void *ring;     /* owned; NULL: it was not resized */
    uint32_t least; /* the smallest it may become */
    struct uro_cq *cq;
    bool armed;        /* waits for an event */
    bool told;         /* the event came */
    bool overflowed;   /* so it was told */
    uint32_t last;     /* its end then: nothing comes any more */
    uint32_t wait_max; /* ns between a completion and its poll */
    uro_time poll_at;
};

void sim_cq_init(struct sim_cq *cq, struct sim_workload *load, struct sim_host *host,
                 uint32_t capacity);
void sim_cq_fini(struct sim_cq *cq);
/* Nobody uses it: another one takes its place. */
void sim_cq_renew(struct sim_cq *cq, uint32_t capacity);
/* A completion of a queue pair of the load's pairs. */
void sim_cq_take(struct sim_cq *cq, const struct uro_cqe *cqe);
/* Nothing waits in it; NULL: nothing ever does. */
bool sim_cq_empty(const struct uro_cq *cq);
/* Takes what there is now. */
void sim_cq_now(struct sim_cq *cq);
