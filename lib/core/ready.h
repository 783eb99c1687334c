/* SPDX-License-Identifier: BSD-3-Clause */
/* ready.h - the lists of queue pairs that have packets to send. schedule.c chooses the next queue
 * pair.
 *
 * Many files of core add queue pairs to these lists. Only schedule.c takes queue pairs off to send.
 * For core/ only.
 */
#pragma once

#include "core/qp_private.h"
#include "core/shard.h"

/* Adds the queue pair to a response list, unless it is on such a list already. A queue pair whose
 * next response is an ACK or a NAK moves to the list of ACKs. An ACK behind a READ waits for the
 * data of the READ. */
static inline void uro_ready_response(struct uro_qp *qp)
{
    const struct uro_rsp *rsp = &qp->rsp;
    bool acks = (rsp->ack_due || rsp->nak_due) && rsp->resources_pending == 0;

    if (acks)
        uro_list_remove(&qp->response_link);
    if (!uro_link_used(&qp->response_link))
        uro_list_append(acks ? &qp->shard->acks : &qp->shard->responses, &qp->response_link);
}

/* Adds the queue pair to the list of requesters, unless it is on the list already. */
static inline void uro_ready_request(struct uro_qp *qp)
{
    if (!uro_link_used(&qp->request_link))
        uro_list_append(&qp->shard->requests, &qp->request_link);
}

/* Takes the queue pair off all of these lists. */
static inline void uro_ready_forget(struct uro_qp *qp)
{
    uro_list_remove(&qp->response_link);
    uro_list_remove(&qp->request_link);
}
