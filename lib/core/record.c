/* SPDX-License-Identifier: BSD-3-Clause */
/* record.c - records why a queue pair failed: its request, the packet of its peer, and its last
 * packets. */
#include "core/record.h"

#include <stdatomic.h>
#include <string.h>

#include "base/probe.h"
#include "core/key.h"
#include "core/operation.h"
#include "core/qp_private.h"
#include "core/rq.h"
#include "core/shard.h"
#include "wire/frame.h"

/* ---- the ring of failures -------------------------------------------------------- */

static struct uro_failure *slot_of(struct uro_record *record, uint64_t number)
{
    return &record->failures[number % URO_RECORD_FAILURES];
}

/* Marks an entry as being written. */
static void withdraw(struct uro_failure *failure)
{
    failure->number = failure->number_again = 0;
    atomic_thread_fence(memory_order_release);
}

/* Ends the writing of an entry. */
static void publish(struct uro_failure *failure, uint64_t number)
{
    failure->number_again = number;
    atomic_thread_fence(memory_order_release);
    failure->number = number;
}

/* Returns the entry of the next failure, or NULL if this period has enough failures. */
static struct uro_failure *next_slot(struct uro_record *record, uro_time now)
{
    if (record->period_count == 0 || now - record->period >= URO_RECORD_PERIOD) {
        record->period = now;
        record->period_count = 0;
    }
    if (record->period_count == URO_RECORD_PERIOD_MAX)
        return NULL;
    record->period_count++;
    return slot_of(record, record->recorded + 1);
}

bool uro_record_get(const struct uro_record *record, uint64_t number, struct uro_failure *out)
{
    if (number == 0)
        return false;
    *out = record->failures[number % URO_RECORD_FAILURES];
    if (out->number_again != out->number)
        return false;
    out->number_again = out->number &= ~URO_RECORD_COMPLETED;
    return out->number == (number & ~URO_RECORD_COMPLETED);
}

void uro_record_complete(struct uro_record *record, const struct uro_failure *failure)
{
    struct uro_failure *slot = slot_of(record, failure->number);

    withdraw(slot);
    slot->route_mtu = failure->route_mtu;
    slot->link_down_ms = failure->link_down_ms;
    slot->hub_ended = failure->hub_ended;
    publish(slot, failure->number | URO_RECORD_COMPLETED);
}

/* ---- packets --------------------------------------------------------------------- */

static bool is_response(const struct uro_record_packet *packet)
{
    const struct uro_opcode *op = &uro_opcodes[packet->bth[0]];

    return uro_record_packet_sender(packet) == 0 && op->name != NULL && op->role == URO_RESPONSE;
}

/* Copies the last packets of the queue pair, and finds its last response. Looks at each packet of
 * the ring at most once. */
static void copy_packets(const struct uro_record *record, struct uro_failure *failure)
{
    const uint32_t next = record->packet_at / sizeof record->packets[0];
    uint32_t first = URO_FAILURE_PACKETS;

    for (uint32_t i = 1; i <= URO_RECORD_PACKETS; i++) {
        const struct uro_record_packet *packet = &record->packets[(next - i) % URO_RECORD_PACKETS];
        if (uro_record_packet_length(packet) == 0)
            break;
        if (uro_record_packet_qpn(packet) != failure->qpn)
            continue;
        if (first > 0)
            failure->packets[--first] = *packet;
        if ((failure->known & URO_KNOWN_RESPONSE) == 0 && is_response(packet)) {
            failure->known |= URO_KNOWN_RESPONSE;
            failure->last_response = packet->time;
        }
        if (first == 0 && (failure->known & URO_KNOWN_RESPONSE) != 0)
            break;
    }
    failure->packet_count = URO_FAILURE_PACKETS - first;
    memmove(failure->packets, &failure->packets[first],
            failure->packet_count * sizeof failure->packets[0]);
}

/* ---- the state of the queue pair ------------------------------------------------ */

/* Describes the first element of the list whose key does not allow the access. */
static void examine_list(const struct uro_shard *shard, const struct uro_sge *elements,
                         uint32_t count, uint32_t pd, uint32_t rights, struct uro_failure *failure)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct uro_key_claim claim = { elements[i].lkey, pd, failure->qpn, rights };
        if (elements[i].length > 0 &&
            uro_key_examine(shard, &claim, elements[i].address, elements[i].length, true,
                            &failure->access) != URO_KEY_FAULT_NONE) {
            failure->known |= URO_KNOWN_ACCESS;
            return;
        }
    }
}

