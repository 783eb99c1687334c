/* SPDX-License-Identifier: BSD-3-Clause */
/* load_victim.c - see load_victim.h for the contract. */
#include "io/sim/load_victim.h"

#include <stdlib.h>
#include <string.h>

#include "wire/frame.h"

#define GUARD          256u
#define STEP           (URO_LOAD_VICTIM_RANGE + GUARD)
#define SIZE           (GUARD + URO_LOAD_VICTIM_RANGES * STEP)
#define SECRET         0xa5u /* what a station may never send */
#define SENT           0x11u
#define ADDRESS        UINT64_C(0xa00000000000)
#define ADDRESS_STEP   UINT64_C(0x10000000000)
#define PD             (URO_LOAD_PDS - 4u) /* of a load's own; two ends, and the domain of nobody */
#define LIFE_MAX       URO_US(5000)
#define POST_MAX       URO_US(100)
#define NEIGHBOUR_WAIT URO_MS(1500) /* as in load_control.c */
#define ANSWER_MAX     URO_MS(100)
#define LOOK_WAIT      URO_US(50)
#define TIME_MAX       URO_MS(12) /* of it all: each frame takes its time */

static const uint32_t access_of[URO_LOAD_VICTIM_RANGES] = {
    [URO_LOAD_VICTIM_TAKEN] = URO_ACCESS_LOCAL_WRITE,
    [URO_LOAD_VICTIM_OPEN] = URO_ACCESS_LOCAL_WRITE | URO_LOAD_VICTIM_ACCESS,
    [URO_LOAD_VICTIM_SHOWN] = URO_ACCESS_REMOTE_READ,
    [URO_LOAD_VICTIM_FILLED] = URO_ACCESS_LOCAL_WRITE | URO_ACCESS_REMOTE_WRITE,
    [URO_LOAD_VICTIM_FOREIGN] = URO_ACCESS_LOCAL_WRITE | URO_LOAD_VICTIM_ACCESS,
    [URO_LOAD_VICTIM_GONE] = URO_ACCESS_LOCAL_WRITE | URO_LOAD_VICTIM_ACCESS,
};

static uint32_t offset_of(enum uro_load_victim_range range)
{
    return GUARD + range * STEP;
}

uint64_t uro_load_victim_address(const struct uro_load_victim_end *end,
                                 enum uro_load_victim_range range)
{
    return end->base + offset_of(range);
}

static bool may_change(uint32_t range)
{
    return range == URO_LOAD_VICTIM_TAKEN || range == URO_LOAD_VICTIM_OPEN ||
           range == URO_LOAD_VICTIM_FILLED;
}

/* ---- memory ------------------------------------------------------------------------------------ */

static void make_memory(struct uro_load_victim_end *end, unsigned side)
{
    end->base = ADDRESS + side * ADDRESS_STEP;
    end->memory = malloc(SIZE);
    end->before = malloc(SIZE);
    end->after = malloc(SIZE);
    URO_ASSERT(end->memory != NULL && end->before != NULL && end->after != NULL);
    memset(end->memory, SECRET, SIZE);
    for (uint32_t i = 0; i <= URO_LOAD_VICTIM_SHOWN; i++)
        memset(end->memory + offset_of(i), (int)(SENT + i), URO_LOAD_VICTIM_RANGE);
    memcpy(end->before, end->memory, SIZE);
}

static void register_all(struct uro_load_victim_end *end)
{
    uint32_t pd = end->victim->load->pds + PD + (end == &end->victim->ends[1]);

    for (uint32_t i = 0; i < URO_LOAD_VICTIM_RANGES; i++) {
        end->keys[i] = (struct uro_key){ .pd = i == URO_LOAD_VICTIM_FOREIGN ? pd + 2 : pd,
                                         .access = access_of[i],
                                         .base = uro_load_victim_address(end, i),
                                         .length = URO_LOAD_VICTIM_RANGE,
                                         .memory = end->memory + offset_of(i) };
        uro_key_register(uro_load_victim_shard(end), &end->keys[i]);
    }
    (void)uro_key_deregister(uro_load_victim_shard(end), &end->keys[URO_LOAD_VICTIM_GONE]);
}

static void check_part(const struct uro_load_victim_end *end, uint32_t from, uint32_t to)
{
    if (memcmp(end->memory + from, end->before + from, to - from) == 0)
        return;
    while (end->memory[from] == end->before[from])
        from++;
    uro_world_fail(end->station->world,
                   "octet %u of the victim at %c changed, which nobody may write", from,
                   end->station->config.name);
}

