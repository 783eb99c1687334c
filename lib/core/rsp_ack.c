/* SPDX-License-Identifier: BSD-3-Clause */
/* rsp_ack.c - sends the pending responses of an RC or XRC responder, in PSN order.
 *
 * Three kinds of responses may be pending: READ and atomic responses (responder resources with
 * URO_RESOURCE_DUE), one coalesced ACK with the highest PSN, and one NAK. An ACK or NAK is never
 * sent before the data of an earlier READ or atomic, because it would acknowledge that request.
 */
#include "base/mark.h"
#include "core/key.h"
#include "core/ready.h"
#include "core/rsp.h"
#include "core/rxe.h"
#include "core/shard.h"

void uro_rsp_ack(struct uro_qp *qp, uro_psn psn, bool twice)
{
    struct uro_rsp *rsp = &qp->rsp;

    if (rsp->ack_due)
        URO_MARK("RSP.ACK.COALESCED");
    if (!rsp->ack_due || uro_psn_diff(psn, rsp->ack_psn) > 0) {
        rsp->ack_psn = psn;
        rsp->ack_twice = twice;
    }
    rsp->ack_due = true;
    uro_ready_response(qp);
}

void uro_rsp_on_deferred(struct uro_shard *shard)
{
    struct uro_qp *qp;

    uro_rxe_defer_turn(shard);
    while ((qp = uro_rxe_defer_take(shard)) != NULL)
        uro_rsp_ack(qp, qp->deferred_psn, qp->deferred_twice);
}

static void seal(struct uro_qp *qp, struct uro_tx *tx, int opcode, uro_psn psn)
{
    URO_ASSERT(opcode >= 0);
    struct uro_bth bth = { .opcode = (uint8_t)opcode,
                           .migrated = true,
                           .pkey = URO_PKEY_DEFAULT,
                           .dest_qpn = qp->attr.dest_qpn,
                           .psn = psn.value };
    if (qp->rsp.ack_deferred)
        uro_rxe_defer_answered(qp, psn);
    uro_path_seal(tx, &qp->path, &bth, uro_opcodes[opcode].ext_length);
}

static void acknowledge(struct uro_qp *qp, struct uro_tx *tx, uro_psn psn, enum uro_aeth_kind kind,
                        uint8_t value)
{
    const struct uro_aeth aeth = { .kind = kind, .value = value, .msn = qp->rsp.msn };

    tx->payload_length = 0;
    tx->span_count = 0;
    uro_aeth_encode(uro_path_ext(tx, &qp->path), &aeth);
    seal(qp, tx, uro_opcode_find(qp->service, URO_RESPONSE, URO_ACK, URO_ONLY, 0), psn);
}

static struct uro_resource *oldest_pending(struct uro_rsp *rsp)
{
    if (rsp->resources_pending == 0)
        return NULL;
    for (uint32_t i = rsp->resources_oldest; i != rsp->resources_newest; i++) {
        struct uro_resource *resource = &rsp->resources[i & rsp->resources_mask];
        if (uro_resource_due(resource))
            return resource;
    }
    URO_ASSERT(false);
    return NULL;
}

static uro_psn psn_of(const struct uro_resource *resource)
{
    return uro_psn_add(uro_resource_first_psn(resource), resource->next_response);
}

static enum uro_position position_in(const struct uro_resource *resource, bool last)
{
    URO_MARK("RSP.READ.FORM");
    if (!(resource->bits & URO_RESOURCE_BEGUN))
        return last ? URO_ONLY : URO_FIRST;
    return last ? URO_LAST : URO_MIDDLE;
}

static void sent_all(struct uro_rsp *rsp, struct uro_resource *resource)
{
    resource->bits &= ~URO_RESOURCE_DUE;
    rsp->resources_pending--;
}

/* Fails a READ whose key became invalid after the READ was accepted. */
static void lose_access(struct uro_qp *qp, struct uro_resource *resource)
{
    struct uro_rsp *rsp = &qp->rsp;
    const uint8_t opcode =
        (uint8_t)uro_opcode_find(qp->service, URO_REQUEST, URO_READ, URO_ONLY, 0);
    const struct uro_frame request = {
        .op = &uro_opcodes[opcode],
        .bth = { .opcode = opcode, .psn = psn_of(resource).value },
        .reth = { .va = resource->va, .rkey = resource->rkey, .length = resource->read.length },
    };

    URO_MARK("RSP.READ.REVOKED");
    uro_count(qp->shard->counters, URO_COUNT_ACCESS_REFUSED);
    rsp->nak_due = true;
    rsp->nak_psn = psn_of(resource);
    rsp->nak_kind = URO_AETH_NAK;
    rsp->nak_value = URO_NAK_ACCESS;
    rsp->ack_due = false;
    rsp->resources_pending = 0;
    rsp->resources_oldest = rsp->resources_newest;
    uro_qp_raise_event(qp, URO_EVENT_QP_ACCESS_ERR);
    uro_qp_fail_recv(qp, URO_WC_WR_FLUSH_ERR, URO_FAIL_PEER_ACCESS, &request);
}

/* Refuses a duplicate READ whose key is not valid any more, without failing the queue pair. The
 * request may be a late duplicate from the network: the peer has the data already, and our program
 * has deregistered the memory. If the peer still waits for the data, the NAK reports the error. */
