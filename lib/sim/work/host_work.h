/* SPDX-License-Identifier: BSD-3-Clause */
/* host_work.h - a host and all workloads that use it: passes events and frames of the host to the workload that they
 * belong to.
 *
 * A workload is between two hosts. A host may have several: its queue pairs, keys, services and groups for different
 * peers are in one engine.
 */
#pragma once

#include "sim/work/workload.h"

#define SIM_HOST_WORK_TIES_MAX 8u

struct sim_host_work {
    struct sim_host *host;
    uint32_t tie_count;
    struct sim_host_tie {
        struct sim_workload *load;
        unsigned side; /* of the workload that this host is */
    } ties[SIM_HOST_WORK_TIES_MAX];
};

/* Registers the callbacks of @host. */
void sim_host_work_init(struct sim_host_work *at_host, struct sim_host *host);
void sim_host_work_tie(struct sim_host_work *at_host, struct sim_workload *load, unsigned side);
