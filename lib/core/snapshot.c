/* SPDX-License-Identifier: BSD-3-Clause */
/* snapshot.c - see snapshot.h. */
#include "core/snapshot.h"

#include <string.h>

#include "core/key.h"
#include "core/qp_private.h"
#include "core/rq.h"
#include "core/shard.h"

/* Copying a row takes about as long as skipping this many empty buckets. */
#define BUCKETS_OF_ROW 4u

/* ---- rows ---------------------------------------------------------------------- */

static uint32_t cq_number(const struct uro_cq *cq)
{
    return cq != NULL ? cq->number : 0;
}

static bool is_connected(const struct uro_qp *qp)
{
    const enum uro_qp_state state = uro_qp_state_of(qp);

    return qp->service != URO_UD && state != URO_QPS_RESET && state != URO_QPS_INIT;
}

static void copy_requester(const struct uro_qp *qp, struct uro_snapshot_qp *row)
{
    const struct uro_req *req = &qp->req;
    const int32_t sent = uro_psn_diff(req->next, req->una);

    row->oldest_psn = req->una.value;
    row->next_psn = req->max.value;
    row->window = qp->congestion.window != 0 ? qp->congestion.window : qp->shard->config.window;
    row->outstanding = uro_qp_reliable(qp) && sent > 0 ? (uint32_t)sent : 0;
    row->rtt = req->retry.rtt;
    row->sends_posted = uro_wq_tail(&qp->send);
    row->sends_done = uro_wq_head(&qp->send);
}

static void copy_qp(const struct uro_table_node *node, struct uro_snapshot_qp *row)
{
    const struct uro_qp *qp = URO_CONTAINER_OF(node, struct uro_qp, node);

    *row = (struct uro_snapshot_qp){ .qpn = uro_qp_qpn(qp),
                                     .pd = qp->pd,
                                     .send_cq = cq_number(qp->send_cq),
                                     .recv_cq = cq_number(qp->recv_cq),
                                     .type = (uint8_t)qp->type,
                                     .state = (uint8_t)uro_qp_state_of(qp),
                                     .fail_reason = qp->fail_reason,
                                     .has_srq = qp->srq != NULL,
                                     .srq = qp->srq != NULL ? qp->srq->listed_as : 0,
                                     .expected_psn = qp->rsp.expected.value,
                                     .msn = qp->rsp.msn,
                                     .recvs_posted = uro_wq_tail(&qp->recv),
                                     .recvs_done = uro_wq_head(&qp->recv),
                                     .retransmits = qp->rare.retransmits,
                                     .rnr_naks = qp->rare.rnr_naks };
    copy_requester(qp, row);
    if (is_connected(qp)) {
        row->peer = qp->attr.address.dest;
        row->peer_qpn = qp->attr.dest_qpn;
        row->path_mtu = qp->attr.path_mtu;
    }
}

static void copy_cq(const struct uro_cq *cq, struct uro_snapshot_cq *row)
{
    *row = (struct uro_snapshot_cq){
        .number = cq->number,
        .capacity = cq->capacity,
        .waiting = cq->filled - atomic_load_explicit(&cq->head, memory_order_relaxed),
        .overrun = uro_cq_failed(cq),
        .armed = (uint8_t)atomic_load_explicit(&cq->armed, memory_order_relaxed),
    };
}

static void copy_key(const struct uro_table_node *node, struct uro_snapshot_key *row)
{
    const struct uro_key *key = URO_CONTAINER_OF(node, struct uro_key, node);

    *row = (struct uro_snapshot_key){ .address = key->base,
                                      .length = key->length,
                                      .key = uro_key_number(key),
                                      .pd = key->pd,
                                      .access = key->access,
                                      .kind = key->kind,
                                      .bound = key->bound };
}

static void copy_srq(const struct uro_srq *srq, struct uro_snapshot_srq *row)
{
    *row = (struct uro_snapshot_srq){ .number = srq->listed_as,
                                      .capacity = srq->wq.capacity,
                                      .posted = uro_wq_tail(&srq->wq),
                                      .taken = uro_wq_head(&srq->wq),
                                      .pd = srq->pd,
                                      .cq = cq_number(srq->cq),
                                      .limit = srq->limit,
                                      .is_xrc = srq->xrcd != 0 };
}

/* ---- steps --------------------------------------------------------------------- */

void uro_snapshot_add_cq(struct uro_shard *shard, struct uro_cq *cq)
{
    cq->number = ++shard->cq_number;
    cq->counted_in = &shard->cq_count;
    shard->cq_count++;
    uro_list_append(&shard->cqs, &cq->all);
}

uint32_t uro_snapshot_objects(const struct uro_shard *shard, enum uro_snapshot_kind kind)
{
    if (kind == URO_SNAPSHOT_QPS)
        return shard->qps.count;
    if (kind == URO_SNAPSHOT_CQS)
        return shard->cq_count;
    if (kind == URO_SNAPSHOT_SRQS)
        return shard->srq_count;
    return kind == URO_SNAPSHOT_KEYS ? shard->own_keys.table.count : 0;
}