static void describe_request(const struct uro_qp *qp, uint32_t index, struct uro_failure *failure)
{
    const struct uro_wqe *wqe = uro_qp_wqe(qp, index);
    const struct uro_request_kind *kind = uro_request_kind(wqe);
    const struct uro_key_claim region = { wqe->bind.lkey, qp->pd, uro_qp_qpn(qp),
                                          URO_ACCESS_MW_BIND };

    failure->known |= URO_KNOWN_REQUEST;
    failure->wr_id = wqe->wr_id;
    failure->wr_opcode = wqe->opcode;
    failure->remote_address = wqe->remote_address;
    failure->remote_key = wqe->rkey;
    failure->length = wqe->length;
    if (qp->type == URO_QPT_UD)
        failure->peer_qpn = wqe->to.qpn;
    if (failure->reason == URO_FAIL_LOCAL_KEY && (wqe->flags & URO_SEND_INLINE) == 0)
        examine_list(qp->shard, wqe->sges, wqe->sge_count, qp->pd,
                     uro_operation_traits[kind->operation].fills_buffers ? URO_ACCESS_LOCAL_WRITE
                                                                         : 0,
                     failure);
    if (failure->reason == URO_FAIL_BIND && wqe->window_length > 0 &&
        uro_key_examine(qp->shard, &region, wqe->remote_address, wqe->window_length, true,
                        &failure->access) != URO_KEY_FAULT_NONE)
        failure->known |= URO_KNOWN_ACCESS;
    if (failure->reason == URO_FAIL_DATAGRAM_LENGTH) {
        failure->known |= URO_KNOWN_LENGTHS;
        failure->length_seen = wqe->length;
        failure->length_max = uro_shard_path_mtu_ever(qp->shard);
    }
}

/* Describes the access to our memory that the peer's request asks for. */
static void describe_access(const struct uro_qp *qp, const struct uro_frame *frame,
                            struct uro_failure *failure)
{
    const enum uro_operation operation = frame->op->operation;
    const bool begins = uro_position_begins(frame->op->position);
    struct uro_key_claim claim = { .number = frame->reth.rkey,
                                   .pd = qp->pd,
                                   .qpn = uro_qp_qpn(qp),
                                   .access = uro_operation_traits[operation].access };
    uint64_t address = frame->reth.va, length = frame->reth.length;

    if (qp->service == URO_XRC) {
        struct uro_table_node *node = uro_table_find(&qp->shard->srqs, frame->xrc_srqn);
        if (node != NULL) /* an unknown SRQ is another failure reason */
            claim.pd = URO_CONTAINER_OF(node, struct uro_srq, node)->pd;
    }
    if (frame->op->ext & URO_EXT_INV) {
        claim.number = frame->inv_rkey;
        address = length = 0;
    } else if (frame->op->ext & URO_EXT_ATOMIC) {
        claim.number = frame->atomic.rkey;
        address = frame->atomic.va;
        length = 8;
    } else if (frame->op->ext & URO_EXT_FETH) {
        claim.access = (frame->feth.placement & 1 ? URO_ACCESS_FLUSH_GLOBAL : 0) |
                       (frame->feth.placement & 2 ? URO_ACCESS_FLUSH_PERSISTENT : 0);
    } else if (!begins) { /* WRITE */
        claim.number = qp->rsp.rkey;
        address = qp->rsp.va + qp->rsp.offset;
        length = qp->rsp.length - qp->rsp.offset;
    }
    (void)uro_key_examine(qp->shard, &claim, address, length, false, &failure->access);
    failure->known |= URO_KNOWN_ACCESS;
}

static void describe_packet(const struct uro_qp *qp, const struct uro_frame *frame,
                            struct uro_failure *failure)
{
    const struct uro_rqe *recv = qp->rsp.recv;

