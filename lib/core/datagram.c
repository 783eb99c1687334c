/* SPDX-License-Identifier: BSD-3-Clause */
/* datagram.c - sends and receives of UD queue pairs.
 *
 * A datagram with a wrong Q_Key, or without a large enough receive, is counted and dropped. The
 * receive stays posted for the next datagram.
 */
#include "core/datagram.h"

#include <string.h>

#include "base/mark.h"
#include "core/limits.h"
#include "core/path.h"
#include "core/qp_private.h"
#include "core/req.h"
#include "core/rq.h"
#include "core/sgl.h"
#include "core/shard.h"
#include "wire/grh.h"

/* Values of wc.sl, which mlx5 writes and UCX reads: the low bits name the header in the GRH area
 * (1: IPv6, 2: IPv4), and bit 3 is set for RoCE v2. */
#define SL_IPV4 0x0au
#define SL_IPV6 0x09u

/* ---- sending ------------------------------------------------------------------------------- */

/* Returns the status of a request that cannot be sent and sets its fail_reason, or returns
 * URO_WC_SUCCESS. */
static enum uro_wc_status examine(struct uro_wqe *wqe, const struct uro_ah *ah)
{
    const struct uro_request_kind *kind = uro_request_kind(wqe);
    bool sends = kind->scope == URO_REQUEST_REMOTE && kind->operation == URO_SEND &&
                 kind->ext != URO_EXT_INV;

    wqe->fail_reason = URO_FAIL_NONE;
    if (!sends) {
        URO_MARK("POST.SERVICE");
        wqe->fail_reason = URO_FAIL_UNSUPPORTED;
        return URO_WC_LOC_QP_OP_ERR;
    }
    if (ah == NULL) {
        wqe->fail_reason = URO_FAIL_NO_HANDLE;
        return URO_WC_LOC_QP_OP_ERR;
    }
    if (wqe->length > ah->path.mtu) {
        URO_MARK("UD.LENGTH");
        wqe->fail_reason = URO_FAIL_DATAGRAM_LENGTH;
        return URO_WC_LOC_LEN_ERR;
    }
    return URO_WC_SUCCESS;
}

static uint32_t qkey_of(const struct uro_qp *qp, const struct uro_wqe *wqe)
{
    if ((wqe->qkey & URO_QKEY_PRIVILEGED) == 0)
        return wqe->qkey;
    URO_MARK("UD.QKEY.PRIVILEGED");
    return qp->attr.qkey;
}

static void seal(struct uro_qp *qp, const struct uro_wqe *wqe, struct uro_ah *ah, struct uro_tx *tx)
{
    const struct uro_deth deth = { .qkey = qkey_of(qp, wqe), .source_qpn = uro_qp_qpn(qp) };
    unsigned ext = uro_request_kind(wqe)->ext;
    int opcode = uro_opcode_find(URO_UD, URO_REQUEST, URO_SEND, URO_ONLY, ext);
    uint8_t *headers = uro_path_ext(tx, &ah->path);
    struct uro_bth bth = { .opcode = (uint8_t)opcode,
                           .solicited = wqe->flags & URO_SEND_SOLICITED,
                           .migrated = true,
                           .pkey = URO_PKEY_DEFAULT,
                           .dest_qpn = wqe->to.qpn,
                           .psn = qp->req.next.value };

    uro_deth_encode(headers, &deth);
    if (ext != 0)
        memcpy(headers + URO_DETH_LEN, &wqe->imm, URO_IMM_LEN); /* immediate data, not converted */
    uro_path_seal_from(tx, &ah->path, uro_path_datagram_port(uro_qp_qpn(qp)), &bth,
                       uro_opcodes[opcode].ext_length);
}

bool uro_datagram_next(struct uro_qp *qp, struct uro_tx *tx)
{
    struct uro_req *req = &qp->req;

    while (uro_qp_state_of(qp) == URO_QPS_RTS && req->cursor != uro_wq_tail(&qp->send)) {
        struct uro_wqe *wqe = uro_qp_wqe(qp, req->cursor);
        struct uro_ah *ah = uro_ah_find(qp->shard, wqe->to.ah, qp->pd);

        wqe->status = (uint16_t)examine(wqe, ah);
        if (wqe->status == URO_WC_SUCCESS && ah->path.hop->state == URO_HOP_RESOLVING)
            return false;
        if (wqe->status == URO_WC_SUCCESS && !uro_req_gather(qp, wqe, 0, wqe->length, tx)) {
            wqe->status = URO_WC_LOC_PROT_ERR;
            wqe->fail_reason = URO_FAIL_LOCAL_KEY;
        }
        if (wqe->status != URO_WC_SUCCESS) {
            if (req->cursor != uro_wq_head(&qp->send))
                return false; /* the requests before this request complete first */
            uro_qp_fail_send(qp, req->cursor, (enum uro_wc_status)wqe->status,
                             (enum uro_fail_reason)wqe->fail_reason);
            return false;
        }
        URO_MARK("UD.ONE");
        seal(qp, wqe, ah, tx);
        req->next = uro_psn_add(req->next, 1);
        req->started = ++req->cursor;
        uro_req_sent(qp);
        return true;
    }
    return false;
}

