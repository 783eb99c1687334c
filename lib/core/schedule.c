/* SPDX-License-Identifier: BSD-3-Clause */
/* schedule.c - one round of sending.
 *
 * A queue pair with responses to send is in `acks` or `responses`. A queue pair with requests is in
 * `requests`. The queue pair at the front of `responses` or `requests` sends up to
 * URO_SCHEDULE_BUDGET packets, then moves to the end. A queue pair without packets leaves the list.
 * A received packet, a doorbell, a timer or a resolved next hop puts it back.
 *
 * `acks` has the queue pairs whose next response is an ACK or a NAK. These packets are sent first,
 * so the first burst of a round acknowledges the packets that the round received. Only after a
 * round that responses used up, one turn of requests comes first. A queue pair in `acks` sends its
 * ACK before its own requests.
 */
#include "core/shard.h"

#include "base/mark.h"
#include "core/datagram.h"
#include "core/limits.h"
#include "core/prefetch.h"
#include "core/qp_private.h"
#include "core/ready.h"
#include "core/req.h"
#include "core/rsp.h"

/* Maximum packets of a queue pair in `acks`: a CNP or an ACK, then an ACK or a NAK. */
#define ACK_PACKETS 2u

static void prefetch(const struct uro_doorbell *doorbell)
{
    for (; doorbell != NULL; doorbell = doorbell->next)
        uro_prefetch_requester(URO_CONTAINER_OF(doorbell, const struct uro_qp, doorbell));
}

void uro_schedule_take_doorbells(struct uro_shard *shard)
{
    struct uro_doorbell *doorbell = uro_doorbell_list_take(&shard->doorbells);

    if (doorbell == NULL)
        return;
    if (uro_prefetch_useful(shard))
        prefetch(doorbell);
    while (doorbell != NULL) {
        struct uro_qp *qp = URO_CONTAINER_OF(doorbell, struct uro_qp, doorbell);
        doorbell = uro_doorbell_clear(doorbell);
        enum uro_qp_state state = uro_qp_state_of(qp);
        if (state == URO_QPS_ERR || state == URO_QPS_SQE) {
            URO_MARK("QP.FLUSH.LATE");
            uro_doorbell_fence();
            uro_qp_flush(qp);
        } else {
            uro_ready_request(qp);
        }
    }
    uro_doorbell_fence();
}

void uro_schedule_all(struct uro_shard *shard)
{
    struct uro_table_node *node = uro_table_first(&shard->qps);

    for (; node != NULL; node = uro_table_next(&shard->qps, node)) {
        struct uro_qp *qp = URO_CONTAINER_OF(node, struct uro_qp, node);
        uro_ready_response(qp);
        uro_ready_request(qp);
    }
}

static void expire(struct uro_shard *shard)
{
    struct uro_timer *timer;

    while ((timer = uro_wheel_pop(&shard->wheel, shard->now)) != NULL)
        if (timer == &shard->reorder.timer)
            uro_rsp_on_gaps(shard);
        else if (timer == &shard->deferred.timer)
            uro_rsp_on_deferred(shard);
        else
            uro_req_on_timer(URO_CONTAINER_OF(timer, struct uro_qp, req.retry.timer));
}

typedef bool next_packet(struct uro_qp *qp, struct uro_tx *tx);

/* Returns whether the packet is dropped because its next hop does not answer. The requester then
 * retries until its budget is used up. */
static bool drop_without_hop(struct uro_shard *shard, const struct uro_tx *tx)
{
    if (tx->way != URO_TX_NOWHERE)
        return false;
    URO_MARK("TX.NO.NEIGHBOR");
    uro_count(shard->counters, URO_COUNT_TX_NO_NEIGHBOR);
    return true;
}

/* rule LIVE.BOUND: the output of a round and its limit. */
struct round {
    struct uro_tx *tx;
    uint32_t count; /* packets in tx */
    uint64_t bytes; /* of the packets in tx, as TX_BYTES counts them */
    uint32_t left;  /* packets that may still be described, including dropped packets */
};

/* Describes the next packet of @qp. Returns false when it has no packet. */
static bool describe(struct uro_qp *qp, next_packet *next, struct round *round)
{
    struct uro_tx *tx = &round->tx[round->count];

    if (!next(qp, tx))
        return false;
    round->left--;
    if (!drop_without_hop(qp->shard, tx)) {
        round->count++;
        round->bytes += uro_tx_length(tx) - tx->network_at;
    }
    return true;
}

