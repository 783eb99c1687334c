/* SPDX-License-Identifier: BSD-3-Clause */
/* reorder.c - the reorder buffer; see reorder.h. */
#include "core/reorder.h"

#include <string.h>

#include "base/mark.h"
#include "core/qp_private.h"
#include "core/shard.h"

static size_t packets_size(uint32_t capacity)
{
    return (capacity * sizeof(struct uro_reorder_packet) + 63) & ~(size_t)63;
}

size_t uro_reorder_size(uint32_t capacity)
{
    return packets_size(capacity) + capacity * sizeof(struct uro_gap);
}

void uro_reorder_init(struct uro_reorder *reorder, uint32_t capacity, void *memory)
{
    uint8_t *octets = memory;

    *reorder =
        (struct uro_reorder){ .packets = memory,
                              .gaps = (struct uro_gap *)(void *)(octets + packets_size(capacity)),
                              .capacity = capacity };
    uro_list_init(&reorder->free_packets);
    uro_list_init(&reorder->free_gaps);
    uro_list_init(&reorder->unreported);
    uro_list_init(&reorder->reported);
}

/* ---- slots --------------------------------------------------------------- */

static struct uro_reorder_packet *packet_of(struct uro_link *link)
{
    return URO_CONTAINER_OF(link, struct uro_reorder_packet, link);
}

static struct uro_reorder_packet *new_packet(struct uro_reorder *reorder)
{
    struct uro_link *link = uro_list_pop(&reorder->free_packets);

    if (link != NULL)
        return packet_of(link);
    if (reorder->packets_touched == reorder->capacity)
        return NULL;
    struct uro_reorder_packet *packet = &reorder->packets[reorder->packets_touched++];
    packet->link = (struct uro_link){ 0 };
    return packet;
}

/* Returns a free gap. A gap is free, because the caller got a free packet and the buffer has as
 * many gaps as packets. */
static struct uro_gap *new_gap(struct uro_reorder *reorder)
{
    struct uro_link *link = uro_list_pop(&reorder->free_gaps);
    struct uro_gap *gap;

    if (link != NULL) {
        gap = URO_CONTAINER_OF(link, struct uro_gap, link);
    } else {
        URO_ASSERT(reorder->gaps_touched < reorder->capacity);
        gap = &reorder->gaps[reorder->gaps_touched++];
        gap->link = (struct uro_link){ 0 };
    }
    uro_list_init(&gap->packets);
    return gap;
}

void uro_reorder_release(struct uro_shard *shard, struct uro_reorder_packet *packet)
{
    uro_list_append(&shard->reorder.free_packets, &packet->link);
}

/* ---- time ---------------------------------------------------------------- */

static uro_time first_due(const struct uro_list *list)
{
    if (uro_list_empty(list))
        return URO_TIME_NEVER;
    return URO_CONTAINER_OF(list->head.next, struct uro_gap, link)->due;
}

static void arm(struct uro_shard *shard)
{
    struct uro_reorder *reorder = &shard->reorder;
    uro_time unreported = first_due(&reorder->unreported);
    uro_time reported = first_due(&reorder->reported);
    uro_time due = unreported < reported ? unreported : reported;

    if (due == URO_TIME_NEVER)
        uro_wheel_cancel(&shard->wheel, &reorder->timer);
    else
        uro_wheel_arm(&shard->wheel, &reorder->timer, due);
}

static void wait_for(struct uro_shard *shard, struct uro_gap *gap, struct uro_list *list,
                     uro_time duration)
{
    uro_list_remove(&gap->link);
    gap->due = shard->now + duration;
    uro_list_append(list, &gap->link);
    arm(shard);
}

void uro_reorder_restart(struct uro_qp *qp)
{
    wait_for(qp->shard, qp->rsp.gap, &qp->shard->reorder.unreported, URO_REORDER_WAIT);
}

struct uro_qp *uro_reorder_overdue(struct uro_shard *shard)
{
    struct uro_reorder *reorder = &shard->reorder;

    while (first_due(&reorder->reported) <= shard->now) {
        URO_MARK("RSP.EARLY.FORGET");
        uro_reorder_forget(URO_CONTAINER_OF(reorder->reported.head.next, struct uro_gap, link)->qp);
    }
    if (first_due(&reorder->unreported) > shard->now) {
        arm(shard);
        return NULL;
    }
    struct uro_gap *gap = URO_CONTAINER_OF(reorder->unreported.head.next, struct uro_gap, link);
    wait_for(shard, gap, &reorder->reported, URO_REORDER_KEPT);
    return gap->qp;
}

/* ---- packets ------------------------------------------------------------- */

static uro_psn psn_of(const struct uro_reorder_packet *packet)
{
    return uro_psn_make(packet->frame.bth.psn);
}