void uro_snapshot_begin(struct uro_snapshot *snapshot, struct uro_shard *shard,
                        const struct uro_snapshot_rows *rows)
{
    *snapshot = (struct uro_snapshot){ .shard = shard, .rows = *rows };
}

void uro_snapshot_cancel(struct uro_snapshot *snapshot)
{
    uro_list_remove(&snapshot->place);
    *snapshot = (struct uro_snapshot){ 0 };
}

/* Writes the index of a new row to @index. Returns false if there is no room. */
static bool take_row(struct uro_snapshot *snapshot, uint32_t *index)
{
    const enum uro_snapshot_kind kind = snapshot->kind;

    if (snapshot->count[kind] == snapshot->rows.capacity[kind]) {
        snapshot->incomplete = true;
        return false;
    }
    *index = snapshot->count[kind]++;
    return true;
}

static void copy_node(struct uro_snapshot *snapshot, const struct uro_table_node *node)
{
    uint32_t row;

    if (!take_row(snapshot, &row))
        return;
    if (snapshot->kind == URO_SNAPSHOT_QPS)
        copy_qp(node, &snapshot->rows.qps[row]);
    else
        copy_key(node, &snapshot->rows.keys[row]);
}

/* Copies all nodes of a bucket. Returns their number. A step never ends within a bucket, because
 * nodes move between the slots of a bucket. */
static uint32_t copy_bucket(struct uro_snapshot *snapshot, const struct uro_table_bucket *bucket)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < URO_TABLE_SLOTS; i++)
        if (bucket->nodes[i] != NULL) {
            copy_node(snapshot, bucket->nodes[i]);
            count++;
        }
    for (const struct uro_table_node *node = bucket->more; node != NULL; node = node->next) {
        copy_node(snapshot, node);
        count++;
    }
    return count;
}

/* Copies objects of a table. Returns whether that was the end of the table. */
static bool copy_table(struct uro_snapshot *snapshot, const struct uro_table *table, uint32_t *cost,
                       uint32_t cost_max)
{
    while (snapshot->bucket <= table->mask) {
        if (*cost >= cost_max)
            return false;
        *cost += 1 + BUCKETS_OF_ROW * copy_bucket(snapshot, &table->buckets[snapshot->bucket++]);
    }
    snapshot->bucket = 0;
    return true;
}

static void copy_link(struct uro_snapshot *snapshot, const struct uro_link *link)
{
    uint32_t row;

    if (!take_row(snapshot, &row))
        return;
    if (snapshot->kind == URO_SNAPSHOT_CQS)
        copy_cq(URO_CONTAINER_OF(link, struct uro_cq, all), &snapshot->rows.cqs[row]);
    else
        copy_srq(URO_CONTAINER_OF(link, struct uro_srq, all), &snapshot->rows.srqs[row]);
}

/* Copies CQs or SRQs. The snapshot itself is an element of the list, and marks where the next step
 * continues. Objects may be created and destroyed between two steps. */
static bool copy_list(struct uro_snapshot *snapshot, struct uro_list *list, uint32_t *cost,
                      uint32_t cost_max)
{
    struct uro_link *link =
        uro_link_used(&snapshot->place) ? snapshot->place.next : list->head.next;

    uro_list_remove(&snapshot->place);
    for (; link != &list->head; link = link->next) {
        if (*cost >= cost_max) {
            uro_list_insert(link, &snapshot->place);
            return false;
        }
        *cost += BUCKETS_OF_ROW;
        copy_link(snapshot, link);
    }
    return true;
}

static bool copy_kind(struct uro_snapshot *snapshot, uint32_t *cost, uint32_t cost_max)
{
    struct uro_shard *shard = snapshot->shard;

    switch (snapshot->kind) {
    case URO_SNAPSHOT_QPS:
        return copy_table(snapshot, &shard->qps, cost, cost_max);
    case URO_SNAPSHOT_CQS:
        return copy_list(snapshot, &shard->cqs, cost, cost_max);
    case URO_SNAPSHOT_KEYS:
        return copy_table(snapshot, &shard->own_keys.table, cost, cost_max);
    case URO_SNAPSHOT_SRQS:
        return copy_list(snapshot, &shard->srq_list, cost, cost_max);
    case URO_SNAPSHOT_IDS:
    case URO_SNAPSHOT_KINDS:
        break;
    }
    return true;
}

bool uro_snapshot_step(struct uro_snapshot *snapshot, uint32_t rows_max)
{
    uint32_t cost = 0;

    for (; snapshot->kind != URO_SNAPSHOT_KINDS; snapshot->kind++)
        if (!copy_kind(snapshot, &cost, rows_max * BUCKETS_OF_ROW))
            return false;
    return true;
}
