/* SPDX-License-Identifier: BSD-3-Clause */
/* refusal_post.c - why ibv_post_send, ibv_post_recv, ibv_post_srq_recv, ibv_wr_complete and
 * ibv_bind_mw refuse a work request. */
#include <errno.h>

#include "core/limits.h"
#include "verbs/post.h"
#include "verbs/refusal.h"

#define CALL_SEND  "ibv_post_send"
#define CALL_RECV  "ibv_post_recv"
#define CALL_SRQ   "ibv_post_srq_recv"
#define CALL_BATCH "ibv_wr_complete"
#define CALL_BIND  "ibv_bind_mw"

static int refuse_state(struct uro_ibv_qp *qp, const char *call)
{
    if (qp->type == URO_QPT_XRC_TGT)
        return uro_refuse(qp->object.device, EINVAL, call,
                          "a queue pair of type IBV_QPT_XRC_RECV sends nothing");
    return uro_refuse(qp->object.device, EINVAL, call,
                      "the queue pair is in %s: sends need RTS (ibv_modify_qp)",
                      uro_qp_state_name((unsigned)uro_qp_state_now(qp->core)));
}

static int refuse_datagram(struct uro_ibv_qp *qp, const struct ibv_send_wr *wr)
{
    struct uro_device *device = qp->object.device;

    if (wr->wr.ud.ah == NULL)
        return uro_refuse(device, EINVAL, CALL_SEND,
                          "wr.ud.ah is NULL: a datagram needs an "
                          "address handle from ibv_create_ah");
    if (wr->wr.ud.ah->pd->handle != qp->ibv.pd->handle)
        return uro_refuse(device, EINVAL, CALL_SEND,
                          "the address handle is of another PD than the queue pair");
    if (wr->wr.ud.remote_qpn > 0xffffff)
        return uro_refuse(device, EINVAL, CALL_SEND, "wr.ud.remote_qpn 0x%x has more than 24 bits",
                          wr->wr.ud.remote_qpn);
    return 0;
}

/* Returns 0 if the elements are right. */
static int refuse_elements(struct uro_ibv_qp *qp, const struct ibv_send_wr *wr)
{
    struct uro_device *device = qp->object.device;
    const bool atomic = wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
                        wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
                        wr->opcode == IBV_WR_ATOMIC_WRITE;
    uint64_t length = 0;

    if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->send->sge_max)
        return uro_refuse(device, EINVAL, CALL_SEND,
                          "num_sge is %d, but the queue pair has max_send_sge %u", wr->num_sge,
                          qp->send->sge_max);
    for (int i = 0; i < wr->num_sge; i++)
        length += wr->sg_list[i].length;
    if ((wr->send_flags & IBV_SEND_INLINE) && length > qp->send->inline_max)
        return uro_refuse(device, EINVAL, CALL_SEND,
                          "IBV_SEND_INLINE with %llu bytes, but the queue pair has max_inline_data "
                          "%u",
                          (unsigned long long)length, qp->send->inline_max);
    if (atomic && length != 8)
        return uro_refuse(device, EINVAL, CALL_SEND,
                          "an atomic needs a buffer of 8 bytes, not of %llu",
                          (unsigned long long)length);
    if (length > qp->message_max)
        return uro_refuse(device, EINVAL, CALL_SEND,
                          "the message has %llu bytes; the maximum is %u",
                          (unsigned long long)length, qp->message_max);
    return 0;
}

/* Returns 0 if the window fits the queue pair. */
static int refuse_window(struct uro_ibv_qp *qp, const char *call, enum ibv_mw_type type,
                         const struct ibv_mw *mw, const struct ibv_mw_bind_info *info)
{
    struct uro_device *device = qp->object.device;

    if (mw == NULL)
        return uro_refuse(device, EINVAL, call, "the window is NULL");
    if (mw->type != type)
        return uro_refuse(device, EINVAL, call,
                          "the window has type %d: ibv_bind_mw binds type 1, ibv_post_send and "
                          "ibv_wr_bind_mw bind type 2",
                          (int)mw->type);
    if (mw->pd->handle != qp->ibv.pd->handle)
        return uro_refuse(device, EINVAL, call, "the window is of another PD than the queue pair");
    if (info->mr == NULL && info->length != 0)
        return uro_refuse(device, EINVAL, call,
                          "bind_info.mr is NULL with length %llu: give the region, or length 0 to "
                          "unbind",
                          (unsigned long long)info->length);
    return 0;
}

int uro_refuse_send(struct uro_ibv_qp *qp, const struct ibv_send_wr *wr, int error)
{
    struct uro_device *device = qp->object.device;

    if (error != EINVAL || wr == NULL)
        return error;
    if (!uro_post_sends(qp))
        return refuse_state(qp, CALL_SEND);
    if (!uro_post_takes(qp->type, (unsigned)wr->opcode))
        return uro_refuse(device, EINVAL, CALL_SEND,
                          "opcode %d is unknown, or not for this type of queue pair",
                          (int)wr->opcode);
    error = qp->type == URO_QPT_UD ? refuse_datagram(qp, wr) : 0;
    if (wr->opcode == IBV_WR_BIND_MW)
        error = refuse_window(qp, CALL_SEND, IBV_MW_TYPE_2, wr->bind_mw.mw, &wr->bind_mw.bind_info);
    else if (error == 0)
        error = refuse_elements(qp, wr);
    return error != 0 ? error
                      : uro_refuse(device, EINVAL, CALL_SEND,
                                   "opcode %d with send_flags 0x%x is not possible: a flag or an "
                                   "operand does not fit the opcode",
                                   (int)wr->opcode, (unsigned)wr->send_flags);
}