/* Records the packets that the queue pair has described since the round had @before packets. */
static void record_turn(const struct uro_qp *qp, const struct round *round, uint32_t before)
{
    const struct uro_tx *tx = &round->tx[before];

    if (round->count == before)
        return;
    const uint32_t bth_at =
        tx->network_at + URO_UDP_LEN + (tx->icrc_v6 ? URO_IPV6_LEN : URO_IPV4_LEN);
    uro_record_packet_add(uro_record_of(qp->shard->counters), qp->shard->now, tx->head + bth_at,
                          (uro_tx_length(tx) - tx->network_at) |
                              (uint64_t)(round->count - before - 1) << 16 |
                              (uint64_t)uro_qp_qpn(qp) << 32);
}

/* Runs one turn of the first queue pair of the list. Returns false when the list is empty. The
 * queue pair moves to the end of the list if it has more packets. */
static bool turn(struct uro_list *list, size_t link_at, next_packet *next, struct round *round)
{
    struct uro_link *link = uro_list_pop(list);

    if (link == NULL)
        return false;
    struct uro_qp *qp = (struct uro_qp *)(void *)((uint8_t *)link - link_at);
    const uint32_t before = round->count;
    bool more = true;
    for (uint32_t i = 0; i < URO_SCHEDULE_BUDGET && round->left > 0; i++)
        if (!describe(qp, next, round)) {
            more = false;
            break;
        }
    record_turn(qp, round, before);
    if (more && !uro_link_used(link))
        uro_list_append(list, link);
    return true;
}

static bool next_response(struct uro_qp *qp, struct uro_tx *tx)
{
    if (qp->path.hop == NULL || qp->path.hop->state == URO_HOP_RESOLVING)
        return false;
    if (qp->congestion.notify_due) {
        uro_congestion_notify(qp, tx);
        return true;
    }
    return uro_qp_reliable(qp) && uro_rsp_next(qp, tx);
}

static void acknowledge(struct uro_shard *shard, struct round *round)
{
    struct uro_link *link;

    while (round->left > 0 && (link = uro_list_pop(&shard->acks)) != NULL) {
        struct uro_qp *qp = URO_CONTAINER_OF(link, struct uro_qp, response_link);
        const uint32_t before = round->count;
        bool more = true;
        URO_MARK("RSP.ACK.FIRST");
        for (uint32_t i = 0; i < ACK_PACKETS && more && round->left > 0; i++)
            more = describe(qp, next_response, round);
        record_turn(qp, round, before);
        if (more)
            uro_ready_response(qp);
    }
}

static bool send_responses(struct uro_shard *shard, struct round *round)
{
    return turn(&shard->responses, offsetof(struct uro_qp, response_link), next_response, round);
}

static bool next_request(struct uro_qp *qp, struct uro_tx *tx)
{
    return qp->service == URO_UD ? uro_datagram_next(qp, tx) : uro_req_next(qp, tx);
}

static bool send_requests(struct uro_shard *shard, struct round *round)
{
    return turn(&shard->requests, offsetof(struct uro_qp, request_link), next_request, round);
}

/* Describes the ACK that is due, or the next request if there is none. An ACK that waits for the
 * data of a READ is left for later. */
static bool next_behind_ack(struct uro_qp *qp, struct uro_tx *tx)
{
    if (qp->rsp.ack_due && qp->rsp.resources_pending == 0 && next_response(qp, tx)) {
        URO_MARK("RSP.ACK.OWN");
        return true;
    }
    return next_request(qp, tx);
}

/* Runs a turn of requests before the ACKs of other queue pairs. */
static void send_requests_first(struct uro_shard *shard, struct round *round)
{
    (void)turn(&shard->requests, offsetof(struct uro_qp, request_link), next_behind_ack, round);
}

uint32_t uro_schedule_output(struct uro_shard *shard, struct uro_tx *tx, uint32_t max)
{
    struct round round = { .tx = tx, .left = max };

    uro_req_settle(shard);
    uro_schedule_take_doorbells(shard);
    expire(shard);

    /* If responses used up all of the last round, requests come first in this round. */
    bool busy = true;
    if (shard->requests_first && max > 0) {
        shard->requests_first = false;
        send_requests_first(shard, &round);
    }
    if (round.left > 0) {
        acknowledge(shard, &round);
        shard->requests_first = round.left == 0;
    }
    while (busy && round.left > 0) {
        busy = send_responses(shard, &round);
        shard->requests_first = round.left == 0;
        if (round.left > 0)
            busy |= send_requests(shard, &round);
    }
    shard->counters->value[URO_COUNT_TX_ROCE] += round.count;
    shard->counters->value[URO_COUNT_TX_BYTES] += round.bytes;
    return round.count;
}

uro_time uro_schedule_next(const struct uro_shard *shard)
{
    if (!uro_list_empty(&shard->acks) || !uro_list_empty(&shard->responses) ||
        !uro_list_empty(&shard->requests) || !uro_list_empty(&shard->sent) ||
        !uro_doorbell_list_empty(&shard->doorbells))
        return shard->now;
    return uro_wheel_next(&shard->wheel);
}
