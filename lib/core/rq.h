/* SPDX-License-Identifier: BSD-3-Clause */
/* rq.h - the receive that a message uses, from the queue pair's own queue or a shared one. For
 * core/ only.
 *
 *   look      the receive that is in use, or would be next; changes nothing
 *   take      it is in use from now on: a shared one leaves its queue
 *   finish    it is done with: its completion was, or will be, written
 *
 * A receive in use by a message that is given up stays in use for the next one (UC).
 */
#pragma once

#include "core/pair.h"

/* NULL when none is posted. @srq: where to look, NULL: the queue pair's own queue. */
const struct uro_rqe *uro_rq_look(const struct uro_qp *qp, const struct uro_srq *srq);

/* uro_rq_look() found one. */
const struct uro_rqe *uro_rq_take(struct uro_qp *qp, struct uro_srq *srq);

/* The receive in use. */
void uro_rq_finish(struct uro_qp *qp);

/* Where completions of receives from @srq, or the queue pair's own, are written. */
struct uro_cq *uro_rq_cq(const struct uro_qp *qp, const struct uro_srq *srq);

/* Whose keys the elements of such receives name. */
uint32_t uro_rq_pd(const struct uro_qp *qp, const struct uro_srq *srq);

/* @srq goes away: no queue pair uses it any more. */
void uro_rq_forget(struct uro_shard *shard, const struct uro_srq *srq);
