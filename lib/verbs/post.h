/* SPDX-License-Identifier: BSD-3-Clause */
/* post.h - a send request on its way into its slot: what ibv_post_send() and ibv_wr_*() share.
 *
 *     begin            a free slot, with what every request has
 *     imm, remote_address, rkey, compare_add, swap, xrc_srqn (core/work.h)
 *                      are written into the slot as they come
 *     datagram, bind   the parts that can be wrong
 *     elements, or inline and octets
 *                      the buffer; requests without one (bind, LOCAL_INV) have neither
 *     end              whether the whole can be right
 *     publish          all slots that ended well belong to the engine
 *
 * Under the QP's send lock from the first begin to publish; a slot that is not published is as if
 * nothing had been. Errors are EINVAL where nothing else is said.
 */
#pragma once

#include <errno.h>
#include <string.h>

#include "core/work.h"
#include "verbs/objects.h"

/* Whether queue pairs of @type take the opcode, of enum uro_wr_opcode. */
bool uro_post_takes(enum uro_qp_type type, unsigned opcode);

/* Whether the QP's type and state let it take sends at all. */
bool uro_post_sends(const struct uro_ibv_qp *qp);

/* Begins a request in the slot that is @ahead slots after the next slot. @flags: of IBV_SEND_*;
 * INLINE is ignored.
 * Errors: EINVAL  the QP's type does not take @opcode, or no request has such flags
 *         ENOMEM  the queue is full */
URO_NODISCARD int uro_post_begin(const struct uro_ibv_qp *qp, uint32_t ahead, unsigned opcode,
                                 unsigned flags, struct uro_wqe **wqe);

/* UD: where the datagram goes. */
URO_NODISCARD int uro_post_datagram(const struct uro_ibv_qp *qp, struct uro_wqe *wqe,
                                    struct ibv_ah *ah, uint32_t qpn, uint32_t qkey);

/* BIND_MW of a window of @type; @rkey is its key from then on. */
URO_NODISCARD int uro_post_bind(const struct uro_ibv_qp *qp, struct uro_wqe *wqe,
                                enum ibv_mw_type type, const struct ibv_mw *mw, uint32_t rkey,
                                const struct ibv_mw_bind_info *info);

/* Whether the request has a buffer. */
bool uro_post_has_buffer(const struct uro_wqe *wqe);

/* The buffer's octets follow, instead of elements. */
URO_NODISCARD int uro_post_inline(struct uro_wqe *wqe);
URO_NODISCARD int uro_post_octets(const struct uro_ibv_qp *qp, struct uro_wqe *wqe, const void *at,
                                  size_t length);

URO_NODISCARD int uro_post_end(const struct uro_ibv_qp *qp, const struct uro_wqe *wqe);

/* The next @count slots. Then uro_device_progress(), without the lock. */
void uro_post_publish(struct uro_ibv_qp *qp, uint32_t count);

static inline void uro_post_copy(struct uro_sge *to, const struct ibv_sge *from, int count)
{
    if (count >
        0) /* @from may be NULL otherwise; abi_asserts.c asserts that both are laid out alike */
        memcpy(to, from, (size_t)count * sizeof *to);
}

/* Sum of the elements; UINT64_MAX when there are more than @sge_max or a negative number. */
static inline uint64_t uro_post_length(const struct ibv_sge *sges, int count, uint32_t sge_max)
{
    uint64_t length = 0;

    if (count < 0 || (uint32_t)count > sge_max)
        return UINT64_MAX;
    for (int i = 0; i < count; i++)
        length += sges[i].length;
    return length;
}

/* Here, so that one element, which is what most requests have, needs neither call nor loop. */
URO_NODISCARD static inline int uro_post_elements(const struct uro_ibv_qp *qp, struct uro_wqe *wqe,
                                                  const struct ibv_sge *sges, int count)
{
    uint64_t length = uro_post_length(sges, count, qp->send->sge_max);

    if (length > qp->message_max)
        return EINVAL;
    wqe->length = (uint32_t)length;
    wqe->sge_count = (uint16_t)count;
    uro_post_copy(wqe->sges, sges, count);
    return 0;
}

/* post_ex.c */

/* Whether the calling thread is between ibv_wr_start() and its end, and so has the send lock. */
bool uro_post_ex_inside(const struct uro_ibv_qp *qp);

/* Whether queue pairs of @type can have these IBV_QP_EX_WITH_*: 0, or EOPNOTSUPP. */
URO_NODISCARD int uro_post_ex_check(enum uro_qp_type type, uint64_t send_ops);

/* Gives the QP ibv_wr_*() for operations that were checked. */
void uro_post_ex_init(struct uro_ibv_qp *qp, uint64_t send_ops);
