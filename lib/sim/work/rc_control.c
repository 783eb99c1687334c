/* SPDX-License-Identifier: BSD-3-Clause */
/* rc_control.c - when a life of a pair ends, and how; see workload.h.
 *
 *   RUNNING  until its work is done, something failed, or its time is up (not in the last life)
 *   ENDING   first one end, later the other one, goes to ERR and all its work must be flushed; or
 *            (abrupt) is destroyed or reset with whatever is under way
 *   WAITING  until the next life, with new queue pairs or the same ones after RESET
 *   QUIET    the last life has done its work; ENDING once more and then OVER
 */
#include "sim/work/tight.h"

#define NS_PER_US      1000u
#define REVOKED_MAX    URO_US(1000)
#define END_WAIT_MAX   URO_US(200) /* between one end's end and the other's */
#define DRAIN_WAIT     URO_US(20)  /* until it is looked again whether all was flushed */
#define LATE_POSTS_MAX 4u
#define BIRTH_WAIT_MAX URO_US(500)
#define NEIGHBOUR_WAIT URO_MS(1500)

static struct sim_rc *pair_of(const struct sim_node *node)
{
    return URO_CONTAINER_OF(node, struct sim_rc, control);
}

static bool worked(const struct sim_rc_end *end)
{
    return end->sends_left == 0 && end->confirmed == end->posted &&
           end->messages_sent == end->peer->messages_taken;
}

/* Everything posted is accounted for. Requests that were not signalled and succeeded say nothing. */
static bool drained(struct sim_rc_end *end)
{
    const struct uro_wq *send = uro_qp_send_queue(end->qp);

    if ((end->recv_done != end->recv_posted && !sim_tight_lost(end->load, end->owner.recv_cq)) ||
        uro_wq_head(send) != uro_wq_tail(send) || !sim_cq_empty(end->owner.send_cq) ||
        !sim_cq_empty(end->owner.recv_cq))
        return false;
    if (end->srq != NULL && !end->last_wqe)
        return false;
    if (!sim_tight_lost(end->load, end->owner.send_cq))
        sim_rc_judge_silent(end);
    return true;
}

/* Another queue pair may bring its receives to their ends: no shared queue, or a new one next time. */
static bool uses_wild(const struct sim_rc *pair)
{
    bool wild = false;

    for (unsigned i = 0; i < 2; i++)
        if (pair->ends[i].srq != NULL)
            wild |= pair->ends[i].srq->plan->wild;
    return wild;
}

/* Who destroys a queue pair abruptly does not poll meanwhile: completions that nobody took must be
 * forgotten with it. */
static void pause_pollers(struct sim_rc *pair)
{
    struct sim_workload *load = pair->load;

    for (unsigned side = 0; side < 2; side++)
        for (uint32_t i = 0; i < load->plan->cq_count; i++)
            load->cqs[side][i].poll_at =
                load->world->now + uro_rng_below(&pair->rng, 2 * END_WAIT_MAX);
}

static void begin_ending(struct sim_rc *pair)
{
    bool peaceful = pair->state == SIM_LIFE_QUIET;

    pair->state = SIM_LIFE_ENDING;
    pair->may_fail = true;
    pair->abrupt = !peaceful && uro_rng_below(&pair->rng, 2) == 0;
    pair->reuse = !peaceful && uro_rng_below(&pair->rng, 3) == 0 && !uses_wild(pair) &&
                  !sim_tight_uses(pair->load, &pair->ends[0].owner) &&
                  !sim_tight_uses(pair->load, &pair->ends[1].owner);
    pair->first = uro_rng_below(&pair->rng, 2);
    pair->due = pair->load->world->now;
    if (pair->abrupt) {
        pause_pollers(pair);
        pair->due += uro_rng_below(&pair->rng, END_WAIT_MAX);
    }
    for (unsigned i = 0; i < 2; i++)
        pair->ends[i].late_posts = uro_rng_below(&pair->rng, LATE_POSTS_MAX + 1);
}

/* Memory is deregistered under all that uses it, or registered again, with another key. */
static void revoke(struct sim_rc *pair)
{
    static const enum sim_memory_section sections[] = { SIM_MEMORY_SENDS, SIM_MEMORY_RECVS,
                                                        SIM_MEMORY_WINDOWS, SIM_MEMORY_WORDS };
    struct sim_rc_end *end = &pair->ends[uro_rng_below(&pair->rng, 2)];
    enum sim_memory_section section = sections[uro_rng_below(&pair->rng, URO_ARRAY_LEN(sections))];
    struct uro_shard *shard = uro_engine_shard(end->host->engine);

    pair->revoked = true;
    pair->due = pair->load->world->now + uro_rng_below(&pair->rng, REVOKED_MAX);
    if (section == SIM_MEMORY_WINDOWS && sim_rc_window_bound(end))
        return;
    pair->may_fail = true;
    end->revoked[section] = true;
    end->renewed = UINT64_MAX;
    if (uro_rng_below(&pair->rng, 2) == 0) {
        sim_memory_deregister(&end->memory, shard, section);
    } else {
        sim_memory_register_again(&end->memory, shard, section);
        end->renewed = section == SIM_MEMORY_SENDS ? end->posted : end->peer->posted;
    }
    sim_journal_note(pair->load->world->journal, pair->load->world->now,
                     "pair %u: section %d of %c is %s", pair->number, (int)section,
                     end->host->config.name,
                     end->renewed == UINT64_MAX ? "deregistered" : "registered again");
}

