/* SPDX-License-Identifier: BSD-3-Clause */
/* life.c - decides when the life of a connection, or of a datagram queue pair, ends, and how.
 *
 *   RUNNING  until its work is done, something failed, or its time is up (not in the last life)
 *   ENDING   one end after the other goes to ERR, and all its work must be flushed; or (abrupt) is
 *            destroyed or reset with work in flight
 *   WAITING  until the next life, with new queue pairs or the same ones after RESET
 *   IDLE     the last life has done its work; then ENDING once more and OVER
 *
 * The program or deliberately wrong requests may end a life at any time, except the last life. The
 * last life must do all its work.
 */
#include <inttypes.h>
#include <string.h>

#include "sim/inside.h"
#include "sim/work/endpoint.h"
#include "sim/work/workload.h"

#define END_WAIT_MAX   URO_US(200) /* longest time between the ends of the two sides */
#define DRAIN_WAIT     URO_US(20)  /* time between two checks whether all requests were flushed */
#define RING_WAIT      URO_US(20)  /* time between two checks of the receive rings */
#define LATE_POSTS_MAX 4u
#define BIRTH_WAIT_MAX URO_US(500)

static bool is_reliable(const struct sim_life *life)
{
    return life->ends[0].ops->reliable;
}

/* ---- a life begins ---- */

static void clear(struct sim_endpoint *end)
{
    end->ended = end->send_failed = end->recv_failed = end->blocked = false;
    end->cause_known = end->lost_answer = end->stopped = false;
    end->last_wqe = end->fatal = false;
    memset(end->recv_failed_of, 0, sizeof end->recv_failed_of);
    memset(end->shared_next, 0, sizeof end->shared_next);
    end->flush_until = 0;
    end->late_posts = 0;
    end->posted = end->confirmed = end->signalled = 0;
    end->wire_next = 0;
    end->recv_posted = end->recv_done = 0;
    end->messages_sent = end->messages_taken = end->taken_last = 0;
}

void sim_life_begin_endpoint(struct sim_endpoint *end)
{
    const struct sim_plan_end *plan = end->plan;
    uro_time now = end->world->now;

    clear(end);
    end->ops->begin(end);
    end->post_at = now + uro_rng_below(&end->rng, plan->post_wait_max + 1);
    end->receive_at = now + uro_rng_below(&end->rng, plan->recv_wait_max + 1);
    end->ops->make(end);
}

/* Chooses a shared receive queue. Some receives of a wild queue are invalid on purpose, so a life
 * that must not fail does not use it. The last life of UD and UC uses no shared queue, since their
 * messages are lost if other queue pairs have taken all receives. */
static void choose_srq(struct sim_endpoint *end)
{
    struct sim_life *life = end->life;

    end->srq = NULL;
    if (life->plan->xrc || end->plan->srq == SIM_PLAN_NO_SRQ)
        return;
    struct sim_srq *srq = sim_srq_at(end, end->plan->srq);
    if (!life->last_life || (end->ops->reliable && !srq->plan->wild))
        end->srq = srq;
}

/* Returns whether an end of the life uses a wild queue, so that its receives may fail. */
static bool uses_wild(const struct sim_life *life)
{
    for (uint32_t i = 0; i < life->count; i++)
        if (life->ends[i].srq != NULL && life->ends[i].srq->plan->wild)
            return true;
    return false;
}