static void lose_repeated(struct uro_qp *qp, struct uro_resource *resource)
{
    struct uro_rsp *rsp = &qp->rsp;

    URO_MARK("RSP.DUP.READ.REVOKED");
    uro_count(qp->shard->counters, URO_COUNT_ACCESS_REFUSED);
    if (!rsp->nak_due) {
        rsp->nak_due = true;
        rsp->nak_psn = psn_of(resource);
        rsp->nak_kind = URO_AETH_NAK;
        rsp->nak_value = URO_NAK_ACCESS;
    }
    sent_all(rsp, resource);
}

/* Describes a READ response. Returns false when the memory may no longer be read. */
static bool read_response(struct uro_qp *qp, struct uro_resource *resource, struct uro_tx *tx)
{
    uint32_t offset = resource->next_response * qp->path.mtu;
    uint32_t left = resource->read.stop - offset;
    bool last = left <= qp->path.mtu;
    uint32_t length = last ? left : qp->path.mtu;
    enum uro_position position = position_in(resource, last);

    tx->payload_length = length;
    tx->span_count = length > 0;
    if (length > 0) {
        tx->spans[0].length = length;
        const struct uro_key_claim claim = { resource->rkey, resource->pd, uro_qp_qpn(qp),
                                             URO_ACCESS_REMOTE_READ };
        tx->spans[0].data = uro_key_remote(qp->shard, &claim, resource->va + offset, length);
        if (tx->spans[0].data != NULL)
            tx->spans[0].data =
                uro_touch_read(qp->shard, resource->rkey, tx->spans[0].data, length);
        if (tx->spans[0].data == NULL)
            return false;
    }
    if (position != URO_MIDDLE) {
        const struct uro_aeth aeth = { .kind = URO_AETH_ACK,
                                       .value = URO_CREDITS_UNLIMITED,
                                       .msn = qp->rsp.msn };
        uro_aeth_encode(uro_path_ext(tx, &qp->path), &aeth);
    }
    seal(qp, tx, uro_opcode_find(qp->service, URO_RESPONSE, URO_READ, position, 0),
         psn_of(resource));
    resource->bits |= URO_RESOURCE_BEGUN;
    if (last)
        sent_all(&qp->rsp, resource);
    else
        resource->next_response++;
    return true;
}

static void atomic_response(struct uro_qp *qp, struct uro_resource *resource, struct uro_tx *tx)
{
    const struct uro_aeth aeth = { .kind = URO_AETH_ACK,
                                   .value = URO_CREDITS_UNLIMITED,
                                   .msn = qp->rsp.msn };
    uint8_t *ext = uro_path_ext(tx, &qp->path);

    tx->payload_length = 0;
    tx->span_count = 0;
    uro_aeth_encode(ext, &aeth);
    uro_put_be64(ext + URO_AETH_LEN, resource->original);
    seal(qp, tx, uro_opcode_find(qp->service, URO_RESPONSE, URO_ATOMIC_ACK, URO_ONLY, 0),
         psn_of(resource));
    sent_all(&qp->rsp, resource);
}

/* Describes the response to a FLUSH or ATOMIC_WRITE: a READ response without payload. */
static void done_response(struct uro_qp *qp, struct uro_resource *resource, struct uro_tx *tx)
{
    const struct uro_aeth aeth = { .kind = URO_AETH_ACK,
                                   .value = URO_CREDITS_UNLIMITED,
                                   .msn = qp->rsp.msn };

    tx->payload_length = 0;
    tx->span_count = 0;
    uro_aeth_encode(uro_path_ext(tx, &qp->path), &aeth);
    seal(qp, tx, uro_opcode_find(qp->service, URO_RESPONSE, URO_READ, URO_ONLY, 0),
         psn_of(resource));
    sent_all(&qp->rsp, resource);
}

/* Returns whether the pending ACK is sent before the response @resource. */
static bool ack_first(struct uro_rsp *rsp, const struct uro_resource *resource)
{
    if (!rsp->ack_due || uro_psn_diff(rsp->ack_psn, uro_resource_first_psn(resource)) >= 0)
        return false;
    if (!uro_rxe_response_acks(rsp))
        return true;
    URO_MARK("RSP.ACK.ANSWER");
    rsp->ack_due = false;
    return false;
}

bool uro_rsp_next(struct uro_qp *qp, struct uro_tx *tx)
{
    struct uro_rsp *rsp = &qp->rsp;

    struct uro_resource *resource = oldest_pending(rsp);
    while (resource != NULL && !ack_first(rsp, resource)) {
        if (rsp->ack_due || rsp->nak_due)
            URO_MARK("RSP.ACK.ORDER");
        enum uro_response_form form = uro_operation_traits[uro_resource_operation(resource)].form;
        if (form == URO_RESPOND_EMPTY) {
            done_response(qp, resource, tx);
            return true;
        }
        if (form == URO_RESPOND_ATOMIC) {
            atomic_response(qp, resource, tx);
            return true;
        }
        if (read_response(qp, resource, tx))
            return true;
        if (resource->bits & URO_RESOURCE_REPEATED)
            lose_repeated(qp, resource);
        else
            lose_access(qp, resource);
        resource = oldest_pending(rsp);
    }
    if (rsp->ack_due) {
        if (rsp->ack_twice)
            URO_MARK("RSP.ACK.TWICE");
        rsp->ack_due = rsp->ack_twice;
        rsp->ack_twice = false;
        acknowledge(qp, tx, rsp->ack_psn, URO_AETH_ACK, URO_CREDITS_UNLIMITED);
        return true;
    }
    if (rsp->nak_due) {
        rsp->nak_due = false;
        acknowledge(qp, tx, rsp->nak_psn, rsp->nak_kind, rsp->nak_value);
        return true;
    }
    return false;
}