/* ---- ibv_wr_*() ------------------------------------------------------------------------- */

/* The texts of enum uro_wr_mistake. */
static const char *const mistakes[] = {
    [URO_WR_MISTAKE_FLAGS] = "wr_flags has a bit that uroce does not know",
    [URO_WR_MISTAKE_ORDER] = "a setter such as ibv_wr_set_sge was called before a builder such as "
                             "ibv_wr_send, twice, or for an operation that takes none",
    [URO_WR_MISTAKE_NO_DESTINATION] = "the destination is missing: UD needs ibv_wr_set_ud_addr, "
                                      "XRC needs ibv_wr_set_xrc_srqn",
    [URO_WR_MISTAKE_ELEMENTS] = "the buffer has too many elements, or is too long",
    [URO_WR_MISTAKE_READ_ELEMENTS] = "the READ has more elements than max_sge_rd of the card",
    [URO_WR_MISTAKE_INLINE_OPERATION] = "a READ or an atomic writes its buffer, which therefore "
                                        "cannot be inline data: use ibv_wr_set_sge",
    [URO_WR_MISTAKE_INLINE_LENGTH] = "there are too many bytes of inline data",
    [URO_WR_MISTAKE_LENGTH] = "an atomic needs a buffer of 8 bytes, a datagram at most the path "
                              "MTU, another message at most max_msg_sz, and an SRQ number at "
                              "most 24 bits",
    [URO_WR_MISTAKE_DATAGRAM] = "ibv_wr_set_ud_addr needs a queue pair of type UD, an address "
                                "handle of its PD, and a queue pair number of at most 24 bits",
    [URO_WR_MISTAKE_SRQN] = "ibv_wr_set_xrc_srqn needs a queue pair of type IBV_QPT_XRC_SEND",
    [URO_WR_MISTAKE_WINDOW] = "ibv_wr_bind_mw needs a window of type 2 of the PD of the queue "
                              "pair, and a region unless the length is 0",
    [URO_WR_MISTAKE_FLUSH] = "a FLUSH needs a known placement, a known selectivity, and at most "
                             "2 GiB",
};

int uro_refuse_batch(struct uro_ibv_qp *qp, int error, unsigned mistake, uint32_t count)
{
    if (error != EINVAL)
        return error;
    if (mistake == URO_WR_MISTAKE_STATE)
        return refuse_state(qp, CALL_BATCH);
    if (mistake == URO_WR_MISTAKE_FLAGS || count == 0)
        count++; /* the next request failed: its builder failed, or was not called */
    return uro_refuse(qp->object.device, EINVAL, CALL_BATCH,
                      "request %u since ibv_wr_start: %s (max_send_sge %u, max_inline_data %u)",
                      count, mistakes[mistake], qp->send->sge_max, qp->send->inline_max);
}

/* ---- memory windows --------------------------------------------------------------------- */

int uro_refuse_bind(struct uro_ibv_qp *qp, const struct ibv_mw *mw, const struct ibv_mw_bind *bind,
                    int error)
{
    struct uro_device *device = qp->object.device;

    if (error != EINVAL)
        return error;
    if (!uro_post_sends(qp))
        return refuse_state(qp, CALL_BIND);
    if (!uro_post_takes(qp->type, URO_WR_BIND_MW))
        return uro_refuse(device, EINVAL, CALL_BIND,
                          "queue pairs of this type bind no windows: use RC, UC or XRC");
    error = refuse_window(qp, CALL_BIND, IBV_MW_TYPE_1, mw, &bind->bind_info);
    return error != 0 ? error
                      : uro_refuse(device, EINVAL, CALL_BIND,
                                   "send_flags 0x%x has a bit that uroce does not know",
                                   (unsigned)bind->send_flags);
}

/* ---- receives --------------------------------------------------------------------------- */

static int refuse_receive(struct uro_device *device, const char *call, const struct uro_wq *queue,
                          const struct ibv_recv_wr *wr)
{
    if (wr->num_sge < 0 || (uint32_t)wr->num_sge > queue->sge_max)
        return uro_refuse(device, EINVAL, call, "num_sge is %d; the queue accepts at most %u",
                          wr->num_sge, queue->sge_max);
    return uro_refuse(device, EINVAL, call, "the receive has more than 4 GiB");
}

int uro_refuse_recv(struct uro_ibv_qp *qp, const struct ibv_recv_wr *wr, int error)
{
    struct uro_device *device = qp->object.device;

    if (error != EINVAL || wr == NULL)
        return error;
    if (qp->ibv.srq != NULL)
        return uro_refuse(device, EINVAL, CALL_RECV,
                          "the queue pair has an SRQ: use ibv_post_srq_recv");
    if (qp->type == URO_QPT_XRC_INI || qp->type == URO_QPT_XRC_TGT)
        return uro_refuse(device, EINVAL, CALL_RECV,
                          "a queue pair of XRC has no receive queue: use ibv_post_srq_recv");
    if (uro_qp_state_now(qp->core) == URO_QPS_RESET)
        return uro_refuse(device, EINVAL, CALL_RECV,
                          "the queue pair is in RESET: receives need INIT (ibv_modify_qp)");
    return refuse_receive(device, CALL_RECV, qp->recv, wr);
}

int uro_refuse_srq_recv(struct uro_device *device, const struct uro_wq *queue,
                        const struct ibv_recv_wr *wr, int error)
{
    return error != EINVAL || wr == NULL ? error : refuse_receive(device, CALL_SRQ, queue, wr);
}