static void bury(struct sim_rc *pair)
{
    struct sim_workload *load = pair->load;

    for (unsigned i = 0; i < 2; i++)
        if (pair->ends[i].alive)
            sim_rc_life_stop(&pair->ends[i]);
    sim_rc_life_bury(pair);
    pair->due = URO_TIME_NEVER;
    if (pair->peace) {
        pair->state = SIM_LIFE_OVER;
        return;
    }
    pair->state = SIM_LIFE_WAITING;
    pair->due = load->world->now + uro_rng_below(&pair->rng, BIRTH_WAIT_MAX);
    if (pair->reuse) /* what is still under way to these queue pairs must have arrived */
        pair->due += sim_plan_flight_max(load->plan);
}

/* One step of an end. */
static void end_on(struct sim_rc *pair)
{
    for (unsigned i = 0; i < 2; i++) {
        struct sim_rc_end *end = &pair->ends[i ^ pair->first];
        if (end->ended)
            continue;
        if (pair->abrupt)
            sim_rc_life_stop(end);
        else
            sim_rc_life_to_error(end);
        pair->due = pair->load->world->now + uro_rng_below(&pair->rng, END_WAIT_MAX);
        return;
    }
    if (pair->abrupt || (drained(&pair->ends[0]) && drained(&pair->ends[1])))
        bury(pair);
    else
        pair->due = pair->load->world->now + DRAIN_WAIT;
}

/* A wild queue has receives that are wrong on purpose: not for a life that must not fail. */
static void choose_srqs(struct sim_rc *pair)
{
    for (unsigned i = 0; i < 2; i++) {
        struct sim_rc_end *end = &pair->ends[i];
        end->srq = NULL;
        if (pair->plan->xrc || end->plan->srq == SIM_PLAN_NO_SRQ)
            continue;
        struct sim_srq *srq = sim_srq_of(end, end->plan->srq);
        if (!srq->plan->wild || !pair->last_life)
            end->srq = srq;
    }
}

static void begin_life(struct sim_rc *pair)
{
    const struct sim_plan *plan = pair->load->plan;

    pair->last_life = pair->life + 1 >= pair->plan->lives || pair->load->calm;
    pair->revoked = false;
    choose_srqs(pair);
    pair->may_fail = uses_wild(pair);
    pair->may_time_out = !plan->forever && !plan->clean && !pair->load->calm;
    pair->state = SIM_LIFE_RUNNING;
    pair->due = URO_TIME_NEVER;
    if (!pair->last_life && pair->plan->life_max > 0)
        pair->due = pair->load->world->now +
                    (uro_time)uro_rng_below(&pair->rng, pair->plan->life_max) * NS_PER_US;
    sim_rc_life_begin(pair);
    pair->life++;
}

/* An address that could not be asked for while there were faults is asked for once a second; retry
 * budgets may be shorter. A life that must not fail begins after that. */
static bool neighbours_doubtful(const struct sim_workload *load)
{
    return load->calm && !load->plan->forever &&
           load->world->now < load->calm_since + NEIGHBOUR_WAIT;
}

static uro_time control_next(const struct sim_node *node)
{
    return pair_of(node)->due;
}

static void control_run(struct sim_node *node)
{
    struct sim_rc *pair = pair_of(node);

    switch (pair->state) {
    case SIM_LIFE_RUNNING:
        if (!pair->last_life && !pair->revoked && pair->load->plan->revokes)
            revoke(pair);
        else
            begin_ending(pair);
        break;
    case SIM_LIFE_QUIET:
        begin_ending(pair);
        break;
    case SIM_LIFE_ENDING:
        end_on(pair);
        break;
    case SIM_LIFE_WAITING:
        if (neighbours_doubtful(pair->load))
            pair->due = pair->load->calm_since + NEIGHBOUR_WAIT;
        else if (pair->reuse && pair->load->world->now < sim_workload_arrived_at(pair->load))
            pair->due = sim_workload_arrived_at(pair->load);
        else
            begin_life(pair);
        break;
    case SIM_LIFE_OVER:
        pair->due = URO_TIME_NEVER;
        break;
    }
}

void sim_rc_control_on_failure(struct sim_rc *pair)
{
    struct sim_workload *load = pair->load;

    if (!load->plan->forever)
        pair->may_time_out = true;
    if (pair->state != SIM_LIFE_RUNNING)
        return;
    uro_time due = load->world->now + uro_rng_below(&pair->rng, END_WAIT_MAX);
    if (due < pair->due)
        pair->due = due;
}

void sim_rc_control_on_progress(struct sim_rc *pair)
{
    if (pair->state != SIM_LIFE_RUNNING || !worked(&pair->ends[0]) || !worked(&pair->ends[1]))
        return;
    if (pair->last_life) {
        pair->state = SIM_LIFE_QUIET;
        pair->peace = true;
        pair->due = URO_TIME_NEVER;
    } else if (pair->due > pair->load->world->now) {
        pair->due = pair->load->world->now;
    }
}

void sim_rc_control_finish(struct sim_rc *pair)
{
    URO_ASSERT(pair->state == SIM_LIFE_QUIET);
    pair->due = pair->load->world->now;
}

void sim_rc_control_init(struct sim_rc *pair)
{
    pair->control = (struct sim_node){ NULL, control_next, control_run };
    pair->state = SIM_LIFE_WAITING;
    pair->due = pair->load->world->now;
    sim_world_add(pair->load->world, &pair->control);
}
