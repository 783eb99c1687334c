/* SPDX-License-Identifier: BSD-3-Clause */
/* trouble.c - see trouble.h for the contract. */
#include "io/sim/trouble.h"

#include <string.h>

static uro_time some_us(struct uro_rng *rng, uint32_t most)
{
    return URO_US(1 + uro_rng_below(rng, most));
}

static void set_link(struct uro_trouble *trouble, const struct uro_trouble_plug *plug, bool up)
{
    struct uro_world *world = trouble->world;

    trouble->down = up ? NULL : plug;
    uro_journal_note(world->journal, world->now, "link %u is %s", (unsigned)(plug - trouble->plugs),
                     up ? "up" : "down");
    for (uint32_t i = 0; i < plug->cable_count; i++)
        plug->cables[i]->down = !up;
    for (uint32_t i = 0; i < plug->station_count; i++) {
        uro_engine_link(plug->stations[i]->engine, up, world->now);
        uro_station_events(plug->stations[i]);
    }
}

static struct uro_trouble *of_link(const struct uro_node *node)
{
    return URO_CONTAINER_OF(node, struct uro_trouble, link);
}

static uro_time link_next(const struct uro_node *node)
{
    const struct uro_trouble *trouble = of_link(node);

    return trouble->plug_count > 0 ? trouble->link_at : URO_TIME_NEVER;
}

static const struct uro_trouble_plug *choose(struct uro_trouble *trouble)
{
    uint32_t count = trouble->plug_count;

    return &trouble->plugs[count > 1 ? uro_rng_below(&trouble->rng, count) : 0];
}

static void link_run(struct uro_node *node)
{
    struct uro_trouble *trouble = of_link(node);
    const struct uro_swarm_trouble *plan = trouble->plan;

    if (trouble->down != NULL)
        set_link(trouble, trouble->down, true);
    else
        set_link(trouble, choose(trouble), false);
    trouble->link_at =
        trouble->world->now +
        some_us(&trouble->rng, trouble->down != NULL ? plan->down_max : plan->down_wait_max);
}

static struct uro_trouble *of_clock(const struct uro_node *node)
{
    return URO_CONTAINER_OF(node, struct uro_trouble, clock);
}

static uro_time clock_next(const struct uro_node *node)
{
    return of_clock(node)->jump_at;
}

/* Whatever was due in between happens afterwards, and late. */
static void clock_run(struct uro_node *node)
{
    struct uro_trouble *trouble = of_clock(node);
    struct uro_world *world = trouble->world;

    world->now += some_us(&trouble->rng, trouble->plan->jump_max);
    world->jumped_at = world->now;
    uro_journal_note(world->journal, world->now, "the clock has jumped");
    trouble->jump_at = URO_TIME_NEVER;
    if (--trouble->jumps_left > 0)
        trouble->jump_at = world->now + some_us(&trouble->rng, trouble->plan->jump_wait_max);
}

void uro_trouble_init(struct uro_trouble *trouble, struct uro_world *world,
                      const struct uro_swarm_trouble *plan)
{
    memset(trouble, 0, sizeof *trouble);
    trouble->world = world;
    trouble->plan = plan;
    trouble->jumps_left = URO_SWARM_JUMPS_MAX;
    trouble->link_at = trouble->jump_at = URO_TIME_NEVER;
    uro_rng_init_number(&trouble->rng, plan->seed);
    if (plan->down_wait_max > 0)
        trouble->link_at = world->now + some_us(&trouble->rng, plan->down_wait_max);
    if (plan->jump_wait_max > 0)
        trouble->jump_at = world->now + some_us(&trouble->rng, plan->jump_wait_max);
    trouble->link = (struct uro_node){ NULL, link_next, link_run };
    trouble->clock = (struct uro_node){ NULL, clock_next, clock_run };
    uro_world_add(world, &trouble->link);
    uro_world_add(world, &trouble->clock);
}

struct uro_trouble_plug *uro_trouble_add(struct uro_trouble *trouble)
{
    URO_ASSERT(trouble->plug_count < URO_TROUBLE_PLUGS_MAX);
    return &trouble->plugs[trouble->plug_count++];
}

void uro_trouble_calm(struct uro_trouble *trouble)
{
    trouble->link_at = trouble->jump_at = URO_TIME_NEVER;
    if (trouble->down != NULL)
        set_link(trouble, trouble->down, true);
}