static void copy(struct uro_reorder_packet *packet, const struct uro_frame *frame)
{
    packet->frame = *frame;
    /* these pointers are valid only during the call */
    packet->frame.network = packet->frame.body = NULL;
    packet->frame.payload = packet->payload;
    memcpy(packet->payload, frame->payload, frame->payload_length);
}

/* Returns the packet behind which a packet with @psn belongs, or the head of the list. Returns NULL
 * when @psn is in the list already. */
static struct uro_link *predecessor_of(struct uro_gap *gap, uro_psn psn)
{
    struct uro_link *link = gap->packets.head.prev;

    for (; link != &gap->packets.head; link = link->prev) {
        int32_t distance = uro_psn_diff(psn, psn_of(packet_of(link)));
        if (distance == 0)
            return NULL;
        if (distance > 0)
            break;
    }
    return link;
}

static void insert_behind(struct uro_link *before, struct uro_link *link)
{
    link->next = before->next;
    link->prev = before;
    before->next->prev = link;
    before->next = link;
}

static bool keep(struct uro_qp *qp, const struct uro_frame *frame, uro_psn psn)
{
    struct uro_shard *shard = qp->shard;
    struct uro_rsp *rsp = &qp->rsp;
    struct uro_link *behind = NULL;

    if (uro_psn_diff(psn, rsp->expected) > (int32_t)shard->reorder.capacity ||
        frame->payload_length > URO_PATH_MTU_MAX)
        return false;
    if (rsp->gap != NULL && (behind = predecessor_of(rsp->gap, psn)) == NULL)
        return true;
    struct uro_reorder_packet *packet = new_packet(&shard->reorder);
    if (packet == NULL)
        return false;
    copy(packet, frame);
    if (rsp->gap == NULL) {
        rsp->gap = new_gap(&shard->reorder);
        rsp->gap->qp = qp;
        behind = &rsp->gap->packets.head;
        rsp->dropped = rsp->peer_goes_back = false;
        uro_reorder_restart(qp);
    }
    insert_behind(behind, &packet->link);
    uro_count(shard->counters, URO_COUNT_RX_EARLY);
    return true;
}

bool uro_reorder_keep(struct uro_qp *qp, const struct uro_frame *frame)
{
    struct uro_rsp *rsp = &qp->rsp;
    uro_psn psn = uro_psn_make(frame->bth.psn);

    if (keep(qp, frame, psn))
        return true;
    if (rsp->gap != NULL && (!rsp->dropped || uro_psn_diff(psn, rsp->dropped_psn) > 0)) {
        rsp->dropped = true;
        rsp->dropped_psn = psn;
    }
    return false;
}

bool uro_reorder_dropped(const struct uro_qp *qp)
{
    const struct uro_rsp *rsp = &qp->rsp;

    return rsp->dropped && uro_psn_diff(rsp->dropped_psn, rsp->expected) >= 0;
}

static void close_gap(struct uro_qp *qp)
{
    struct uro_gap *gap = qp->rsp.gap;

    uro_list_remove(&gap->link);
    uro_list_append(&qp->shard->reorder.free_gaps, &gap->link);
    qp->rsp.gap = NULL;
    arm(qp->shard);
}

struct uro_reorder_packet *uro_reorder_take(struct uro_qp *qp)
{
    struct uro_gap *gap = qp->rsp.gap;
    struct uro_reorder_packet *taken = NULL;

    while (gap != NULL && taken == NULL) {
        struct uro_reorder_packet *packet = packet_of(gap->packets.head.next);
        int32_t distance = uro_psn_diff(psn_of(packet), qp->rsp.expected);
        if (distance > 0)
            break;
        uro_list_remove(&packet->link);
        if (distance == 0)
            taken = packet;
        else
            uro_reorder_release(
                qp->shard,
                packet); /* drops a packet whose PSN was executed, or belongs to a READ */
        if (uro_list_empty(&gap->packets)) {
            close_gap(qp);
            break;
        }
    }
    return taken;
}

void uro_reorder_forget(struct uro_qp *qp)
{
    struct uro_link *link;

    if (qp->rsp.gap == NULL)
        return;
    while ((link = uro_list_pop(&qp->rsp.gap->packets)) != NULL)
        uro_reorder_release(qp->shard, packet_of(link));
    close_gap(qp);
}

const char *uro_reorder_problem(const struct uro_qp *qp)
{
    const struct uro_gap *gap = qp->rsp.gap;
    uro_psn before = qp->rsp.expected;

    if (gap == NULL)
        return NULL;
    if (gap->qp != qp || uro_list_empty(&gap->packets))
        return "a gap belongs to another queue pair, or is empty";
    for (struct uro_link *link = gap->packets.head.next; link != &gap->packets.head;
         link = link->next) {
        if (uro_psn_diff(psn_of(packet_of(link)), before) <= 0)
            return "packets in the reorder buffer are out of order, or executed already";
        before = psn_of(packet_of(link));
    }
    return NULL;
}
