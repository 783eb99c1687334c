/* SPDX-License-Identifier: BSD-3-Clause */
/* receive.c - finds the queue pair of a valid packet, checks that the packet is from its peer, and
 * gives the packet to the requester or the responder.
 *
 * A packet that fails a check changes nothing. The counter of the first failed check is increased.
 */
#include "core/shard.h"

#include "base/mark.h"
#include "core/datagram.h"
#include "core/qp_private.h"
#include "core/req.h"
#include "core/rsp.h"

#define ECN_MASK 3u /* ECN bits of the traffic class */
#define ECN_CE   3u

/* Returns whether a queue pair in @state accepts packets of @role (IBTA Vol. 1, QP states). */
static bool accepts_role(enum uro_qp_state state, enum uro_role role)
{
    bool sending = state == URO_QPS_RTS || state == URO_QPS_SQD;

    if (role == URO_RESPONSE)
        return sending;
    return sending || state == URO_QPS_RTR || state == URO_QPS_SQE;
}

/* Returns whether packets with opcode @op are for queue pairs of this type. The two ends of XRC
 * accept different roles. */
static bool accepts_opcode(const struct uro_qp *qp, const struct uro_opcode *op)
{
    if (op->service == URO_CNP)
        return qp->service != URO_UD;
    if (op->service != qp->service)
        return false;
    if (qp->service != URO_XRC || (qp->type == URO_QPT_XRC_TGT) == (op->role == URO_REQUEST))
        return true;
    URO_MARK("XRC.ENDS");
    return false;
}

static bool from_peer(const struct uro_qp *qp, const struct uro_frame *frame)
{
    return uro_gid_equal(&frame->ip.source, &qp->path.dest) &&
           uro_gid_equal(&frame->ip.dest, &qp->path.source);
}

static void receive_for(struct uro_qp *qp, const struct uro_frame *frame)
{
    struct uro_counters *counters = qp->shard->counters;

    if (!accepts_opcode(qp, frame->op)) {
        URO_MARK("RX.SERVICE");
        uro_count(counters, URO_COUNT_DROP_SERVICE);
        return;
    }
    bool notice = frame->op->service == URO_CNP; /* a CNP is about packets that we sent */
    if (!accepts_role(uro_qp_state_of(qp), notice ? URO_RESPONSE : frame->op->role)) {
        URO_MARK("RX.STATE");
        uro_count(counters, URO_COUNT_DROP_STATE);
        return;
    }
    if (qp->service != URO_UD && !from_peer(qp, frame)) {
        URO_MARK("RX.ADDRESS");
        uro_count(counters, URO_COUNT_DROP_ADDRESS);
        return;
    }
    if ((frame->bth.pkey & URO_PKEY_MASK) != (URO_PKEY_DEFAULT & URO_PKEY_MASK)) {
        URO_MARK("RX.PKEY");
        uro_count(counters, URO_COUNT_DROP_PKEY);
        return;
    }

    uro_count(counters, URO_COUNT_RX_ROCE);
    counters->value[URO_COUNT_RX_BYTES] += uro_frame_packet_length(frame);
    uro_record_packet_add(uro_record_of(counters), qp->shard->now, frame->body,
                          uro_frame_packet_length(frame));
    if (notice) {
        uro_congestion_cnp_received(qp);
        return;
    }
    if ((frame->ip.traffic_class & ECN_MASK) == ECN_CE)
        uro_congestion_marked(qp);
    if (qp->service == URO_UD) {
        URO_MARK("UD.ANY");
        uro_datagram_receive(qp, frame);
    } else if (qp->service == URO_UC) {
        uro_rsp_uc_receive(qp, frame);
    } else if (frame->op->role == URO_REQUEST) {
        uro_rsp_receive(qp, frame);
    } else {
        uro_req_receive(qp, frame);
    }
}

/* Gives a packet for QPN 0xffffff to every member of its group. Skips the sender of the packet if
 * it has block_self_multicast (qp.h). */
static void receive_multicast(struct uro_shard *shard, const struct uro_frame *frame)
{
    struct uro_mcast *member = uro_mcast_next(shard, NULL, &frame->ip.dest);

    if (frame->op->service != URO_UD || member == NULL) {
        uro_count(shard->counters, URO_COUNT_DROP_QPN);
        return;
    }
    URO_MARK("UD.MULTICAST");
    for (; member != NULL; member = uro_mcast_next(shard, member, &frame->ip.dest)) {
        if (member->qp->block_self_multicast && frame->deth.source_qpn == uro_qp_qpn(member->qp) &&
            uro_shard_owns(shard, &frame->ip.source))
            continue;
        receive_for(member->qp, frame);
    }
}

void uro_receive(struct uro_shard *shard, const struct uro_frame *frame)
{
    if (frame->bth.dest_qpn == URO_QPN_MULTICAST) {
        receive_multicast(shard, frame);
        return;
    }
    struct uro_table_node *node = uro_table_find(&shard->qps, frame->bth.dest_qpn);
    if (node == NULL) {
        URO_MARK("RX.QPN");
        uro_count(shard->counters, URO_COUNT_DROP_QPN);
        return;
    }
    struct uro_qp *qp = URO_CONTAINER_OF(node, struct uro_qp, node);
    if (qp->service == URO_UD && uro_gid_is_multicast(&frame->ip.dest)) {
        URO_MARK("MCAST.QPN"); /* the queue pair may not have joined the group */
        uro_count(shard->counters, URO_COUNT_DROP_QPN);
        return;
    }
    receive_for(qp, frame);
}
