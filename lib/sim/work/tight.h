/* SPDX-License-Identifier: BSD-3-Clause */
/* tight.h - completion queues that are too small for their users, one at each host.
 *
 * Such a queue overflows, and reports that once. A queue pair whose completion finds no place there ends with
 * QP_FATAL. Completions are missing there, and only there: earlier ones are right, none comes after, and
 * queue pairs that complete elsewhere go on. When nobody uses it any more, another one takes its place.
 */
#pragma once

#include "sim/work/endpoint.h"

/* Adds the queue, if the plan has one. */
void sim_tight_init(struct sim_workload *load, unsigned side);
/* Draws which of the endpoint's queues are the tight one; called before its queue pair is created, not in a last
 * life. @shared: it takes receives from a shared queue. */
void sim_tight_choose(struct sim_endpoint *end, bool shared);
/* The queue for the receives of an XRC shared queue, which may be replaced: the tight one, or NULL. */
struct sim_cq *sim_tight_choose_srq(struct sim_workload *load, unsigned side, struct uro_rng *rng);
/* The queue pair uses one. */
bool sim_tight_uses(const struct sim_endpoint *end);
/* Completions may be missing in that queue. */
bool sim_tight_lost(const struct sim_workload *load, const struct uro_cq *cq);

/* CQ_ERR and QP_FATAL were reported. */
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