static void check_memory(const struct uro_load_victim_end *end)
{
    uint32_t from = 0;

    for (uint32_t range = 0; range < URO_LOAD_VICTIM_RANGES; range++) {
        if (!may_change(range))
            continue;
        check_part(end, from, offset_of(range));
        from = offset_of(range) + URO_LOAD_VICTIM_RANGE;
    }
    check_part(end, from, SIZE);
}

static void deregister_all(struct uro_load_victim_end *end)
{
    for (uint32_t i = 0; i < URO_LOAD_VICTIM_GONE; i++)
        (void)uro_key_deregister(uro_load_victim_shard(end), &end->keys[i]);
    check_memory(end);
    memcpy(end->after, end->memory, SIZE);
}

/* ---- lives ------------------------------------------------------------------------------------- */

static void begin_life(struct uro_load_victim *victim)
{
    for (unsigned i = 0; i < 2; i++) {
        struct uro_load_victim_end *end = &victim->ends[i];
        register_all(end);
        uro_load_victim_make_qp(end);
        end->heard[URO_REQUEST] = end->heard[URO_RESPONSE] = uro_rng_below(&victim->rng, 1u << 24);
    }
    for (unsigned i = 0; i < 2; i++)
        uro_load_victim_connect(&victim->ends[i]);
    victim->failed = false;
    victim->end_at = victim->load->world->now + uro_rng_below(&victim->rng, LIFE_MAX);
}

static void end_life(struct uro_load_victim *victim)
{
    for (unsigned i = 0; i < 2; i++) {
        uro_load_victim_destroy(&victim->ends[i]);
        deregister_all(&victim->ends[i]);
    }
}

/* ---- who is asked when ------------------------------------------------------------------------- */

static void on_event(struct uro_load_owner *owner, enum uro_event_kind kind)
{
    struct uro_load_victim_end *end = URO_CONTAINER_OF(owner, struct uro_load_victim_end, owner);

    bool fails =
        kind == URO_EVENT_QP_FATAL || (kind != URO_EVENT_COMM_EST && uro_load_victim_loose(end));

    if (end->qp == NULL || fails)
        uro_world_fail(end->station->world, "the victim at %c: event %d out of place",
                       end->station->config.name, (int)kind);
    end->victim->failed |= kind == URO_EVENT_QP_REQ_ERR || kind == URO_EVENT_QP_ACCESS_ERR;
}

static const char *problem(const struct uro_load_owner *owner)
{
    const struct uro_load_victim_end *end =
        URO_CONTAINER_OF(owner, struct uro_load_victim_end, owner);

    return end->qp != NULL ? uro_qp_problem(end->qp) : NULL;
}

/* ---- after the attack ---------------------------------------------------------------------------- */

static bool attacked(const struct uro_load_victim *victim)
{
    return !victim->load->calm && victim->load->world->now <= URO_SWARM_START + TIME_MAX;
}

/* Nobody does anything, until all have calmed down. */
static bool rests(const struct uro_load_victim *victim)
{
    const struct uro_load_victim_end *end = &victim->ends[0];

    return end->qp != NULL && uro_load_victim_loose(end) && !attacked(victim);
}

static uro_time ask_at(const struct uro_load_victim *victim)
{
    return victim->asked ? victim->due : victim->load->calm_since + NEIGHBOUR_WAIT;
}

/* What stays half done when an attack has ended would make the next message wrong, or lose it. */
static void ask(struct uro_load_victim *victim)
{
    uro_time now = victim->load->world->now;
    uro_time most = 2 * uro_swarm_flight_max(victim->load->swarm) + ANSWER_MAX;

    for (unsigned i = 0; i < 2 && !victim->asked; i++)
        uro_load_victim_ask(&victim->ends[i]);
    if (!victim->asked)
        victim->asked_at = now;
    victim->asked = true;
    victim->due = now + LOOK_WAIT;
    victim->over = !victim->ends[0].awaits && !victim->ends[1].awaits;
    if (victim->over)
        end_life(victim);
    else if (now > victim->asked_at + most)
        uro_world_fail(victim->load->world, "%c and %c: a message after an attack did not come",
                       victim->ends[0].station->config.name, victim->ends[1].station->config.name);
}

static uro_time poster_next(const struct uro_node *node)
{
    const struct uro_load_victim *victim = URO_CONTAINER_OF(node, struct uro_load_victim, poster);

    if (victim->over)
        return URO_TIME_NEVER;
    if (rests(victim))
        return victim->load->calm ? ask_at(victim) : URO_TIME_NEVER;
    return victim->load->calm ? 0 : victim->due;
}

