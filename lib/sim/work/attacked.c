/* SPDX-License-Identifier: BSD-3-Clause */
/* attacked.c - see attacked.h for the contract. */
#include "sim/work/attacked.h"

#include <stdlib.h>
#include <string.h>

#include "wire/frame.h"

#define SIZE         (SIM_ATTACKED_GUARD + SIM_ATTACKED_RANGES * (SIM_ATTACKED_RANGE + SIM_ATTACKED_GUARD))
#define SECRET       0xa5u /* bytes that a host may never send */
#define SENT         0x11u
#define ADDRESS      UINT64_C(0xa00000000000)
#define ADDRESS_STEP UINT64_C(0x10000000000)
#define PD           (SIM_WORKLOAD_PDS - 4u) /* of a workload; for two endpoints, and a third domain */
#define LIFE_MAX     URO_US(5000)
#define POST_MAX     URO_US(100)
#define ANSWER_MAX   URO_MS(100)
#define LOOK_WAIT    URO_US(50)
#define TIME_MAX     URO_MS(12) /* of the whole attack: each frame costs time */

static const uint32_t access_of[SIM_ATTACKED_RANGES] = {
    [SIM_ATTACKED_TAKEN] = URO_ACCESS_LOCAL_WRITE,
    [SIM_ATTACKED_OPEN] = URO_ACCESS_LOCAL_WRITE | SIM_ATTACKED_ACCESS,
    [SIM_ATTACKED_SHOWN] = URO_ACCESS_REMOTE_READ,
    [SIM_ATTACKED_FILLED] = URO_ACCESS_LOCAL_WRITE | URO_ACCESS_REMOTE_WRITE,
    [SIM_ATTACKED_FOREIGN] = URO_ACCESS_LOCAL_WRITE | SIM_ATTACKED_ACCESS,
    [SIM_ATTACKED_GONE] = URO_ACCESS_LOCAL_WRITE | SIM_ATTACKED_ACCESS,
};

static bool may_change(uint32_t range)
{
    return range == SIM_ATTACKED_TAKEN || range == SIM_ATTACKED_OPEN ||
           range == SIM_ATTACKED_FILLED;
}

/* ---- memory ------------------------------------------------------------------------------------ */

static void make_memory(struct sim_attacked_end *end, unsigned side)
{
    end->base = ADDRESS + side * ADDRESS_STEP;
    end->memory = malloc(SIZE);
    end->before = malloc(SIZE);
    end->after = malloc(SIZE);
    URO_ASSERT(end->memory != NULL && end->before != NULL && end->after != NULL);
    memset(end->memory, SECRET, SIZE);
    for (uint32_t i = 0; i <= SIM_ATTACKED_SHOWN; i++)
        memset(end->memory + sim_attacked_offset(i), (int)(SENT + i), SIM_ATTACKED_RANGE);
    memcpy(end->before, end->memory, SIZE);
}

static void register_all(struct sim_attacked_end *end)
{
    uint32_t pd = end->attacked->load->pds + PD + (end == &end->attacked->ends[1]);

    for (uint32_t i = 0; i < SIM_ATTACKED_RANGES; i++) {
        end->keys[i] = (struct uro_key){ .pd = i == SIM_ATTACKED_FOREIGN ? pd + 2 : pd,
                                         .access = access_of[i],
                                         .base = sim_attacked_address(end, i),
                                         .length = SIM_ATTACKED_RANGE,
                                         .memory = end->memory + sim_attacked_offset(i) };
        uro_key_register(sim_endpoint_shard(&end->endpoint), &end->keys[i]);
    }
    (void)uro_key_deregister(sim_endpoint_shard(&end->endpoint), &end->keys[SIM_ATTACKED_GONE]);
}

static void check_part(const struct sim_attacked_end *end, uint32_t from, uint32_t to)
{
    if (memcmp(end->memory + from, end->before + from, to - from) == 0)
        return;
    while (end->memory[from] == end->before[from])
        from++;
    sim_world_fail(end->endpoint.host->world,
                   "octet %u of the victim at %c changed, which nobody may write", from,
                   end->endpoint.host->config.name);
}

static void check_memory(const struct sim_attacked_end *end)
{
    uint32_t from = 0;

    for (uint32_t range = 0; range < SIM_ATTACKED_RANGES; range++) {
        if (!may_change(range))
            continue;
        check_part(end, from, sim_attacked_offset(range));
        from = sim_attacked_offset(range) + SIM_ATTACKED_RANGE;
    }
    check_part(end, from, SIZE);
}