static void begin_life(struct sim_life *life)
{
    struct sim_workload *workload = life->workload;
    const struct sim_plan *plan = workload->plan;

    life->last_life =
        workload->calm || (is_reliable(life) ? life->life + 1 >= life->plan->lives : plan->clean);
    life->revoked = false;
    for (uint32_t i = 0; i < life->count; i++)
        choose_srq(&life->ends[i]);
    life->may_fail = uses_wild(life);
    life->may_time_out = !plan->forever && !plan->clean && !workload->calm;
    life->state = SIM_LIFE_RUNNING;
    life->control.due = URO_TIME_NEVER;
    if (!life->last_life && life->plan->life_max > 0)
        life->control.due =
            workload->world->now + URO_US(uro_rng_below(life->rng, life->plan->life_max));
    for (uint32_t i = 0; i < life->count; i++)
        sim_life_begin_endpoint(&life->ends[i]);
    for (uint32_t i = 0; i < life->count; i++) {
        sim_endpoint_to_rtr(&life->ends[i]);
        if (life->ends[i].ops->connect != NULL)
            life->ends[i].ops->connect(&life->ends[i]);
    }
    for (uint32_t i = 0; i < life->count; i++) {
        sim_endpoint_to_rts(&life->ends[i]);
        life->ends[i].alive = true;
        if (life->ends[i].type != UROCE_XRC_TGT)
            sim_drain_begin(&life->ends[i]);
    }
    workload->lives_begun++;
    for (uint32_t i = 0; i < life->count; i++)
        sim_world_note(workload->world, "%s %u life %u: %c qp 0x%06x psn %u%s",
                       life->ends[i].ops->family, life->number, life->life,
                       life->ends[i].host->config.name, life->ends[i].qpn, life->ends[i].wire_psn,
                       life->last_life ? ", the last" : "");
    life->life++;
}

/* ---- a life ends ---- */

/* Returns whether every posted request completed. Unsignalled requests that succeed have no
 * completion. */
static bool drained(struct sim_endpoint *end)
{
    if ((end->recv_done != end->recv_posted && !sim_tight_lost(end->workload, end->recv_cq)) ||
        sim_inside_sends(end->qp) > 0 || !sim_cq_empty(end->send_cq) ||
        !sim_cq_empty(end->recv_cq) || (end->srq != NULL && !end->last_wqe))
        return false;
    if (!sim_tight_lost(end->workload, end->send_cq))
        sim_judge_silent(end);
    return true;
}

/* Draws whether the next life reuses the queue pairs. They are not reused with a tight CQ, UC with
 * a shared receive queue, or RC with a wild queue. */
static bool choose_reuse(const struct sim_life *life)
{
    if (uro_rng_below(life->rng, 3) != 0)
        return false;
    for (uint32_t i = 0; i < life->count; i++)
        if (sim_tight_uses(&life->ends[i]) ||
            (life->count == 2 && !is_reliable(life) && life->ends[i].plan->srq != SIM_PLAN_NO_SRQ))
            return false;
    return !is_reliable(life) || !uses_wild(life);
}

static void bury(struct sim_life *life)
{
    struct sim_workload *workload = life->workload;

    for (uint32_t i = 0; i < life->count; i++)
        if (life->ends[i].alive)
            sim_endpoint_stop(&life->ends[i], life->reuse);
    for (uint32_t i = 0; i < life->count; i++)
        if (life->ends[i].ops->check_memory != NULL)
            life->ends[i].ops->check_memory(&life->ends[i]);
    for (uint32_t i = 0; i < life->count; i++) {
        if (life->ends[i].ops->bury != NULL)
            life->ends[i].ops->bury(&life->ends[i]);
        else
            sim_endpoint_bury(&life->ends[i]);
    }
    life->control.due = URO_TIME_NEVER;
    life->state = life->peace ? SIM_LIFE_OVER : SIM_LIFE_WAITING;
    if (life->peace)
        return;
    life->control.due = workload->world->now + uro_rng_below(life->rng, BIRTH_WAIT_MAX);
    if (life->reuse &&
        life->count == 2) /* frames in flight to these queue pairs must arrive first */
        life->control.due += workload->plan->flight_max;
    life->arrived_by = life->control.due;
}

/* Pauses the pollers while a program destroys a queue pair abruptly. Completions that were not
 * polled must disappear with the queue pair. */
static void pause_pollers(struct sim_life *life)
{
    struct sim_workload *workload = life->workload;

    for (unsigned side = 0; side < 2; side++)
        for (uint32_t i = 0; i < workload->plan->cq_count; i++)
            workload->cqs[side][i].poll_at =
                workload->world->now + uro_rng_below(life->rng, 2 * END_WAIT_MAX);
}

