/* SPDX-License-Identifier: BSD-3-Clause */
/* cq.c - the completion ring, and the queue of events; see cq.h for the callers of each
 * function. */
#include "core/cq.h"

#include <string.h>

#include "base/mark.h"
#include "base/probe.h"
#include "core/limits.h"
#include "core/observer.h"
#include "core/qp_private.h"
#include "core/shard.h"

/* Returns the offset of the first ring, which follows the struct in the same memory. */
static size_t ring_offset(void)
{
    return (sizeof(struct uro_cq) + 63) & ~(size_t)63;
}

size_t uro_cq_size(uint32_t capacity)
{
    return ring_offset() + uro_cq_ring_size(capacity);
}

struct uro_cq *uro_cq_init(void *memory, uint32_t capacity, void *user)
{
    struct uro_cq *cq = memory;

    memset(cq, 0, sizeof *cq);
    cq->ring = (struct uro_cqe *)(void *)((uint8_t *)memory + ring_offset());
    cq->mask = uro_pow2_at_least(capacity) - 1;
    cq->capacity = capacity;
    cq->user = user;
    return cq;
}

void uro_cq_ignore_overrun(struct uro_cq *cq)
{
    cq->ignore_overrun = true;
}

size_t uro_cq_ring_size(uint32_t capacity)
{
    URO_ASSERT(capacity >= 1 && capacity <= URO_CQ_CAPACITY_MAX);
    return uro_pow2_at_least(capacity) * sizeof(struct uro_cqe);
}

bool uro_cq_move(struct uro_cq *cq, void *ring, uint32_t capacity)
{
    uint32_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);
    uint32_t tail = cq->filled;
    uint32_t mask = uro_pow2_at_least(capacity) - 1;
    struct uro_cqe *to = ring;

    if (tail - head > capacity)
        return false;
    URO_MARK("CQ.RESIZE");
    for (uint32_t i = head; i != tail; i++)
        to[i & mask] = cq->ring[i & cq->mask];
    cq->ring = to;
    cq->mask = mask;
    cq->capacity = capacity;
    return true;
}

void uro_cq_fini(struct uro_cq *cq)
{
    uro_list_remove(&cq->events);
    uro_list_remove(&cq->all);
    if (cq->counted_in != NULL)
        (*cq->counted_in)--;
    cq->counted_in = NULL;
}

static void announce(struct uro_shard *shard, struct uro_cq *cq)
{
    if (!uro_link_used(&cq->events))
        uro_list_append(&shard->cq_events, &cq->events);
}

static void wake(struct uro_shard *shard, struct uro_cq *cq, bool solicited)
{
    cq->fresh = true;
    cq->fresh_solicited |= solicited;
    announce(shard, cq);
}

void uro_cq_deliver(struct uro_cq *cq)
{
    URO_MARK("CQ.DELIVER");
    atomic_store_explicit(&cq->tail, cq->filled, memory_order_release);
}

/* The reader sets `armed` and then reads the ring. The engine fills the ring and then reads
 * `armed`. With a full fence on both sides, at least one side sees the write of the other. The
 * engine's fence takes as long as the rest of a completion, so one fence serves all completions of
 * a round. */
void uro_cq_notify(struct uro_cq *cq)
{
    const bool solicited = cq->fresh_solicited;

    if (!cq->fresh)
        return;
    cq->fresh = cq->fresh_solicited = false;
    uro_cq_deliver(cq);
    atomic_thread_fence(memory_order_seq_cst);
    unsigned armed = atomic_load_explicit(&cq->armed, memory_order_relaxed);
    if (armed == URO_CQ_NOT_ARMED || (armed == URO_CQ_ARMED_SOLICITED && !solicited))
        return;
    URO_MARK("CQ.ARM");
    atomic_store_explicit(&cq->armed, URO_CQ_NOT_ARMED, memory_order_relaxed);
    cq->event_completion = true;
}

void uro_cq_overflow(struct uro_shard *shard, struct uro_cq *cq)
{
    uro_cq_fail(cq);
    cq->event_error = true;
    uro_count(shard->counters, URO_COUNT_CQ_OVERRUN);
    announce(shard, cq);
}

static bool overflow(struct uro_shard *shard, struct uro_cq *cq, bool solicited)
{
    if (cq->ignore_overrun) {
        URO_MARK("CQ.OVERRUN.IGNORED");
        uro_count(shard->counters, URO_COUNT_CQ_LOST);
        wake(shard, cq, solicited); /* the CQ is full, so the reader has completions to poll */
        return true;
    }
    uro_cq_overflow(shard, cq);
    return false;
}

/* Adds a completion. @urgent: the completion also wakes a reader that waits for solicited
 * completions only. Returns false when the queue has overflowed. */
static inline bool push(struct uro_shard *shard, struct uro_cq *cq, const struct uro_cqe *cqe,
                        bool urgent)
{
    uint32_t filled = cq->filled;

    if (uro_cq_failed(cq))
        return false;
    if (filled - atomic_load_explicit(&cq->head, memory_order_acquire) >= cq->capacity)
        return overflow(shard, cq, urgent);

    struct uro_cqe *slot = &cq->ring[filled & cq->mask];
    *slot = *cqe;
    slot->timestamp = shard->now;
    cq->filled = filled + 1;
    URO_PROBE3(completion, cqe->qpn, cqe->wr_id, cqe->status);
    uro_count(shard->counters, URO_COUNT_COMPLETIONS);
    wake(shard, cq, urgent);
    return true;
}

