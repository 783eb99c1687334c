/* SPDX-License-Identifier: BSD-3-Clause */
/* load_pause.c - send queues that are drained and go on: RTS, SQD, the event, RTS; see load.h. */
#include "io/sim/load.h"

#define TIMES_MAX 3u /* in a life */
#define WAIT_MAX  URO_MS(2)
#define REST_MAX  URO_US(300)

static struct uro_load_pause *pause_of(const struct uro_node *node)
{
    return URO_CONTAINER_OF(node, struct uro_load_pause, node);
}

static uro_time pause_next(const struct uro_node *node)
{
    const struct uro_load_pause *pause = pause_of(node);

    return pause->qp != NULL ? pause->at : URO_TIME_NEVER;
}

static void modify(struct uro_load_pause *pause, enum uro_qp_state state)
{
    struct uro_world *world = pause->load->world;
    const struct uro_qp_attr attr = { .state = state, .sqd_notify = true };
    unsigned mask = state == URO_QPS_SQD ? URO_ATTR_STATE | URO_ATTR_SQD_NOTIFY : URO_ATTR_STATE;
    int result = uro_engine_qp_modify(pause->station->engine, pause->qp, &attr, mask, world->now);

    uro_journal_note(world->journal, world->now, "qp 0x%06x %s", uro_qp_number(pause->qp),
                     state == URO_QPS_SQD ? "is to drain" : "goes on");
    if (result != 0)
        uro_world_fail(world, "qp 0x%06x: modify to state %d returned %d", uro_qp_number(pause->qp),
                       (int)state, result);
    uro_station_events(pause->station);
}

static void pause_run(struct uro_node *node)
{
    struct uro_load_pause *pause = pause_of(node);
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

void uro_load_pause_on_drained(struct uro_load_pause *pause)
{
    if (!pause->draining || pause->drained) {
        uro_world_fail(pause->load->world, "a send queue was drained that was not to be");
        return;
    }
    pause->drained = true;
    pause->at = pause->load->world->now + uro_rng_below(&pause->rng, REST_MAX);
}

void uro_load_pause_begin(struct uro_load_pause *pause, struct uro_qp *qp)
{
    pause->qp = qp;
    pause->draining = pause->drained = false;
    pause->at = URO_TIME_NEVER;
    pause->left = pause->load->swarm->pauses ? uro_rng_below(&pause->rng, TIMES_MAX + 1) : 0;
    if (pause->left > 0)
        pause->at = pause->load->world->now + uro_rng_below(&pause->rng, WAIT_MAX);
}

void uro_load_pause_end(struct uro_load_pause *pause)
{
    pause->qp = NULL;
}

void uro_load_pause_init(struct uro_load_pause *pause, struct uro_load *load,
                         struct uro_station *station)
{
    *pause = (struct uro_load_pause){ .node = { NULL, pause_next, pause_run },
                                      .load = load,
                                      .station = station };
    uro_rng_init_number(&pause->rng, load->swarm->seed ^ (uint64_t)++load->pause_count << 48);
    uro_world_add(load->world, &pause->node);
}
