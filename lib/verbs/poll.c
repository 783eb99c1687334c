/* SPDX-License-Identifier: BSD-3-Clause */
/* poll.c - returns completions as struct ibv_wc, and arms CQs. */
#include <errno.h>

#include "verbs/cq_parts.h"

#define BATCH 16u

static void translate(const struct uro_cqe *cqe, struct ibv_wc *wc)
{
    *wc = (struct ibv_wc){
        .wr_id = cqe->wr_id,
        .status = (enum ibv_wc_status)cqe->status,
        .opcode = (enum ibv_wc_opcode)cqe->opcode,
        .vendor_err = cqe->vendor_error,
        .byte_len = cqe->byte_len,
        .imm_data = cqe->imm, /* immediate data or the invalidated rkey, which share the field */
        .qp_num = cqe->qpn,
        .src_qp = cqe->source_qpn,
        .wc_flags = cqe->flags,
        .sl = cqe->service_level,
    };
}

static int take(struct uro_ibv_cq *cq, int max, struct ibv_wc *wc)
{
    struct uro_cqe cqes[BATCH];
    uint32_t count, wanted;
    int taken = 0;

    pthread_spin_lock(&cq->lock);
    do {
        wanted = (uint32_t)(max - taken) < BATCH ? (uint32_t)(max - taken) : BATCH;
        count = uro_cq_parts_used(cq) ? uro_cq_parts_poll(cq, cqes, wanted)
                                      : uro_cq_poll(cq->core, cqes, wanted);
        for (uint32_t i = 0; i < count; i++)
            translate(&cqes[i], &wc[taken++]);
    } while (count == BATCH && taken < max);
    pthread_spin_unlock(&cq->lock);
    return taken;
}

int uro_ibv_poll_cq(struct ibv_cq *ibv, int max, struct ibv_wc *wc)
{
    struct uro_ibv_cq *cq = uro_ibv_cq(ibv);

    if (uro_object_dead(&cq->object))
        return -EIO;
    if (max <= 0)
        return max == 0 ? 0 : -EINVAL;
    int taken = take(cq, max, wc);
    if (taken > 0) {
        uro_device_polled(cq->object.device);
        return taken;
    }
    uro_device_progress(cq->object.device, false);
    if (uro_cq_parts_used(cq))
        uro_cq_parts_progress(cq);
    return take(cq, max, wc);
}

int uro_ibv_req_notify_cq(struct ibv_cq *ibv, int solicited_only)
{
    struct uro_ibv_cq *cq = uro_ibv_cq(ibv);

    if (uro_object_dead(&cq->object))
        return EIO;
    pthread_spin_lock(&cq->lock);
    uro_cq_parts_arm(cq, solicited_only != 0);
    uro_cq_arm(cq->core, solicited_only != 0);
    pthread_spin_unlock(&cq->lock);
    /* The service thread need not run the engine if the program runs the engine during its wait for
     * the event. */
    if (ibv->channel == NULL ||
        !uro_ibv_channel_waits_here(uro_ibv_channel(ibv->channel), cq->object.device))
        uro_device_hand_over(cq->object.device);
    if (uro_cq_parts_used(cq))
        uro_cq_parts_hand_over(cq);
    return 0;
}
