/* SPDX-License-Identifier: BSD-3-Clause */
/* faults.h - faults of the whole simulation: links go down and come up again, and the clock jumps, as for a process
 * that was stopped.
 */
#pragma once

#include "sim/net/cable.h"
#include "sim/net/host.h"
#include "sim/plan/plan.h"

#define SIM_FAULTS_CABLES_MAX 16u
#define SIM_FAULTS_PLUGS_MAX  16u

/* Cables that go down together. */
struct sim_faults_plug {
    uint32_t cable_count;
    struct sim_cable *cables[SIM_FAULTS_CABLES_MAX]; /* borrowed */
    uint32_t host_count;
    struct sim_host *hosts[2]; /* hosts whose engines are informed; borrowed */
};

struct sim_faults {
    struct sim_node link;
    struct sim_node clock;
    struct sim_world *world;
    const struct sim_plan_faults *plan;
    struct uro_rng rng;
    uint32_t plug_count;
    struct sim_faults_plug plugs[SIM_FAULTS_PLUGS_MAX];
    const struct sim_faults_plug *down; /* NULL: all are up */
    uro_time link_at;                   /* next time at which a link goes down or comes up */
    uro_time jump_at;
    uint32_t jumps_left;
};

/* Adds the nodes to @world. */
void sim_faults_init(struct sim_faults *faults, struct sim_world *world,
                     const struct sim_plan_faults *plan);
/* Adds a set of cables that may go down; the caller fills it. */
struct sim_faults_plug *sim_faults_add(struct sim_faults *faults);

/* Stops the faults: all links stay up, and the clock no longer jumps. */
void sim_faults_calm(struct sim_faults *faults);