static void begin_ending(struct sim_life *life)
{
    life->peace |= life->count == 1 && life->last_life; /* lives of datagrams are never IDLE */
    life->state = SIM_LIFE_ENDING;
    life->may_fail = true;
    life->abrupt = !life->peace && uro_rng_below(life->rng, 2) == 0;
    life->reuse = !life->peace && choose_reuse(life);
    life->first = uro_rng_below(life->rng, life->count);
    life->control.due = life->world->now;
    if (life->abrupt && is_reliable(life)) {
        pause_pollers(life);
        life->control.due += uro_rng_below(life->rng, END_WAIT_MAX);
    }
    for (uint32_t i = 0; i < life->count; i++)
        life->ends[i].late_posts = uro_rng_below(life->rng, LATE_POSTS_MAX + 1);
}

/* Takes one step of the end of a life. */
static void end_on(struct sim_life *life)
{
    for (uint32_t i = 0; i < life->count; i++) {
        struct sim_endpoint *end = &life->ends[i ^ life->first];
        if (end->ended)
            continue;
        if (life->abrupt)
            sim_endpoint_stop(end, life->reuse);
        else
            sim_endpoint_to_error(end);
        life->control.due = life->world->now + uro_rng_below(life->rng, END_WAIT_MAX);
        return;
    }
    for (uint32_t i = 0; i < life->count && !life->abrupt; i++) {
        if (drained(&life->ends[i]))
            continue;
        life->control.due = life->world->now + DRAIN_WAIT;
        return;
    }
    bury(life);
}

/* ---- control ---- */

/* Returns 0 if no frame to the queue pairs of the previous life is left, else the time of the next
 * check. The program of a host may run the engine so rarely that the receive ring fills. A frame
 * then waits in the ring longer than flight_max. */
static uro_time reusable_at(const struct sim_life *life)
{
    uro_time now = life->world->now;
    uro_time jumped_at = life->world->jumped_at;
    /* Time at which all frames that were in flight at a clock jump have arrived. */
    uro_time arrived = jumped_at == 0 ? 0 : jumped_at + life->workload->plan->flight_max;

    if (now < arrived)
        return arrived;
    arrived = arrived > life->arrived_by ? arrived : life->arrived_by;
    for (uint32_t i = 0; i < life->count; i++)
        if (sim_host_has_older(life->ends[i].host, arrived))
            return now + RING_WAIT;
    return 0;
}

/* Returns the earliest start of the next life. An address that was not found is resolved again once
 * a second, and retries may run out earlier. A life that must not fail begins later. A reused queue
 * pair waits until the engine has received all frames to it. */
static uro_time not_before(const struct sim_life *life)
{
    const struct sim_workload *workload = life->workload;
    bool doubtful = workload->calm && !(is_reliable(life) && workload->plan->forever);

    if (doubtful && workload->world->now < workload->calm_since + SIM_LIFE_NEIGHBOUR_WAIT)
        return workload->calm_since + SIM_LIFE_NEIGHBOUR_WAIT;
    return life->reuse && life->count == 2 ? reusable_at(life) : 0;
}

static void control_run(struct sim_node *node)
{
    struct sim_life *life = URO_CONTAINER_OF(node, struct sim_life, control);
    bool running = life->state == SIM_LIFE_RUNNING;
    bool revokes = running && life->ends[0].ops->revoke != NULL && !life->last_life &&
                   !life->revoked && life->workload->plan->revokes;

    if (revokes)
        life->ends[0].ops->revoke(life);
    else if (running || life->state == SIM_LIFE_IDLE)
        begin_ending(life);
    else if (life->state == SIM_LIFE_ENDING)
        end_on(life);
    else if (life->state == SIM_LIFE_OVER)
        node->due = URO_TIME_NEVER;
    else if (life->world->now < not_before(life))
        node->due = not_before(life);
    else
        begin_life(life);
}

