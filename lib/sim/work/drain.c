/* SPDX-License-Identifier: BSD-3-Clause */
/* drain.c - send queues that are drained and go on: RTS, SQD, the event, RTS; see workload.h. */
#include "sim/work/workload.h"

#define TIMES_MAX 3u /* in a life */
#define WAIT_MAX  URO_MS(2)
#define REST_MAX  URO_US(300)

static struct sim_drain *pause_of(const struct sim_node *node)
{
    return URO_CONTAINER_OF(node, struct sim_drain, node);
}

static uro_time pause_next(const struct sim_node *node)
{
    const struct sim_drain *pause = pause_of(node);

    return pause->qp != NULL ? pause->at : URO_TIME_NEVER;
}

static void modify(struct sim_drain *pause, enum uro_qp_state state)
{
    struct sim_world *world = pause->load->world;
    const struct uro_qp_attr attr = { .state = state, .sqd_notify = true };
    unsigned mask = state == URO_QPS_SQD ? URO_ATTR_STATE | URO_ATTR_SQD_NOTIFY : URO_ATTR_STATE;
    int result = uro_engine_qp_modify(pause->host->engine, pause->qp, &attr, mask, world->now);

    sim_journal_note(world->journal, world->now, "qp 0x%06x %s", uro_qp_number(pause->qp),
                     state == URO_QPS_SQD ? "is to drain" : "goes on");
    if (result != 0)
        sim_world_fail(world, "qp 0x%06x: modify to state %d returned %d", uro_qp_number(pause->qp),
                       (int)state, result);
    sim_host_events(pause->host);
}

static void pause_run(struct sim_node *node)
{
    struct sim_drain *pause = pause_of(node);
    enum uro_qp_state state = uro_qp_state_now(pause->qp);
    uro_time now = pause->load->world->now;

    pause->at = URO_TIME_NEVER;
    if (state == URO_QPS_SQD && pause->drained) {
        pause->drained = pause->draining = false;
        modify(pause, URO_QPS_RTS);
        if (pause->left > 0)
            pause->at = now + uro_rng_below(&pause->rng, WAIT_MAX);
    } else if (state == URO_QPS_RTS) {
        pause->left--;
        pause->draining = true;
        modify(pause, URO_QPS_SQD);
    }
}

void sim_drain_on_drained(struct sim_drain *pause)
{
    if (!pause->draining || pause->drained) {
        sim_world_fail(pause->load->world, "a send queue was drained that was not to be");
        return;
    }
    pause->drained = true;
    pause->at = pause->load->world->now + uro_rng_below(&pause->rng, REST_MAX);
}

void sim_drain_begin(struct sim_drain *pause, struct uro_qp *qp)
{
    pause->qp = qp;
    pause->draining = pause->drained = false;
    pause->at = URO_TIME_NEVER;
    pause->left = pause->load->plan->pauses ? uro_rng_below(&pause->rng, TIMES_MAX + 1) : 0;
    if (pause->left > 0)
        pause->at = pause->load->world->now + uro_rng_below(&pause->rng, WAIT_MAX);
}

void sim_drain_end(struct sim_drain *pause)
{
    pause->qp = NULL;
}

void sim_drain_init(struct sim_drain *pause, struct sim_workload *load, struct sim_host *host)
{
    *pause =
        (struct sim_drain){ .node = { NULL, pause_next, pause_run }, .load = load, .host = host };
    uro_rng_init_number(&pause->rng, load->plan->seed ^ (uint64_t)++load->pause_count << 48);
    sim_world_add(load->world, &pause->node);
}
