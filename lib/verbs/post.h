/* SPDX-License-Identifier: BSD-3-Clause */
/* post.h - writes a send request into its slot, for ibv_post_send() and ibv_wr_*().
 *
 *     begin            takes a free slot, and fills in the opcode and the flags
 *                      The caller writes wr_id and the operands: imm, remote_address, rkey,
 *                      compare_add, swap, flush, xrc_srqn.
 *     datagram, bind   check and fill in further fields
 *     elements, or inline and bytes
 *                      fill in the buffer, unless the request has none (bind, LOCAL_INV, FLUSH)
 *     end              checks the whole request
 *     publish          gives all slots that ended without an error to the engine
 *
 * The caller holds the QP's send lock from the first begin to publish. A slot that is not published
 * has no effect. Errors are EINVAL unless a comment says otherwise.
 */
#pragma once

#include <errno.h>
#include <string.h>

#include "core/work.h"
#include "verbs/objects.h"

/* Returns whether queue pairs of @type support the opcode, of enum uro_wr_opcode. */
bool uro_post_takes(enum uro_qp_type type, unsigned opcode);

/* Returns whether the QP accepts sends in its type and state. */
bool uro_post_sends(const struct uro_ibv_qp *qp);

/* Begins a request, @ahead slots after the next free slot. @flags: set of IBV_SEND_*, of which
 * INLINE is ignored. Errors: EINVAL the QP's type does not support @opcode, or a flag is unknown
 *         ENOMEM  the queue is full */
URO_NODISCARD int uro_post_begin(const struct uro_ibv_qp *qp, uint32_t ahead, unsigned opcode,
                                 unsigned flags, struct uro_wqe **wqe);

/* Fills in the destination of a UD datagram. */
URO_NODISCARD int uro_post_datagram(const struct uro_ibv_qp *qp, struct uro_wqe *wqe,
                                    struct ibv_ah *ah, uint32_t qpn, uint32_t qkey);

/* Fills in BIND_MW of a window of @type, whose new key is @rkey. */
URO_NODISCARD int uro_post_bind(const struct uro_ibv_qp *qp, struct uro_wqe *wqe,
                                enum ibv_mw_type type, const struct ibv_mw *mw, uint32_t rkey,
                                const struct ibv_mw_bind_info *info);

/* Returns whether the request has a buffer. */
bool uro_post_has_buffer(const struct uro_wqe *wqe);

/* Begins inline data, instead of elements. uro_post_bytes() appends bytes. */
URO_NODISCARD int uro_post_inline(struct uro_wqe *wqe);
URO_NODISCARD int uro_post_bytes(const struct uro_ibv_qp *qp, struct uro_wqe *wqe, const void *data,
                                 size_t length);

URO_NODISCARD int uro_post_end(const struct uro_ibv_qp *qp, const struct uro_wqe *wqe);

/* Publishes the next @count slots. The caller then releases the lock and calls
 * uro_device_progress(). */
void uro_post_publish(struct uro_ibv_qp *qp, uint32_t count);

static inline void uro_post_copy(struct uro_sge *to, const struct ibv_sge *from, int count)
{
    if (count > 0) /* else @from may be NULL; abi_asserts.c asserts the same layout */
        memcpy(to, from, (size_t)count * sizeof *to);
}

/* Returns the sum of the elements, or UINT64_MAX if @count is negative or exceeds @sge_max. */
static inline uint64_t uro_post_length(const struct ibv_sge *sges, int count, uint32_t sge_max)
{
    uint64_t length = 0;

    if (count < 0 || (uint32_t)count > sge_max)
        return UINT64_MAX;
    for (int i = 0; i < count; i++)
        length += sges[i].length;
    return length;
}

/* Fills in the elements. The function is inline: most requests have one element, which needs no
 * call and no loop. */
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

/* Returns whether the calling thread is between ibv_wr_start() and ibv_wr_complete() or
 * ibv_wr_abort(), and thus holds the send lock. */
bool uro_post_ex_inside(const struct uro_ibv_qp *qp);

/* Checks that queue pairs of @type support @send_ops, a set of IBV_QP_EX_WITH_*. Returns 0 or
 * EOPNOTSUPP. */
URO_NODISCARD int uro_post_ex_check(enum uro_qp_type type, uint64_t send_ops);

/* Installs ibv_wr_*() for operations that were checked. */
void uro_post_ex_init(struct uro_ibv_qp *qp, uint64_t send_ops);
