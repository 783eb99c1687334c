/* SPDX-License-Identifier: BSD-3-Clause */
/* post.c - work requests into the rings of a queue pair.
 *
 * Posting takes the QP's own lock only. Everything a request can be wrong in by itself is refused
 * here (B25), with *bad_wr at the request; what stood before it in the list stays posted.
 */
#include <errno.h>
#include <string.h>

#include "core/limits.h"
#include "verbs/objects.h"

#define ATOMIC_LENGTH 8u
#define FLAGS         (URO_SEND_FENCE | URO_SEND_SIGNALED | URO_SEND_SOLICITED | URO_SEND_INLINE)

/* What an RC queue pair takes, by enum ibv_wr_opcode; all zero: not at all. */
static const struct operation {
    bool taken;
    bool remote;     /* has a remote address */
    bool atomic;     /* has its own form, and 8 octets */
    bool can_inline; /* its buffer is only read */
    bool imm;        /* imm_data, or the rkey to invalidate */
} operations[] = {
    /* clang-format off */
    [IBV_WR_RDMA_WRITE]           = { .taken = true, .can_inline = true, .remote = true },
    [IBV_WR_RDMA_WRITE_WITH_IMM]  = { .taken = true, .can_inline = true, .remote = true,
                                      .imm = true },
    [IBV_WR_SEND]                 = { .taken = true, .can_inline = true },
    [IBV_WR_SEND_WITH_IMM]        = { .taken = true, .can_inline = true, .imm = true },
    [IBV_WR_RDMA_READ]            = { .taken = true, .remote = true },
    [IBV_WR_ATOMIC_CMP_AND_SWP]   = { .taken = true, .atomic = true },
    [IBV_WR_ATOMIC_FETCH_AND_ADD] = { .taken = true, .atomic = true },
    /* clang-format on */
};

static const struct operation *operation_of(const struct ibv_send_wr *wr)
{
    static const struct operation none;
    unsigned opcode = (unsigned)wr->opcode;

    return opcode < URO_ARRAY_LEN(operations) ? &operations[opcode] : &none;
}

/* Sum of the elements; UINT64_MAX when there are more than @sge_max or a negative number. */
static uint64_t length_of(const struct ibv_sge *sges, int count, uint32_t sge_max)
{
    uint64_t length = 0;

    if (count < 0 || (uint32_t)count > sge_max)
        return UINT64_MAX;
    for (int i = 0; i < count; i++)
        length += sges[i].length;
    return length;
}

static bool atomic_fits(const struct ibv_send_wr *wr, uint64_t length)
{
    return length == ATOMIC_LENGTH && wr->wr.atomic.remote_addr % ATOMIC_LENGTH == 0;
}

/* rule POST.ERRORS */
/* True when the request can be right; *@length is then the message's. */
static bool valid(const struct uro_ibv_qp *qp, const struct ibv_send_wr *wr, uint32_t *length)
{
    const struct operation *operation = operation_of(wr);
    bool in_line = wr->send_flags & IBV_SEND_INLINE;
    uint64_t octets = length_of(wr->sg_list, wr->num_sge, qp->send->sge_max);

    *length = (uint32_t)octets;
    if (!operation->taken || (wr->send_flags & ~FLAGS) != 0 || octets > URO_MESSAGE_MAX)
        return false;
    if (in_line)
        return operation->can_inline && octets <= qp->send->inline_max;
    return !operation->atomic || atomic_fits(wr, octets);
}

/* same.c asserts that both are laid out alike. */
static void copy_elements(struct uro_sge *to, const struct ibv_sge *from, int count)
{
    if (count > 0) /* @from may be NULL otherwise */
        memcpy(to, from, (size_t)count * sizeof *to);
}

