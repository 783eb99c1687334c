/* SPDX-License-Identifier: BSD-3-Clause */
/* drain.h - drains a send queue now and then, and lets it go on: RTS, SQD, SQ_DRAINED, RTS. */
#pragma once

#include "sim/net/host.h"

struct sim_workload;

struct sim_drain {
    struct sim_node node;
    struct sim_workload *load;
    struct sim_host *host;
    struct uro_rng rng;
    struct uro_qp *qp; /* borrowed; NULL: none */
    uint32_t left;     /* times, in this life */
    bool draining;     /* SQD was asked for */
    bool drained;      /* SQ_DRAINED was reported: nothing may be sent */
    uro_time at;
};

/* Adds the node to the world. */
void sim_drain_init(struct sim_drain *drain, struct sim_workload *load, struct sim_host *host);
/* A queue pair is in RTS. */
void sim_drain_begin(struct sim_drain *drain, struct uro_qp *qp);
/* It is about to be reset or destroyed. */
void sim_drain_end(struct sim_drain *drain);
void sim_drain_on_drained(struct sim_drain *drain);