static void deregister_all(struct sim_attacked_end *end)
{
    for (uint32_t i = 0; i < SIM_ATTACKED_GONE; i++)
        (void)uro_key_deregister(sim_endpoint_shard(&end->endpoint), &end->keys[i]);
    check_memory(end);
    memcpy(end->after, end->memory, SIZE);
}

/* ---- lives ------------------------------------------------------------------------------------- */

static void begin_life(struct sim_attacked *attacked)
{
    for (unsigned i = 0; i < 2; i++) {
        struct sim_attacked_end *end = &attacked->ends[i];
        register_all(end);
        sim_attacked_make_qp(end);
        end->heard[URO_REQUEST] = end->heard[URO_RESPONSE] =
            uro_rng_below(&attacked->rng, 1u << 24);
    }
    for (unsigned i = 0; i < 2; i++)
        sim_attacked_connect(&attacked->ends[i]);
    attacked->failed = false;
    attacked->end_at = attacked->load->world->now + uro_rng_below(&attacked->rng, LIFE_MAX);
}

static void end_life(struct sim_attacked *attacked)
{
    for (unsigned i = 0; i < 2; i++) {
        sim_attacked_destroy(&attacked->ends[i]);
        deregister_all(&attacked->ends[i]);
    }
}

/* ---- who is asked when ------------------------------------------------------------------------- */

static void on_event(struct sim_endpoint *endpoint, enum uro_event_kind kind)
{
    struct sim_attacked_end *end = URO_CONTAINER_OF(endpoint, struct sim_attacked_end, endpoint);

    bool fails =
        kind == URO_EVENT_QP_FATAL || (kind != URO_EVENT_COMM_EST && sim_attacked_loose(end));

    if (end->endpoint.qp == NULL || fails)
        sim_world_fail(end->endpoint.host->world, "the victim at %c: event %d out of place",
                       end->endpoint.host->config.name, (int)kind);
    end->attacked->failed |= kind == URO_EVENT_QP_REQ_ERR || kind == URO_EVENT_QP_ACCESS_ERR;
}

/* ---- after the attack ---------------------------------------------------------------------------- */

static bool is_attacked(const struct sim_attacked *attacked)
{
    return !attacked->load->calm && attacked->load->world->now <= SIM_PLAN_START + TIME_MAX;
}

/* Returns whether the queue pairs rest until faults have stopped. */
static bool rests(const struct sim_attacked *attacked)
{
    const struct sim_attacked_end *end = &attacked->ends[0];

    return end->endpoint.qp != NULL && sim_attacked_loose(end) && !is_attacked(attacked);
}

static uro_time ask_at(const struct sim_attacked *attacked)
{
    return attacked->asked ? attacked->due : attacked->load->calm_since + SIM_LIFE_NEIGHBOUR_WAIT;
}

/* Sends one more message after the attack. Wrong state after the attack would change or lose this message. */
static void ask(struct sim_attacked *attacked)
{
    uro_time now = attacked->load->world->now;
    uro_time most = 2 * sim_plan_flight_max(attacked->load->plan) + ANSWER_MAX;

    for (unsigned i = 0; i < 2 && !attacked->asked; i++)
        sim_attacked_ask(&attacked->ends[i]);
    if (!attacked->asked)
        attacked->asked_at = now;
    attacked->asked = true;
    attacked->due = now + LOOK_WAIT;
    attacked->over = !attacked->ends[0].awaits && !attacked->ends[1].awaits;
    if (attacked->over)
        end_life(attacked);
    else if (now > attacked->asked_at + most)
        sim_world_fail(attacked->load->world, "%c and %c: a message after an attack did not come",
                       attacked->ends[0].endpoint.host->config.name,
                       attacked->ends[1].endpoint.host->config.name);
}

static uro_time poster_next(const struct sim_node *node)
{
    const struct sim_attacked *attacked = URO_CONTAINER_OF(node, struct sim_attacked, poster);

    if (attacked->over)
        return URO_TIME_NEVER;
    if (rests(attacked))
        return attacked->load->calm ? ask_at(attacked) : URO_TIME_NEVER;
    return attacked->load->calm ? 0 : attacked->due;
}