    failure->known |= URO_KNOWN_PACKET;
    failure->packet_psn = frame->bth.psn;
    failure->packet_opcode = frame->bth.opcode;
    switch (failure->reason) {
    case URO_FAIL_PEER_ACCESS:
    case URO_FAIL_PEER_RIGHTS:
        describe_access(qp, frame, failure);
        break;
    case URO_FAIL_PEER_LENGTH:
        failure->known |= URO_KNOWN_LENGTHS;
        failure->length_seen = frame->payload_length;
        failure->length_max = qp->path.mtu;
        failure->access.address = frame->op->ext & URO_EXT_ATOMIC ? frame->atomic.va : 0;
        break;
    case URO_FAIL_PEER_TOO_LONG:
        failure->known |= URO_KNOWN_LENGTHS;
        failure->length_seen =
            (uro_position_begins(frame->op->position) ? 0 : qp->rsp.offset) + frame->payload_length;
        failure->length_max = recv != NULL ? recv->length : 0;
        break;
    default:
        break;
    }
}

static void describe_receive(const struct uro_qp *qp, struct uro_failure *failure)
{
    const struct uro_rqe *recv = qp->rsp.recv;

    if (recv == NULL)
        return;
    failure->known |= URO_KNOWN_REQUEST;
    failure->wr_id = recv->wr_id;
    failure->length = recv->length;
    if (failure->reason == URO_FAIL_LOCAL_KEY)
        examine_list(qp->shard, recv->sges, recv->sge_count, uro_rq_pd(qp, qp->rsp.srq),
                     URO_ACCESS_LOCAL_WRITE, failure);
}

static void describe_qp(const struct uro_qp *qp, struct uro_failure *failure)
{
    const struct uro_req_retry *retry = &qp->req.retry;

    failure->type = (uint8_t)qp->type;
    failure->qpn = uro_qp_qpn(qp);
    failure->peer_qpn = qp->attr.dest_qpn;
    failure->address = qp->path.source;
    failure->peer = qp->path.dest;
    failure->path_mtu = qp->attr.path_mtu;
    failure->rights = qp->attr.access;
    failure->oldest_psn = qp->req.una.value;
    failure->next_psn = qp->req.next.value;
    failure->timeout = retry->config.timeout_exponent;
    failure->retry_count = qp->attr.retry_count;
    failure->rnr_retry = qp->attr.rnr_retry;
    failure->max_rd_atomic = qp->attr.max_rd_atomic;
    failure->max_dest_rd_atomic = qp->attr.max_dest_rd_atomic;
    failure->expected_psn = qp->rsp.expected.value;
    failure->rnr_since = uro_req_retry_rnr_since(retry);
}

/* Returns whether the peer reported after its last response that its port is closed. */
static bool is_closed(const struct uro_record *record, const struct uro_failure *failure)
{
    for (uint32_t i = 0; i < URO_RECORD_CLOSED && i < record->closed_at; i++) {
        const struct uro_record_closed *closed = &record->closed[i];
        if (uro_gid_equal(&closed->peer, &failure->peer) && closed->time >= failure->last_response)
            return true;
    }
    return false;
}

void uro_record_failure(struct uro_qp *qp, const struct uro_record_cause *cause)
{
    struct uro_record *record = uro_record_of(qp->shard->counters);

    if (!cause->waits) {
        URO_PROBE2(qp_failed, uro_qp_qpn(qp), cause->reason);
        if (qp->fail_reason != URO_FAIL_NONE)
            return;
        qp->fail_reason = (uint8_t)cause->reason;
    }
    struct uro_failure *failure = next_slot(record, qp->shard->now);
    record->failure_count++;
    if (failure == NULL)
        return;
    withdraw(failure);
    memset(failure, 0, offsetof(struct uro_failure, packets));
    failure->time = qp->shard->now;
    failure->waits = cause->waits;
    failure->reason = (uint8_t)cause->reason;
    failure->status = (uint8_t)cause->status;
    describe_qp(qp, failure);
    if (cause->failed_wqe != URO_QP_NO_WQE)
        describe_request(qp, cause->failed_wqe, failure);
    else
        describe_receive(qp, failure);
    if (cause->frame != NULL)
        describe_packet(qp, cause->frame, failure);
    copy_packets(record, failure);
    failure->unreachable = is_closed(record, failure);
    publish(failure, record->recorded + 1);
    record->recorded++;
}

void uro_record_closed_port(struct uro_record *record, const struct uro_gid *peer, uro_time now)
{
    struct uro_record_closed *closed = &record->closed[record->closed_at % URO_RECORD_CLOSED];

    *closed = (struct uro_record_closed){ .time = now, .peer = *peer };
    record->closed_at++;
}
