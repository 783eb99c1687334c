/* SPDX-License-Identifier: BSD-3-Clause */
/* drain.c - send queues that are drained and go on: RTS, SQD, the event, RTS; see drain.h. */
#include "sim/work/drain.h"

#include "sim/work/workload.h"

#define TIMES_MAX 3u /* in a life */
#define WAIT_MAX  URO_MS(2)
#define REST_MAX  URO_US(300)

static struct sim_drain *drain_of(const struct sim_node *node)
{
    return URO_CONTAINER_OF(node, struct sim_drain, node);
}

static uro_time drain_next(const struct sim_node *node)
{
    const struct sim_drain *drain = drain_of(node);

    return drain->qp != NULL ? drain->at : URO_TIME_NEVER;
}

static void modify(struct sim_drain *drain, enum uro_qp_state state)
{
    struct sim_world *world = drain->load->world;
    const struct uro_qp_attr attr = { .state = state, .sqd_notify = true };
    unsigned mask = state == URO_QPS_SQD ? URO_ATTR_STATE | URO_ATTR_SQD_NOTIFY : URO_ATTR_STATE;
    int result = uro_engine_qp_modify(drain->host->engine, drain->qp, &attr, mask, world->now);

    sim_journal_note(world->journal, world->now, "qp 0x%06x %s", uro_qp_number(drain->qp),
                     state == URO_QPS_SQD ? "is to drain" : "goes on");
    if (result != 0)
        sim_world_fail(world, "qp 0x%06x: modify to state %d returned %d", uro_qp_number(drain->qp),
                       (int)state, result);
    sim_host_events(drain->host);
}

static void drain_run(struct sim_node *node)
{
    struct sim_drain *drain = drain_of(node);
    enum uro_qp_state state = uro_qp_state_now(drain->qp);
    uro_time now = drain->load->world->now;

    drain->at = URO_TIME_NEVER;
    if (state == URO_QPS_SQD && drain->drained) {
        drain->drained = drain->draining = false;
        modify(drain, URO_QPS_RTS);
        if (drain->left > 0)
            drain->at = now + uro_rng_below(&drain->rng, WAIT_MAX);
    } else if (state == URO_QPS_RTS) {
        drain->left--;
        drain->draining = true;
        modify(drain, URO_QPS_SQD);
    }
}

void sim_drain_on_drained(struct sim_drain *drain)
{
    if (!drain->draining || drain->drained) {
        sim_world_fail(drain->load->world, "a send queue was drained that was not to be");
        return;
    }
    drain->drained = true;
    drain->at = drain->load->world->now + uro_rng_below(&drain->rng, REST_MAX);
}

void sim_drain_begin(struct sim_drain *drain, struct uro_qp *qp)
{
    drain->qp = qp;
    drain->draining = drain->drained = false;
    drain->at = URO_TIME_NEVER;
    drain->left = drain->load->plan->pauses ? uro_rng_below(&drain->rng, TIMES_MAX + 1) : 0;
    if (drain->left > 0)
        drain->at = drain->load->world->now + uro_rng_below(&drain->rng, WAIT_MAX);
}

void sim_drain_end(struct sim_drain *drain)
{
    drain->qp = NULL;
}

void sim_drain_init(struct sim_drain *drain, struct sim_workload *load, struct sim_host *host)
{
    *drain =
        (struct sim_drain){ .node = { NULL, drain_next, drain_run }, .load = load, .host = host };
    uro_rng_init_number(&drain->rng, load->plan->seed ^ (uint64_t)++load->drain_count << 48);
    sim_world_add(load->world, &drain->node);
}