static void poster_run(struct sim_node *node)
{
    struct sim_attacked *attacked = URO_CONTAINER_OF(node, struct sim_attacked, poster);
    uro_time now = attacked->load->world->now;
    bool alive = attacked->ends[0].endpoint.qp != NULL;

    if (rests(attacked)) {
        if (ask_at(attacked) <= now && attacked->load->calm)
            ask(attacked);
        return;
    }
    attacked->over = attacked->load->calm || now > SIM_PLAN_START + TIME_MAX;
    attacked->due = now + uro_rng_below(&attacked->rng, POST_MAX);
    if (alive && (attacked->over || attacked->failed || now >= attacked->end_at)) {
        end_life(attacked);
        return;
    }
    if (attacked->over)
        return;
    if (!alive)
        begin_life(attacked);
    for (unsigned i = 0; i < 2; i++)
        sim_attacked_post(&attacked->ends[i]);
}

static uro_time forger_next(const struct sim_node *node)
{
    const struct sim_attacked *attacked = URO_CONTAINER_OF(node, struct sim_attacked, forger);
    bool alive = attacked->ends[0].endpoint.qp != NULL && !attacked->load->calm && !rests(attacked);

    return alive ? attacked->forge_at : URO_TIME_NEVER;
}

static void forger_run(struct sim_node *node)
{
    struct sim_attacked *attacked = URO_CONTAINER_OF(node, struct sim_attacked, forger);

    sim_attacked_forge(attacked);
    attacked->forge_at = attacked->load->world->now +
                         URO_US(1 + uro_rng_below(&attacked->rng, attacked->plan->wait_max));
}

bool sim_attacked_wire(struct sim_attacked *attacked, const struct sim_host *host,
                       const struct uro_frame *frame)
{
    for (unsigned i = 0; attacked != NULL && i < 2; i++) {
        struct sim_attacked_end *end = &attacked->ends[i];
        if (end->endpoint.qp == NULL || end->peer->endpoint.host != host ||
            uro_qp_number(end->endpoint.qp) != frame->bth.dest_qpn)
            continue;
        end->heard[frame->op->role] = frame->bth.psn;
        sim_attacked_remember(attacked, end, frame);
        return true;
    }
    return false;
}

static void init_endpoint(struct sim_attacked_end *end, struct sim_workload *load, unsigned side)
{
    static const struct sim_endpoint_ops ops = { .family = "victim",
                                                 .judge = sim_attacked_judge,
                                                 .on_event = on_event };
    struct sim_endpoint *endpoint = &end->endpoint;
    enum uro_qp_type type = end->attacked->plan->type;

    endpoint->ops = &ops;
    endpoint->load = load;
    endpoint->side = side;
    endpoint->host = load->hosts[side];
    endpoint->type = type == URO_QPT_XRC_INI && side == 1 ? URO_QPT_XRC_TGT : type;
    sim_endpoint_init(endpoint);
    sim_cq_init(&endpoint->cq, load, endpoint->host, SIM_ATTACKED_SENDS + SIM_ATTACKED_RECVS);
}

struct sim_attacked *sim_attacked_make(struct sim_workload *load)
{
    const struct sim_plan_attacked *plan = &load->plan->attacked;
    struct sim_attacked *attacked;

    if (plan->wait_max == 0)
        return NULL;
    attacked = aligned_alloc(_Alignof(struct sim_attacked), sizeof *attacked);
    URO_ASSERT(attacked != NULL);
    memset(attacked, 0, sizeof *attacked);
    attacked->load = load;
    attacked->plan = plan;
    attacked->due = attacked->forge_at = load->world->now;
    uro_rng_init_number(&attacked->rng, plan->seed);
    attacked->poster = (struct sim_node){ NULL, poster_next, poster_run };
    attacked->forger = (struct sim_node){ NULL, forger_next, forger_run };
    for (unsigned side = 0; side < 2; side++) {
        struct sim_attacked_end *end = &attacked->ends[side];
        end->attacked = attacked;
        end->peer = &attacked->ends[!side];
        init_endpoint(end, load, side);
        make_memory(end, side);
    }
    sim_world_add(load->world, &attacked->poster);
    sim_world_add(load->world, &attacked->forger);
    return attacked;
}

void sim_attacked_check(struct sim_attacked *attacked)
{
    for (unsigned i = 0; attacked != NULL && i < 2; i++)
        if (memcmp(attacked->ends[i].memory, attacked->ends[i].after, SIZE) != 0)
            sim_world_fail(attacked->load->world,
                           "memory of a victim changed after it was deregistered");
}

void sim_attacked_free(struct sim_attacked *attacked)
{
    for (unsigned i = 0; attacked != NULL && i < 2; i++) {
        struct sim_attacked_end *end = &attacked->ends[i];
        free(end->srq_slots);
        free(end->memory);
        free(end->before);
        free(end->after);
        sim_endpoint_fini(&end->endpoint);
    }
    free(attacked);
}
