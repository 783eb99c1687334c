/* SPDX-License-Identifier: BSD-3-Clause */
/* cq.c - see cq.h for the contract. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/work/workload.h"

#define ROOM_MAX 8u

static struct sim_cq *cq_of(const struct sim_node *node)
{
    return URO_CONTAINER_OF(node, struct sim_cq, poller);
}

bool sim_cq_empty(const struct uro_cq *cq)
{
    return cq == NULL || atomic_load(&cq->head) == cq->filled;
}

static void note(struct sim_cq *cq, const struct uro_cqe *cqe)
{
    struct sim_world *world = cq->load->world;

    sim_world_digest(world, &cqe->wr_id, sizeof cqe->wr_id);
    sim_world_digest(world, &cqe->status, sizeof cqe->status);
    sim_journal_note(world->journal, world->now,
                     "qp 0x%06x %s %" PRIu64 " done, status %u opcode %u length %u why %u",
                     cqe->qpn, cqe->wr_id & SIM_RECV_BIT ? "receive" : "send",
                     cqe->wr_id & ~SIM_RECV_BIT, cqe->status, cqe->opcode, cqe->byte_len,
                     cqe->vendor_error);
    if (cqe->timestamp > world->now)
        sim_world_fail(world, "completion of qp 0x%06x from the future", cqe->qpn);
}

/* Resizes the queue as ibv_resize_cq() does: the waiting completions must fit. */
static void resize(struct sim_cq *cq)
{
    uint32_t capacity = sim_world_between(&cq->rng, cq->least, 2 * cq->least);
    uint32_t waiting = cq->cq->filled - atomic_load(&cq->cq->head);
    size_t size = uro_cq_ring_size(capacity);
    void *ring = sim_memory_unzeroed(size);

    if (uro_cq_move(cq->cq, ring, capacity) != (waiting <= capacity))
        sim_world_fail(cq->load->world,
                       "a completion queue refused a size that fits, or took one that does not");
    if (waiting > capacity) {
        free(ring);
        return;
    }
    free(cq->ring);
    cq->ring = ring;
}

static void check(const struct sim_cq *cq)
{
    uint32_t filled = cq->cq->filled;

    if (filled - atomic_load(&cq->cq->head) > cq->cq->capacity)
        sim_world_fail(cq->load->world, "a completion queue holds more than it has room for");
    if (cq->overflowed && filled != cq->last)
        sim_world_fail(cq->load->world, "a completion came after its queue had overflowed");
}

void sim_cq_poll(struct sim_cq *cq)
{
    struct uro_cqe cqes[ROOM_MAX];
    uint32_t count;

    check(cq);
    uro_cq_deliver(cq->cq);
    do {
        uint32_t room = sim_world_between(&cq->rng, 1, ROOM_MAX);
        count = uro_cq_poll(cq->cq, cqes, room);
        for (uint32_t i = 0; i < count && !cq->load->world->failed; i++) {
            note(cq, &cqes[i]);
            cq->load->take(cq, &cqes[i]);
        }
    } while (count > 0 && !cq->load->world->failed);
}

static uro_time poller_next(const struct sim_node *node)
{
    const struct sim_cq *cq = cq_of(node);
    bool due = cq->events ? !cq->armed || cq->told : !sim_cq_empty(cq->cq);

    return due ? cq->poll_at : URO_TIME_NEVER;
}

/* Polls as a program does that waits for events: poll all, arm, and poll again for completions in between. */
static void poller_run(struct sim_node *node)
{
    struct sim_cq *cq = cq_of(node);
    const struct sim_plan_faults *faults = &cq->load->plan->faults;

    cq->told = false;
    cq->armed = false;
    if (sim_world_chance(&cq->rng, cq->load->plan->resize_probability))
        resize(cq);
    sim_cq_poll(cq);
    if (cq->events) {
        uro_cq_arm(cq->cq, false);
        cq->armed = true;
        sim_cq_poll(cq);
    }
    cq->poll_at = cq->load->world->now + uro_rng_below(&cq->rng, cq->wait_max + 1);
    if (!cq->load->calm && sim_world_chance(&cq->rng, faults->doze_probability))
        cq->poll_at += URO_US(uro_rng_below(&cq->rng, faults->doze_max));
}

static void create(struct sim_cq *cq, uint32_t capacity)
{
    cq->memory = sim_memory_unzeroed(uro_cq_size(capacity));
    cq->cq = uro_cq_init(cq->memory, capacity, cq);
    cq->least = capacity;
    cq->ring = NULL;
    cq->armed = cq->told = cq->overflowed = false;
}

void sim_cq_init(struct sim_cq *cq, struct sim_workload *load, struct sim_host *host,
                 uint32_t capacity)
{
    memset(cq, 0, sizeof *cq);
    cq->poller = (struct sim_node){ NULL, poller_next, poller_run };
    cq->events = load->plan->cq_events;
    cq->wait_max = load->plan->poll_wait_max;
    cq->load = load;
    cq->host = host;
    uro_rng_init_number(&cq->rng, uro_rng_u64(&load->rng));
    create(cq, capacity);
    sim_world_add(load->world, &cq->poller);
}

void sim_cq_fini(struct sim_cq *cq)
{
    free(cq->ring);
    free(cq->memory);
}

void sim_cq_renew(struct sim_cq *cq, uint32_t capacity)
{
    struct sim_cq gone = *cq;

    uro_cq_fini(cq->cq);
    create(cq, capacity);
    sim_cq_fini(&gone);
}
