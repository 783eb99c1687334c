/* SPDX-License-Identifier: BSD-3-Clause */
/* tight.h - completion queues that are too small for who uses them, one at each host.
 *
 * Such a queue overflows, and says so once. Who finds no place in it any more ends with QP_FATAL, and
 * completions are missing there, and only there: those that came before are right, none comes after,
 * and whoever completes elsewhere goes on. When nobody uses it any more, another one takes its place.
 */
#pragma once

#include "sim/work/workload.h"

/* When there are any. */
void sim_tight_init(struct sim_workload *load, unsigned side);

/* A queue pair is about to be made: perhaps it uses the tight one. Not in a last life. @shared: it takes
 * receives from a shared queue. */
void sim_tight_choose(struct sim_workload *load, struct sim_qp_owner *owner, struct uro_rng *rng,
                      bool shared);
/* The same, when not only reliable connections use it. */
void sim_tight_choose_loose(struct sim_workload *load, struct sim_qp_owner *owner,
                            struct uro_rng *rng);
/* Where the receives of an XRC shared queue complete, which may be replaced: the tight one, or NULL. */
struct sim_cq *sim_tight_choose_srq(struct sim_workload *load, unsigned side, struct uro_rng *rng);
/* The queue pair does. */
bool sim_tight_uses(const struct sim_workload *load, const struct sim_qp_owner *owner);
/* Completions may be missing in that queue. */
bool sim_tight_lost(const struct sim_workload *load, const struct uro_cq *cq);

/* CQ_ERR and QP_FATAL were told. */
void sim_tight_on_overflow(struct sim_cq *cq);
void sim_tight_on_fatal(struct sim_workload *load, struct sim_qp_owner *owner, struct uro_qp *qp);

/* What must have completed of a queue pair that nobody took yet. */
struct sim_tight_due {
    uint32_t sends;
    uint32_t receives;
    bool fatal; /* nothing else than QP_FATAL would explain ERR */
};

/* After a round. */
void sim_tight_check(const struct sim_workload *load, const struct sim_qp_owner *owner,
                     struct uro_qp *qp, const struct sim_tight_due *due);
