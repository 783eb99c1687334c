/* SPDX-License-Identifier: BSD-3-Clause */
/* faults.c - see faults.h for the contract. */
#include "sim/net/faults.h"

#include <string.h>

static uro_time some_us(struct uro_rng *rng, uint32_t most)
{
    return URO_US(1 + uro_rng_below(rng, most));
}

static void set_link(struct sim_faults *faults, const struct sim_faults_plug *plug, bool up)
{
    struct sim_world *world = faults->world;

    faults->down = up ? NULL : plug;
    sim_journal_note(world->journal, world->now, "link %u is %s", (unsigned)(plug - faults->plugs),
                     up ? "up" : "down");
    for (uint32_t i = 0; i < plug->cable_count; i++)
        plug->cables[i]->down = !up;
    for (uint32_t i = 0; i < plug->host_count; i++) {
        uro_engine_link(plug->hosts[i]->engine, up, world->now);
        sim_host_events(plug->hosts[i]);
    }
}

static struct sim_faults *of_link(const struct sim_node *node)
{
    return URO_CONTAINER_OF(node, struct sim_faults, link);
}

static uro_time link_next(const struct sim_node *node)
{
    const struct sim_faults *faults = of_link(node);

    return faults->plug_count > 0 ? faults->link_at : URO_TIME_NEVER;
}

static const struct sim_faults_plug *choose(struct sim_faults *faults)
{
    uint32_t count = faults->plug_count;

    return &faults->plugs[count > 1 ? uro_rng_below(&faults->rng, count) : 0];
}

static void link_run(struct sim_node *node)
{
    struct sim_faults *faults = of_link(node);
    const struct sim_plan_faults *plan = faults->plan;

    if (faults->down != NULL)
        set_link(faults, faults->down, true);
    else
        set_link(faults, choose(faults), false);
    faults->link_at =
        faults->world->now +
        some_us(&faults->rng, faults->down != NULL ? plan->down_max : plan->down_wait_max);
}

static struct sim_faults *of_clock(const struct sim_node *node)
{
    return URO_CONTAINER_OF(node, struct sim_faults, clock);
}

static uro_time clock_next(const struct sim_node *node)
{
    return of_clock(node)->jump_at;
}

/* Jumps the clock. Nodes that were due in between run afterwards, late. */
static void clock_run(struct sim_node *node)
{
    struct sim_faults *faults = of_clock(node);
    struct sim_world *world = faults->world;

    world->now += some_us(&faults->rng, faults->plan->jump_max);
    world->jumped_at = world->now;
    sim_journal_note(world->journal, world->now, "the clock has jumped");
    faults->jump_at = URO_TIME_NEVER;
    if (--faults->jumps_left > 0)
        faults->jump_at = world->now + some_us(&faults->rng, faults->plan->jump_wait_max);
}

void sim_faults_init(struct sim_faults *faults, struct sim_world *world,
                     const struct sim_plan_faults *plan)
{
    memset(faults, 0, sizeof *faults);
    faults->world = world;
    faults->plan = plan;
    faults->jumps_left = SIM_PLAN_JUMPS_MAX;
    faults->link_at = faults->jump_at = URO_TIME_NEVER;
    uro_rng_init_number(&faults->rng, plan->seed);
    if (plan->down_wait_max > 0)
        faults->link_at = world->now + some_us(&faults->rng, plan->down_wait_max);
    if (plan->jump_wait_max > 0)
        faults->jump_at = world->now + some_us(&faults->rng, plan->jump_wait_max);
    faults->link = (struct sim_node){ NULL, link_next, link_run };
    faults->clock = (struct sim_node){ NULL, clock_next, clock_run };
    sim_world_add(world, &faults->link);
    sim_world_add(world, &faults->clock);
}

struct sim_faults_plug *sim_faults_add(struct sim_faults *faults)
{
    URO_ASSERT(faults->plug_count < SIM_FAULTS_PLUGS_MAX);
    return &faults->plugs[faults->plug_count++];
}

void sim_faults_calm(struct sim_faults *faults)
{
    faults->link_at = faults->jump_at = URO_TIME_NEVER;
    if (faults->down != NULL)
        set_link(faults, faults->down, true);
}