/* This is a separate function, so that uro_cq_push() saves no registers for a successful
 * completion. */
URO_SELDOM static bool push_error(struct uro_shard *shard, struct uro_cq *cq,
                                  const struct uro_cqe *cqe)
{
    const bool pushed = push(shard, cq, cqe, true);

    if (pushed && shard->observer != NULL && cqe->status != URO_WC_WR_FLUSH_ERR)
        shard->observer->failed(shard->observer->context, cqe);
    return pushed;
}

bool uro_cq_push(struct uro_shard *shard, struct uro_cq *cq, const struct uro_cqe *cqe,
                 bool solicited)
{
    return cqe->status == URO_WC_SUCCESS ? push(shard, cq, cqe, solicited)
                                         : push_error(shard, cq, cqe);
}

uint32_t uro_cq_poll(struct uro_cq *cq, struct uro_cqe *out, uint32_t max)
{
    uint32_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);
    uint32_t ready = atomic_load_explicit(&cq->tail, memory_order_acquire) - head;
    uint32_t count = ready < max ? ready : max;

    for (uint32_t i = 0; i < count; i++)
        out[i] = cq->ring[(head + i) & cq->mask];
    if (count > 0)
        atomic_store_explicit(&cq->head, head + count, memory_order_release);
    return count;
}

void uro_cq_arm(struct uro_cq *cq, bool solicited_only)
{
    unsigned want = solicited_only ? URO_CQ_ARMED_SOLICITED : URO_CQ_ARMED_NEXT;
    unsigned now = atomic_load_explicit(&cq->armed, memory_order_relaxed);

    while (now < want && !atomic_compare_exchange_weak(&cq->armed, &now, want))
        ;
    atomic_thread_fence(memory_order_seq_cst);
}

void uro_cq_disarm(struct uro_cq *cq)
{
    atomic_store(&cq->armed, URO_CQ_NOT_ARMED);
}

void uro_cq_forget(struct uro_cq *cq, uint32_t qpn)
{
    uint32_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);
    uint32_t tail = cq->filled;
    uint32_t to = tail;

    uro_cq_deliver(cq); /* delivers the other completions, because their indices change here */
    /* Copy from the newest to the oldest: the other completions keep their order, and `head`
     * moves. */
    for (uint32_t from = tail; from != head; from--) {
        const struct uro_cqe *cqe = &cq->ring[(from - 1) & cq->mask];
        if (cqe->qpn == qpn)
            continue;
        to--;
        if (to != from - 1)
            cq->ring[to & cq->mask] = *cqe;
    }
    atomic_store_explicit(&cq->head, to, memory_order_release);
}

/* ---- events ------------------------------------------------------------------- */

void uro_shard_deliver(struct uro_shard *shard)
{
    struct uro_link *link = shard->cq_events.head.next;

    for (; link != &shard->cq_events.head; link = link->next)
        uro_cq_deliver(URO_CONTAINER_OF(link, struct uro_cq, events));
}

static bool take_cq_event(struct uro_shard *shard, struct uro_event *event)
{
    struct uro_link *link;

    while ((link = shard->cq_events.head.next) != &shard->cq_events.head) {
        struct uro_cq *cq = URO_CONTAINER_OF(link, struct uro_cq, events);
        event->user = cq->user;
        uro_cq_notify(cq);
        if (cq->event_completion) {
            cq->event_completion = false;
            event->kind = URO_EVENT_COMPLETION;
            return true;
        }
        uro_list_remove(link);
        if (cq->event_error) {
            cq->event_error = false;
            event->kind = URO_EVENT_CQ_ERR;
            return true;
        }
    }
    return false;
}

static bool take_qp_event(struct uro_shard *shard, struct uro_event *event)
{
    struct uro_link *link;

    while ((link = shard->qp_events.head.next) != &shard->qp_events.head) {
        struct uro_qp *qp = URO_CONTAINER_OF(link, struct uro_qp, event_link);
        if (qp->events == 0) {
            uro_list_remove(link);
            continue;
        }
        unsigned kind = (unsigned)__builtin_ctz(qp->events);
        qp->events &= qp->events - 1;
        *event = (struct uro_event){ .kind = (enum uro_event_kind)kind, .user = qp->user };
        return true;
    }
    return false;
}

static bool take_srq_event(struct uro_shard *shard, struct uro_event *event)
{
    struct uro_link *link = uro_list_pop(&shard->srq_events);

    if (link == NULL)
        return false;
    struct uro_srq *srq = URO_CONTAINER_OF(link, struct uro_srq, event_link);
    *event = (struct uro_event){ .kind = URO_EVENT_SRQ_LIMIT, .user = srq->user };
    return true;
}

bool uro_shard_event(struct uro_shard *shard, struct uro_event *event)
{
    return take_cq_event(shard, event) || take_qp_event(shard, event) ||
           take_srq_event(shard, event);
}