void sim_life_on_failure(struct sim_life *life)
{
    struct sim_workload *workload = life->workload;

    if (!workload->plan->forever)
        life->may_time_out = true;
    if (life->state != SIM_LIFE_RUNNING)
        return;
    uro_time due = workload->world->now + uro_rng_below(life->rng, END_WAIT_MAX);
    if (due < life->control.due)
        life->control.due = due;
}

void sim_life_on_progress(struct sim_endpoint *end)
{
    struct sim_life *life = end->life;

    if (life->state != SIM_LIFE_RUNNING || life->count == 1)
        return;
    for (uint32_t i = 0; i < life->count; i++)
        if (!life->ends[i].ops->worked(&life->ends[i]))
            return;
    if (life->last_life) {
        life->state = SIM_LIFE_IDLE;
        life->peace = true;
        life->control.due = URO_TIME_NEVER;
    } else if (is_reliable(life) && life->control.due > life->world->now) {
        life->control.due = life->world->now;
    }
}

void sim_life_calm(struct sim_life *life)
{
    /* Ends this life, so that the last life can begin. */
    if (!is_reliable(life) && life->state == SIM_LIFE_RUNNING && !life->last_life)
        life->control.due = life->world->now;
}

bool sim_life_idle(const struct sim_life *life)
{
    const struct sim_endpoint *end = &life->ends[0];

    if (life->count == 2)
        return life->state == SIM_LIFE_IDLE;
    return life->last_life && end->alive && end->ops->worked(end);
}

void sim_life_finish(struct sim_life *life)
{
    URO_ASSERT(life->state == SIM_LIFE_IDLE || life->count == 1);
    life->control.due = life->world->now;
}

static void init_endpoint(struct sim_life *life, unsigned i)
{
    struct sim_endpoint *end = &life->ends[i];
    struct sim_workload *workload = life->workload;

    end->life = life;
    end->workload = workload;
    end->peer = life->count == 2 ? &life->ends[!i] : NULL;
    end->plan = &life->plan->ends[i];
    end->side = life->plan->sides[i];
    end->host = workload->hosts[end->side];
    end->ops->init(end, i);
    if (end->plan->srq !=
        SIM_PLAN_NO_SRQ) /* the queue pair must be in the protection domain of its receives */
        end->pd = sim_srq_at(end, end->plan->srq)->pd;
    if (life->count == 2)
        uro_rng_init_number(&end->rng, uro_rng_u64(end->ops->own_cq ? life->rng : &workload->rng));
    sim_endpoint_init(end);
    if (end->ops->own_cq) {
        uint32_t completions = end->plan->send_capacity + end->plan->recv_capacity;
        if (end->plan->srq != SIM_PLAN_NO_SRQ)
            completions += sim_srq_at(end, end->plan->srq)->slot_count;
        sim_cq_init(&end->cq, workload, end->host, completions);
    }
    sim_post_init(end);
}

void sim_life_init(struct sim_life *life, struct sim_workload *workload,
                   const struct sim_endpoint_ops *ops, const struct sim_plan_pair *plan,
                   uint32_t number)
{
    URO_ASSERT(workload->life_count < SIM_WORKLOAD_LIVES_MAX);
    workload->lives[workload->life_count++] = life;
    life->workload = workload;
    life->world = workload->world;
    life->plan = plan;
    life->number = number;
    life->count = ops->alone ? 1 : 2;
    life->rng = ops->alone ? &life->ends[0].rng : &life->own_rng;
    life->ends[0].ops = life->ends[1].ops = ops;
    uro_rng_init_number(life->rng, ops->own_cq ? plan->seed : uro_rng_u64(&workload->rng));
    for (unsigned i = 0; i < life->count; i++)
        init_endpoint(life, i);
    life->state = SIM_LIFE_WAITING;
    life->control.due = workload->world->now;
    sim_world_add(workload->world, &life->control, NULL, control_run);
}

void sim_life_fini(struct sim_life *life)
{
    for (uint32_t i = 0; i < life->count; i++)
        sim_endpoint_fini(&life->ends[i]);
}