/* ---- receiving ----------------------------------------------------------------------------- */

static void complete(struct uro_qp *qp, const struct uro_frame *frame)
{
    bool imm = frame->op->ext & URO_EXT_IMM;
    const struct uro_cqe cqe = {
        .wr_id = qp->rsp.recv->wr_id,
        .status = URO_WC_SUCCESS,
        .opcode = URO_WC_RECV,
        .flags = (uint8_t)(URO_WC_GRH | (imm ? URO_WC_WITH_IMM : 0)),
        .service_level = frame->ip.v6 ? SL_IPV6 : SL_IPV4,
        .byte_len = URO_GRH_LEN + frame->payload_length,
        .imm = imm ? frame->imm : 0,
        .qpn = uro_qp_qpn(qp),
        .source_qpn = frame->deth.source_qpn,
    };

    uro_rq_finish(qp);
    if (!uro_cq_push(qp->shard, qp->recv_cq, &cqe, frame->bth.solicited))
        uro_qp_overrun(qp);
}

void uro_datagram_receive(struct uro_qp *qp, const struct uro_frame *frame)
{
    struct uro_counters *counters = qp->shard->counters;
    const struct uro_rqe *rqe = uro_rq_look(qp, qp->srq);
    uint8_t grh[URO_GRH_LEN];

    if (frame->deth.qkey != qp->attr.qkey) {
        URO_MARK("UD.QKEY");
        uro_count(counters, URO_COUNT_DROP_QKEY);
        return;
    }
    if (rqe == NULL) {
        URO_MARK("UD.RECEIVE");
        uro_count(counters, URO_COUNT_DROP_UD_RECEIVE);
        return;
    }
    /* A frame may have more payload than the largest path MTU, but a null region has only that much
     * memory. */
    if (frame->payload_length > URO_PATH_MTU_MAX ||
        rqe->length < URO_GRH_LEN + frame->payload_length) {
        URO_MARK("UD.OVERSIZE");
        uro_count(counters, URO_COUNT_DROP_UD_LENGTH);
        return;
    }

    rqe = uro_rq_take(qp, qp->srq);
    const struct uro_sgl sgl = { .elements = rqe->sges,
                                 .count = rqe->sge_count,
                                 .pd = uro_rq_pd(qp, qp->srq) };
    uro_grh_encode(grh, frame->network, frame->ip.v6);
    if (!uro_sgl_scatter(qp->shard, &sgl, 0, grh, sizeof grh) ||
        !uro_sgl_scatter(qp->shard, &sgl, sizeof grh, frame->payload, frame->payload_length)) {
        URO_MARK("UD.LOCAL");
        uro_qp_fail_recv(qp, URO_WC_LOC_PROT_ERR, URO_FAIL_LOCAL_KEY, NULL);
        return;
    }
    complete(qp, frame);
}

/* ---- multicast groups: buckets by the last byte of the group ----------------- */

static struct uro_list *bucket(struct uro_shard *shard, const struct uro_gid *group)
{
    return &shard->groups[group->octets[sizeof group->octets - 1] % URO_ARRAY_LEN(shard->groups)];
}

/* Returns the first member of @group from @link on, or NULL at the end. */
static struct uro_mcast *member_from(const struct uro_list *list, struct uro_link *link,
                                     const struct uro_gid *group)
{
    for (; link != &list->head; link = link->next) {
        struct uro_mcast *member = URO_CONTAINER_OF(link, struct uro_mcast, link);
        if (uro_gid_equal(&member->group, group))
            return member;
    }
    return NULL;
}

uint32_t uro_mcast_members(const struct uro_shard *shard, const struct uro_gid *group)
{
    const struct uro_list *list = bucket((struct uro_shard *)(uintptr_t)shard, group);
    struct uro_mcast *member = member_from(list, list->head.next, group);
    uint32_t count = 0;

    for (; member != NULL; member = member_from(list, member->link.next, group))
        count++;
    return count;
}

bool uro_mcast_attach(struct uro_shard *shard, struct uro_mcast *member, struct uro_qp *qp,
                      const struct uro_gid *group)
{
    bool first = uro_mcast_members(shard, group) == 0;

    *member = (struct uro_mcast){ .qp = qp, .group = *group };
    uro_list_append(bucket(shard, group), &member->link);
    return first;
}

bool uro_mcast_detach(struct uro_shard *shard, struct uro_mcast *member)
{
    uro_list_remove(&member->link);
    return uro_mcast_members(shard, &member->group) == 0;
}

struct uro_mcast *uro_mcast_find(const struct uro_shard *shard, const struct uro_qp *qp,
                                 const struct uro_gid *group)
{
    const struct uro_list *list = bucket((struct uro_shard *)(uintptr_t)shard, group);
    struct uro_mcast *member = member_from(list, list->head.next, group);

    while (member != NULL && member->qp != qp)
        member = member_from(list, member->link.next, group);
    return member;
}

struct uro_mcast *uro_mcast_next(struct uro_shard *shard, const struct uro_mcast *after,
                                 const struct uro_gid *group)
{
    const struct uro_list *list = bucket(shard, group);

    return member_from(list, after == NULL ? list->head.next : after->link.next, group);
}
