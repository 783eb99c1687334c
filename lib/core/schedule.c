/* SPDX-License-Identifier: BSD-3-Clause */
/* schedule.c - one round of sending.
 *
 * A queue pair that has work hangs in `responses`, `requests` or both, and has its turn from the
 * front, URO_SCHEDULE_BUDGET packets long. One that runs dry leaves the list; who makes new work
 * for it (an ACK, a bell, a timer, a next hop) puts it back.
 */
#include "core/schedule.h"

#include "base/mark.h"
#include "core/limits.h"
#include "core/pair.h"
#include "core/req.h"
#include "core/rsp.h"
#include "core/shard.h"

void uro_schedule_response(struct uro_qp *qp)
{
    if (!uro_link_used(&qp->response_link))
        uro_list_append(&qp->shard->responses, &qp->response_link);
}

void uro_schedule_request(struct uro_qp *qp)
{
    if (!uro_link_used(&qp->request_link))
        uro_list_append(&qp->shard->requests, &qp->request_link);
}

void uro_schedule_forget(struct uro_qp *qp)
{
    uro_list_remove(&qp->response_link);
    uro_list_remove(&qp->request_link);
}

void uro_schedule_hear(struct uro_shard *shard)
{
    struct uro_bell *bell = uro_bells_take(&shard->bells);

    while (bell != NULL) {
        struct uro_qp *qp = URO_CONTAINER_OF(bell, struct uro_qp, bell);
        bell = uro_bell_hear(bell);
        if (uro_pair_state(qp) == URO_QPS_ERR)
            uro_pair_flush(qp);
        else
            uro_schedule_request(qp);
    }
}

void uro_schedule_all(struct uro_shard *shard)
{
    for (uint32_t i = 0; i <= shard->qps.mask; i++) {
        struct uro_table_node *node = shard->qps.buckets[i];
        for (; node != NULL; node = node->next) {
            struct uro_qp *qp = URO_CONTAINER_OF(node, struct uro_qp, node);
            uro_schedule_response(qp);
            uro_schedule_request(qp);
        }
    }
}

static void expire(struct uro_shard *shard)
{
    struct uro_timer *timer;

    while ((timer = uro_wheel_pop(&shard->wheel, shard->now)) != NULL)
        uro_req_on_timer(URO_CONTAINER_OF(timer, struct uro_qp, req.retry.timer));
}

typedef bool next_packet(struct uro_qp *qp, struct uro_tx *tx);

/* A next hop that does not answer swallows the packet: the retry budget decides what follows. */
static bool swallowed(struct uro_qp *qp)
{
    if (qp->path.hop->state != URO_HOP_LOST)
        return false;
    URO_MARK("TX.NO.NEIGHBOR");
    uro_count(&qp->shard->counters, URO_COUNT_TX_NO_NEIGHBOR);
    return true;
}

/* One turn; returns packets described. The queue pair goes to the end of its list unless dry. */
static uint32_t turn(struct uro_list *list, struct uro_link *link, struct uro_qp *qp,
                     next_packet *next, struct uro_tx *tx, uint32_t room)
{
    uint32_t limit = room < URO_SCHEDULE_BUDGET ? room : URO_SCHEDULE_BUDGET;
    uint32_t count = 0;

    for (uint32_t i = 0; i < limit; i++) {
        if (!next(qp, &tx[count]))
            return count;
        if (!swallowed(qp))
            count++;
    }
    if (!uro_link_used(link))
        uro_list_append(list, link);
    return count;
}

uint32_t uro_schedule_output(struct uro_shard *shard, struct uro_tx *tx, uint32_t room)
{
    uint32_t count = 0;

    uro_schedule_hear(shard);
    expire(shard);

    while (count < room) {
        struct uro_link *response = uro_list_pop(&shard->responses);
        if (response != NULL)
            count += turn(&shard->responses, response,
                          URO_CONTAINER_OF(response, struct uro_qp, response_link), uro_rsp_next,
                          tx + count, room - count);
        if (count == room)
            break;
        struct uro_link *request = uro_list_pop(&shard->requests);
        if (request != NULL)
            count += turn(&shard->requests, request,
                          URO_CONTAINER_OF(request, struct uro_qp, request_link), uro_req_next,
                          tx + count, room - count);
        if (response == NULL && request == NULL)
            break;
    }
    shard->counters.value[URO_COUNT_TX_ROCE] += count;
    return count;
}

uro_time uro_schedule_next(const struct uro_shard *shard)
{
    if (!uro_list_empty(&shard->responses) || !uro_list_empty(&shard->requests) ||
        !uro_bells_silent(&shard->bells))
        return shard->now;
    return uro_wheel_next(&shard->wheel);
}