static void poster_run(struct uro_node *node)
{
    struct uro_load_victim *victim = URO_CONTAINER_OF(node, struct uro_load_victim, poster);
    uro_time now = victim->load->world->now;
    bool alive = victim->ends[0].qp != NULL;

    if (rests(victim)) {
        if (ask_at(victim) <= now && victim->load->calm)
            ask(victim);
        return;
    }
    victim->over = victim->load->calm || now > URO_SWARM_START + TIME_MAX;
    victim->due = now + uro_rng_below(&victim->rng, POST_MAX);
    if (alive && (victim->over || victim->failed || now >= victim->end_at)) {
        end_life(victim);
        return;
    }
    if (victim->over)
        return;
    if (!alive)
        begin_life(victim);
    for (unsigned i = 0; i < 2; i++)
        uro_load_victim_post(&victim->ends[i]);
}

static uro_time forger_next(const struct uro_node *node)
{
    const struct uro_load_victim *victim = URO_CONTAINER_OF(node, struct uro_load_victim, forger);
    bool alive = victim->ends[0].qp != NULL && !victim->load->calm && !rests(victim);

    return alive ? victim->forge_at : URO_TIME_NEVER;
}

static void forger_run(struct uro_node *node)
{
    struct uro_load_victim *victim = URO_CONTAINER_OF(node, struct uro_load_victim, forger);

    uro_load_victim_forge(victim);
    victim->forge_at =
        victim->load->world->now + URO_US(1 + uro_rng_below(&victim->rng, victim->plan->wait_max));
}

bool uro_load_victim_wire(struct uro_load_victim *victim, const struct uro_station *station,
                          const struct uro_frame *frame)
{
    for (unsigned i = 0; victim != NULL && i < 2; i++) {
        struct uro_load_victim_end *end = &victim->ends[i];
        if (end->qp == NULL || end->peer->station != station ||
            uro_qp_number(end->qp) != frame->bth.dest_qpn)
            continue;
        end->heard[frame->op->role] = frame->bth.psn;
        uro_load_victim_remember(victim, end, frame);
        return true;
    }
    return false;
}

struct uro_load_victim *uro_load_victim_make(struct uro_load *load)
{
    const struct uro_swarm_victim *plan = &load->swarm->victim;
    struct uro_load_victim *victim;

    if (plan->wait_max == 0)
        return NULL;
    victim = aligned_alloc(_Alignof(struct uro_load_victim), sizeof *victim);
    URO_ASSERT(victim != NULL);
    memset(victim, 0, sizeof *victim);
    victim->load = load;
    victim->plan = plan;
    victim->due = victim->forge_at = load->world->now;
    uro_rng_init_number(&victim->rng, plan->seed);
    victim->poster = (struct uro_node){ NULL, poster_next, poster_run };
    victim->forger = (struct uro_node){ NULL, forger_next, forger_run };
    for (unsigned side = 0; side < 2; side++) {
        struct uro_load_victim_end *end = &victim->ends[side];
        end->victim = victim;
        end->peer = &victim->ends[!side];
        end->station = load->stations[side];
        end->type = plan->type == URO_QPT_XRC_INI && side == 1 ? URO_QPT_XRC_TGT : plan->type;
        make_memory(end, side);
        uro_load_own(load, &end->owner, end->station, on_event, problem);
        uro_load_poll_init(&end->cq, load, end->station,
                           URO_LOAD_VICTIM_SENDS + URO_LOAD_VICTIM_RECVS);
        end->cq.take = uro_load_victim_take;
        end->cq.owner = end;
    }
    uro_world_add(load->world, &victim->poster);
    uro_world_add(load->world, &victim->forger);
    return victim;
}

void uro_load_victim_check(struct uro_load_victim *victim)
{
    for (unsigned i = 0; victim != NULL && i < 2; i++)
        if (memcmp(victim->ends[i].memory, victim->ends[i].after, SIZE) != 0)
            uro_world_fail(victim->load->world,
                           "memory of a victim changed after it was deregistered");
}

void uro_load_victim_free(struct uro_load_victim *victim)
{
    for (unsigned i = 0; victim != NULL && i < 2; i++) {
        struct uro_load_victim_end *end = &victim->ends[i];
        free(end->qp_memory);
        free(end->srq_slots);
        free(end->memory);
        free(end->before);
        free(end->after);
        uro_load_poll_fini(&end->cq);
    }
    free(victim);
}
