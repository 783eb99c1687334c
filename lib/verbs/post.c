/* SPDX-License-Identifier: BSD-3-Clause */
/* post.c - see post.h for the contract. Rejects a request if its fields alone show an error. */
#include "verbs/post.h"

#include <errno.h>

#include "core/limits.h"

#define ATOMIC_LENGTH 8u
#define NUMBER_MAX    0xffffffu /* largest number of a queue pair or an SRQ */
#define FLAGS         (URO_SEND_FENCE | URO_SEND_SIGNALED | URO_SEND_SOLICITED | URO_SEND_INLINE)

#define RC        (1u << URO_QPT_RC)
#define UC        (1u << URO_QPT_UC)
#define UD        (1u << URO_QPT_UD)
#define XRC       (1u << URO_QPT_XRC_INI)
#define RELIABLE  (RC | XRC)
#define CONNECTED (RELIABLE | UC)

/* The queue pair types that support each operation, by enum uro_wr_opcode. The table is in man
 * ibv_post_send. UC has no packet for SEND_WITH_INV. */
static const struct operation {
    unsigned types;  /* set of queue pair types; 0: none */
    bool can_inline; /* the buffer is only read */
    bool atomic;     /* the operation is an atomic: its buffer has 8 bytes */
    bool no_buffer;
} operations[] = {
    /* clang-format off */
    [URO_WR_RDMA_WRITE]           = { .types = CONNECTED,      .can_inline = true },
    [URO_WR_RDMA_WRITE_WITH_IMM]  = { .types = CONNECTED,      .can_inline = true },
    [URO_WR_SEND]                 = { .types = CONNECTED | UD, .can_inline = true },
    [URO_WR_SEND_WITH_IMM]        = { .types = CONNECTED | UD, .can_inline = true },
    [URO_WR_RDMA_READ]            = { .types = RELIABLE },
    [URO_WR_ATOMIC_CMP_AND_SWP]   = { .types = RELIABLE,       .atomic = true },
    [URO_WR_ATOMIC_FETCH_AND_ADD] = { .types = RELIABLE,       .atomic = true },
    [URO_WR_LOCAL_INV]            = { .types = CONNECTED,      .no_buffer = true },
    [URO_WR_BIND_MW]              = { .types = CONNECTED,      .no_buffer = true },
    [URO_WR_SEND_WITH_INV]        = { .types = RELIABLE,       .can_inline = true },
    [URO_WR_FLUSH]                = { .types = RELIABLE,       .no_buffer = true },
    [URO_WR_ATOMIC_WRITE]         = { RELIABLE,       .can_inline = true, .atomic = true },
    /* clang-format on */
};

bool uro_post_takes(enum uro_qp_type type, unsigned opcode)
{
    return opcode < URO_ARRAY_LEN(operations) && (operations[opcode].types & 1u << type);
}

bool uro_post_sends(const struct uro_ibv_qp *qp)
{
    enum uro_qp_state state = uro_qp_state_now(qp->core);

    return qp->type != URO_QPT_XRC_TGT && state != URO_QPS_RESET && state != URO_QPS_INIT &&
           state != URO_QPS_RTR;
}

/* rule POST.ERRORS */
int uro_post_begin(const struct uro_ibv_qp *qp, uint32_t ahead, unsigned opcode, unsigned flags,
                   struct uro_wqe **wqe)
{
    if (!uro_post_takes(qp->type, opcode) || (flags & ~FLAGS) != 0)
        return EINVAL;
    *wqe = uro_wq_reserve(qp->send, ahead);
    if (*wqe == NULL)
        return ENOMEM;
    **wqe =
        (struct uro_wqe){ .opcode = (uint8_t)opcode, .flags = (uint8_t)(flags & ~URO_SEND_INLINE) };
    return 0;
}

static bool same_domain(const struct uro_ibv_qp *qp, const struct ibv_pd *pd)
{
    return pd->handle == qp->ibv.pd->handle;
}

/* rule POST.DATAGRAM; uro_post_elements() and uro_post_end() check the length */
int uro_post_datagram(const struct uro_ibv_qp *qp, struct uro_wqe *wqe, struct ibv_ah *ah,
                      uint32_t qpn, uint32_t qkey)
{
    if (ah == NULL || !same_domain(qp, ah->pd) || qpn > NUMBER_MAX)
        return EINVAL;
    const uint32_t engine =
        uro_ibv_ah(ah)->engines > 1 ? uro_device_engine_index(qp->object.device) : 0;
    wqe->to.ah = uro_ah_number(&uro_ibv_ah(ah)->core[engine]);
    wqe->to.qpn = qpn;
    wqe->qkey = qkey;
    return 0;
}

int uro_post_bind(const struct uro_ibv_qp *qp, struct uro_wqe *wqe, enum ibv_mw_type type,
                  const struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
    if (mw == NULL || mw->type != type || !same_domain(qp, mw->pd) ||
        (info->mr == NULL && info->length != 0))
        return EINVAL;
    wqe->imm = mw->rkey;
    wqe->rkey = rkey;
    wqe->remote_address = info->addr;
    wqe->window_length = info->length;
    wqe->bind.lkey = info->mr == NULL ? 0 : info->mr->lkey;
    wqe->bind.access = info->mw_access_flags;
    return 0;
}

bool uro_post_has_buffer(const struct uro_wqe *wqe)
{
    return !operations[wqe->opcode].no_buffer;
}

int uro_post_inline(struct uro_wqe *wqe)
{
    wqe->flags |= URO_SEND_INLINE;
    return operations[wqe->opcode].can_inline ? 0 : EINVAL;
}

int uro_post_bytes(const struct uro_ibv_qp *qp, struct uro_wqe *wqe, const void *data,
                   size_t length)
{
    if (length > qp->send->inline_max - wqe->length)
        return EINVAL;
    if (length > 0) /* else @data may be NULL */
        memcpy((uint8_t *)wqe->sges + wqe->length, data, length);
    wqe->length += (uint32_t)length;
    return 0;
}

int uro_post_end(const struct uro_ibv_qp *qp, const struct uro_wqe *wqe)
{
    if (wqe->length > qp->message_max || wqe->xrc_srqn > NUMBER_MAX)
        return EINVAL;
    if (!operations[wqe->opcode].atomic)
        return 0;
    return wqe->length == ATOMIC_LENGTH ? 0 : EINVAL; /* the responder checks the alignment */
}

void uro_post_publish(struct uro_ibv_qp *qp, uint32_t count)
{
    if (count == 0)
        return;
    uro_wq_publish(qp->send, count);
    uro_qp_ring(qp->shard, qp->core);
}
