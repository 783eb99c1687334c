/* SPDX-License-Identifier: BSD-3-Clause */
/* host_work.h - a host and all loads that use it: what the host tells goes to the one it is of.
 *
 * A load is between two hosts. A host may have several: its queue pairs, keys, services and
 * groups towards different peers live together in one engine.
 */
#pragma once

#include "sim/work/workload.h"

#define SIM_HOST_WORK_TIES_MAX 8u

struct sim_host_work {
    struct sim_host *host;
    uint32_t tie_count;
    struct sim_host_tie {
        struct sim_workload *load;
        unsigned side; /* of the load, that this host is */
    } ties[SIM_HOST_WORK_TIES_MAX];
};

/* Takes what @host tells. */
void sim_host_work_init(struct sim_host_work *at_host, struct sim_host *host);
void sim_host_work_tie(struct sim_host_work *at_host, struct sim_workload *load, unsigned side);