static void fill(struct uro_wqe *wqe, const struct ibv_send_wr *wr, uint32_t length)
{
    const struct operation *operation = operation_of(wr);

    *wqe = (struct uro_wqe){ .wr_id = wr->wr_id,
                             .length = length,
                             .opcode = (uint8_t)wr->opcode,
                             .flags = (uint8_t)wr->send_flags };
    if (operation->imm)
        wqe->imm = wr->imm_data;
    if (operation->remote) {
        wqe->remote_address = wr->wr.rdma.remote_addr;
        wqe->rkey = wr->wr.rdma.rkey;
    }
    if (operation->atomic) {
        wqe->remote_address = wr->wr.atomic.remote_addr;
        wqe->compare_add = wr->wr.atomic.compare_add;
        wqe->swap = wr->wr.atomic.swap;
        wqe->rkey = wr->wr.atomic.rkey;
    }
    if (!(wr->send_flags & IBV_SEND_INLINE)) {
        wqe->sge_count = (uint16_t)wr->num_sge;
        copy_elements(wqe->sges, wr->sg_list, wr->num_sge);
        return;
    }
    uint8_t *octets = (uint8_t *)wqe->sges;
    for (int i = 0; i < wr->num_sge; i++) {
        memcpy(octets, (const void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
        octets += wr->sg_list[i].length;
    }
}

static bool sends(enum uro_qp_state state)
{
    return state != URO_QPS_RESET && state != URO_QPS_INIT && state != URO_QPS_RTR;
}

int uro_ibv_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
    struct uro_ibv_qp *qp = uro_ibv_qp(ibv);
    uint32_t count = 0;
    uint32_t length;
    int error = 0;

    if (uro_host_forked()) {
        *bad_wr = wr;
        return EIO;
    }
    pthread_spin_lock(&qp->send_lock);
    if (wr != NULL && !sends(uro_qp_state_now(qp->core)))
        error = EINVAL;
    for (; wr != NULL && error == 0; wr = error == 0 ? wr->next : wr) {
        struct uro_wqe *wqe = uro_wq_reserve(qp->send, count);

        if (!valid(qp, wr, &length)) {
            error = EINVAL;
        } else if (wqe == NULL) {
            error = ENOMEM;
        } else {
            fill(wqe, wr, length);
            count++;
        }
    }
    if (count > 0) {
        uro_wq_publish(qp->send, count);
        uro_qp_ring(qp->shard, qp->core);
    }
    pthread_spin_unlock(&qp->send_lock);

    if (error != 0)
        *bad_wr = wr;
    if (count > 0)
        uro_device_progress(qp->object.context->device, true);
    return error;
}

static void fill_receive(struct uro_rqe *rqe, const struct ibv_recv_wr *wr, uint32_t length)
{
    rqe->wr_id = wr->wr_id;
    rqe->length = length;
    rqe->sge_count = (uint32_t)wr->num_sge;
    copy_elements(rqe->sges, wr->sg_list, wr->num_sge);
}

int uro_ibv_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
    struct uro_ibv_qp *qp = uro_ibv_qp(ibv);
    uint32_t count = 0;
    int error = 0;

    if (uro_host_forked()) {
        *bad_wr = wr;
        return EIO;
    }
    pthread_spin_lock(&qp->recv_lock);
    if (wr != NULL && uro_qp_state_now(qp->core) == URO_QPS_RESET)
        error = EINVAL;
    for (; wr != NULL && error == 0; wr = error == 0 ? wr->next : wr) {
        struct uro_rqe *rqe = uro_wq_reserve(qp->recv, count);
        uint64_t length = length_of(wr->sg_list, wr->num_sge, qp->recv->sge_max);

        if (length > UINT32_MAX) {
            error = EINVAL;
        } else if (rqe == NULL) {
            error = ENOMEM;
        } else {
            fill_receive(rqe, wr, (uint32_t)length);
            count++;
        }
    }
    uro_wq_publish(qp->recv, count);
    bool flushes = count > 0 && uro_qp_state_now(qp->core) == URO_QPS_ERR;
    if (flushes)
        uro_qp_ring(qp->shard, qp->core);
    pthread_spin_unlock(&qp->recv_lock);

    if (error != 0)
        *bad_wr = wr;
    if (flushes)
        uro_device_progress(qp->object.context->device, true);
    return error;
}
