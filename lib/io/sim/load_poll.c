/* SPDX-License-Identifier: BSD-3-Clause */
/* load_poll.c - see load_poll.h for the contract. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "io/sim/load.h"

#define ROOM_MAX     8u
#define CQ_ALIGNMENT 64u

static struct uro_load_cq *cq_of(const struct uro_node *node)
{
    return URO_CONTAINER_OF(node, struct uro_load_cq, poller);
}

bool uro_load_poll_empty(const struct uro_cq *cq)
{
    return cq == NULL || atomic_load(&cq->head) == cq->filled;
}

static struct uro_load_end *find(struct uro_load_cq *cq, uint32_t qpn)
{
    struct uro_load *load = cq->load;

    for (uint32_t i = 0; i < 2 * load->swarm->pair_count; i++) {
        struct uro_load_end *end = &load->pairs[i / 2].ends[i % 2];
        if (end->alive && end->station == cq->station && uro_qp_number(end->qp) == qpn)
            return end;
    }
    return NULL;
}

/* Where the completion belongs. */
static const struct uro_cq *cq_due(const struct uro_load_end *end, const struct uro_cqe *cqe)
{
    if (!(cqe->wr_id & URO_LOAD_RECV_BIT))
        return end->owner.send_cq;
    return end->type == URO_QPT_XRC_TGT
               ? uro_load_srq_of(end, URO_LOAD_SRQ_INDEX(cqe->wr_id))->cq->cq
               : end->owner.recv_cq;
}

static void note(struct uro_load_cq *cq, const struct uro_cqe *cqe)
{
    struct uro_world *world = cq->load->world;

    uro_world_digest(world, &cqe->wr_id, sizeof cqe->wr_id);
    uro_world_digest(world, &cqe->status, sizeof cqe->status);
    uro_journal_note(world->journal, world->now,
                     "qp 0x%06x %s %" PRIu64 " done, status %u opcode %u length %u why %u",
                     cqe->qpn, cqe->wr_id & URO_LOAD_RECV_BIT ? "receive" : "send",
                     cqe->wr_id & ~URO_LOAD_RECV_BIT, cqe->status, cqe->opcode, cqe->byte_len,
                     cqe->vendor_error);
    if (cqe->timestamp > world->now)
        uro_world_fail(world, "completion of qp 0x%06x from the future", cqe->qpn);
}

void uro_load_poll_take(struct uro_load_cq *cq, const struct uro_cqe *cqe)
{
    struct uro_world *world = cq->load->world;
    struct uro_load_end *end = find(cq, cqe->qpn);

    if (end == NULL)
        uro_world_fail(world, "completion of qp 0x%06x, which is no more", cqe->qpn);
    else if (cq->cq != cq_due(end, cqe))
        uro_world_fail(world, "completion of qp 0x%06x in a foreign CQ", cqe->qpn);
    else
        uro_load_judge(end, cqe);
}

static void *allocate(size_t size)
{
    void *memory =
        aligned_alloc(CQ_ALIGNMENT, (size + CQ_ALIGNMENT - 1) / CQ_ALIGNMENT * CQ_ALIGNMENT);

    URO_ASSERT(memory != NULL);
    memset(memory, 0xa5, size);
    return memory;
}

/* As ibv_resize_cq() does: what waits must fit, and whoever uses the queue notices nothing. */
static void resize(struct uro_load_cq *cq)
{
    uint32_t capacity = uro_world_between(&cq->rng, cq->least, 2 * cq->least);
    uint32_t waiting = cq->cq->filled - atomic_load(&cq->cq->head);
    size_t size = uro_cq_ring_size(capacity);
    void *ring = allocate(size);

    if (uro_cq_move(cq->cq, ring, capacity) != (waiting <= capacity))
        uro_world_fail(cq->load->world,
                       "a completion queue refused a size that fits, or took one that does not");
    if (waiting > capacity) {
        free(ring);
        return;
    }
    free(cq->ring);
    cq->ring = ring;
}

static void check(const struct uro_load_cq *cq)
{
    uint32_t filled = cq->cq->filled;

    if (filled - atomic_load(&cq->cq->head) > cq->cq->capacity)
        uro_world_fail(cq->load->world, "a completion queue holds more than it has room for");
    if (cq->overflowed && filled != cq->last)
        uro_world_fail(cq->load->world, "a completion came after its queue had overflowed");
}

void uro_load_poll_now(struct uro_load_cq *cq)
{
    struct uro_cqe cqes[ROOM_MAX];
    uint32_t count;

    check(cq);
    uro_cq_deliver(cq->cq);
    do {
        uint32_t room = uro_world_between(&cq->rng, 1, ROOM_MAX);
        count = uro_cq_poll(cq->cq, cqes, room);
        for (uint32_t i = 0; i < count && !cq->load->world->failed; i++) {
            note(cq, &cqes[i]);
            cq->take(cq, &cqes[i]);
        }
    } while (count > 0 && !cq->load->world->failed);
}

static uro_time poller_next(const struct uro_node *node)
{
    const struct uro_load_cq *cq = cq_of(node);
    bool due = cq->load->swarm->cq_events ? !cq->armed || cq->told : !uro_load_poll_empty(cq->cq);

    return due ? cq->poll_at : URO_TIME_NEVER;
}

/* As a program that waits does: take all, arm, and look again, for what came in between. */
static void poller_run(struct uro_node *node)
{
    struct uro_load_cq *cq = cq_of(node);
    const struct uro_swarm_trouble *trouble = &cq->load->swarm->trouble;

    cq->told = false;
    cq->armed = false;
    if (uro_world_chance(&cq->rng, cq->load->swarm->resize_share))
        resize(cq);
    uro_load_poll_now(cq);
    if (cq->load->swarm->cq_events) {
        uro_cq_arm(cq->cq, false);
        cq->armed = true;
        uro_load_poll_now(cq);
    }
    cq->poll_at = cq->load->world->now + uro_rng_below(&cq->rng, cq->wait_max + 1);
    if (!cq->load->calm && uro_world_chance(&cq->rng, trouble->doze_share))
        cq->poll_at += URO_US(uro_rng_below(&cq->rng, trouble->doze_max));
}

static void create(struct uro_load_cq *cq, uint32_t capacity)
{
    cq->memory = allocate(uro_cq_size(capacity));
    cq->cq = uro_cq_init(cq->memory, capacity, cq);
    cq->least = capacity;
    cq->ring = NULL;
    cq->armed = cq->told = cq->overflowed = false;
}

void uro_load_poll_init(struct uro_load_cq *cq, struct uro_load *load, struct uro_station *station,
                        uint32_t capacity)
{
    memset(cq, 0, sizeof *cq);
    cq->poller = (struct uro_node){ NULL, poller_next, poller_run };
    cq->take = uro_load_poll_take;
    cq->wait_max = load->swarm->poll_wait_max;
    cq->load = load;
    cq->station = station;
    uro_rng_init_number(&cq->rng, uro_rng_u64(&load->rng));
    create(cq, capacity);
    uro_world_add(load->world, &cq->poller);
}

void uro_load_poll_fini(struct uro_load_cq *cq)
{
    free(cq->ring);
    free(cq->memory);
}

void uro_load_poll_renew(struct uro_load_cq *cq, uint32_t capacity)
{
    struct uro_load_cq gone = *cq;

    uro_cq_fini(cq->cq);
    create(cq, capacity);
    uro_load_poll_fini(&gone);
}
