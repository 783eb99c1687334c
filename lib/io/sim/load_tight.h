/* SPDX-License-Identifier: BSD-3-Clause */
/* load_tight.h - completion queues that are too small for who uses them, one at each station.
 *
 * Such a queue overflows, and says so once. Who finds no place in it any more ends with QP_FATAL, and
 * completions are missing there, and only there: those that came before are right, none comes after,
 * and whoever completes elsewhere goes on. When no queue pair is left, another one takes its place.
 */
#pragma once

#include "io/sim/load.h"

/* When there are any. */
void uro_load_tight_init(struct uro_load *load, unsigned side);

/* A queue pair is about to be made: perhaps it uses the tight one. Not in a last life. */
void uro_load_tight_choose(struct uro_load_end *end);
/* One of the pair's ends does. */
bool uro_load_tight_uses(const struct uro_load_pair *pair);
/* Completions of the end may be missing in that queue. */
bool uro_load_tight_lost(const struct uro_load_end *end, const struct uro_cq *cq);

/* CQ_ERR and QP_FATAL were told. */
void uro_load_tight_on_overflow(struct uro_load_cq *cq);
void uro_load_tight_on_fatal(struct uro_load_end *end);
