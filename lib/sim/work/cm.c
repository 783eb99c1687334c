/* SPDX-License-Identifier: BSD-3-Clause */
/* cm.c - when the users of connections act; see cm.h. */
#include "sim/work/cm.h"

#include <stdio.h>
#include <stdlib.h>

#define TRY_WAIT      URO_MS(200) /* more each time: those who have the room may stay for seconds */
#define SERVERS_SPARE 2u

static uro_time now_of(const struct sim_cm_user *user)
{
    return user->cm->load->world->now;
}

bool sim_cm_polite(const struct sim_cm *cm)
{
    return cm->load->calm || cm->load->plan->clean;
}

uint64_t sim_cm_service(uint32_t load)
{
    return SIM_CM_SERVICE + (uint64_t)load * SIM_CM_SERVICES;
}

uint32_t sim_cm_owned(const struct sim_cm *cm, unsigned side)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < cm->user_count[side]; i++)
        count += cm->users[side][i].conn != NULL;
    for (uint32_t i = 0; i < SIM_CM_FORGED_MAX; i++)
        count += cm->forged[side][i] != NULL;
    return count;
}

uint64_t sim_cm_unheard(const struct sim_cm *cm, unsigned side)
{
    return uro_engine_counters(cm->load->hosts[side]->engine)->value[URO_COUNT_CM_DROP_BUSY];
}

bool sim_cm_crowded(const struct sim_cm *cm, const struct sim_cm_attempt *attempt)
{
    return sim_cm_unheard(cm, attempt->to) != attempt->unheard;
}

bool sim_cm_sure(const struct sim_cm *cm, const struct sim_cm_attempt *attempt)
{
    bool late = attempt->requests > 0 ? attempt->late : sim_cm_crowded(cm, attempt);

    return attempt->patient && attempt->requests < 2 && attempt->refusals == 0 && !late;
}

void sim_cm_fail(const struct sim_cm_user *user, const char *what)
{
    sim_world_fail(user->cm->load->world, "CM %s %u of %c, attempt %d: %s",
                   user->calls ? "caller" : "server", user->number,
                   user->endpoint.host->config.name,
                   user->attempt != NULL ? (int)user->attempt->number : -1, what);
}

void sim_cm_note(const struct sim_cm_user *user, const char *what)
{
    struct sim_world *world = user->cm->load->world;

    sim_journal_note(world->journal, world->now, "CM %s %u of %c, attempt %d: %s",
                     user->calls ? "caller" : "server", user->number,
                     user->endpoint.host->config.name,
                     user->attempt != NULL ? (int)user->attempt->number : -1, what);
}

/* ---- between connections ----------------------------------------------------------------------- */

static void rest(struct sim_cm_user *user)
{
    const struct sim_cm *cm = user->cm;
    const struct sim_workload *load = cm->load;

    user->step = SIM_CM_FREE;
    user->due = user->leave_at = URO_TIME_NEVER;
    if (!user->calls || user->served || (!sim_cm_polite(cm) && user->made >= cm->plan->attempts))
        return;
    user->due = load->world->now + uro_rng_below(&user->rng, cm->plan->call_wait_max) +
                user->tries * TRY_WAIT;
    if (load->calm && user->due < load->calm_since + SIM_LIFE_NEIGHBOUR_WAIT)
        user->due += SIM_LIFE_NEIGHBOUR_WAIT;
}

void sim_cm_let_go(struct sim_cm_user *user)
{
    sim_cm_note(user, "lets go");
    if (user->attempt != NULL)
        user->attempt->left = true;
    if (user->conn != NULL)
        uro_conn_close(user->conn, now_of(user));
    user->conn = NULL;
    sim_cm_qp_destroy(user);
    if (user->attempt != NULL && user->attempt->caller == user)
        user->attempt->caller = NULL;
    if (user->attempt != NULL && user->attempt->server == user)
        user->attempt->server = NULL;
    user->attempt = NULL;
    rest(user);
}

/* Nobody would ever tell it that the other side is gone, when that left in silence, or had another
 * answer as well. What there is to say can be said before. */
static void limit_stay(struct sim_cm_user *user)
{
    const struct sim_plan_cm *plan = user->cm->plan;
    const uro_time flight = sim_plan_flight_max(user->cm->load->plan);

    if (user->cm->load->calm && !sim_cm_sure(user->cm, user->attempt))
        user->leave_at = now_of(user) + URO_US(plan->stay_max) + plan->message_count * 4 * flight;
}

void sim_cm_turn(struct sim_cm_user *user, enum sim_cm_step step)
{
    bool waits = step == SIM_CM_ASKED || step == SIM_CM_ANSWERED || step == SIM_CM_CONNECTED ||
                 step == SIM_CM_LEAVING;

    user->step = step;
    user->asked_at = now_of(user);
    user->due = waits ? URO_TIME_NEVER
                      : now_of(user) + uro_rng_below(&user->rng, user->cm->plan->turn_wait_max);
    if (step == SIM_CM_REQUESTED && user->attempt->slow)
        user->due += SIM_PLAN_CM_SLOW;
    if (step == SIM_CM_CONNECTED)
        limit_stay(user);
}

static bool did_all(const struct sim_cm_user *user)
{
    return user != NULL && user->step == SIM_CM_CONNECTED && sim_cm_data_done(user);
}

void sim_cm_on_progress(struct sim_cm_attempt *attempt)
{
    struct sim_cm_user *users[2] = { attempt->caller, attempt->server };

    if (!did_all(users[0]) || !did_all(users[1]))
        return;
    for (unsigned side = 0; side < 2; side++)
        if (attempt->leavers & 1u << side && users[side]->due == URO_TIME_NEVER)
            users[side]->due =
                now_of(users[side]) +
                uro_rng_below(&users[side]->rng, users[side]->cm->plan->turn_wait_max) +
                (attempt->stays ? SIM_PLAN_CM_STAY_LONG : 0);
}

/* ---- nodes ------------------------------------------------------------------------------------- */

static struct sim_cm_user *user_of(const struct sim_node *node)
{
    return URO_CONTAINER_OF(node, struct sim_cm_user, node);
}

static uro_time user_next(const struct sim_node *node)
{
    const struct sim_cm_user *user = user_of(node);

    if (sim_cm_data_can_send(user))
        return 0;
    return user->due < user->leave_at ? user->due : user->leave_at;
}

static void user_run(struct sim_node *node)
{
    struct sim_cm_user *user = user_of(node);

    if (user->leave_at <= now_of(user))
        sim_cm_ask_leave(user);
    else if (user->due <= now_of(user))
        sim_cm_ask_turn(user);
    if (sim_cm_data_can_send(user))
        sim_cm_data_send(user);
    sim_cm_hear(user->cm->load->at_hosts[user->side]);
}

static struct sim_cm_house *house_of(const struct sim_node *node)
{
    return URO_CONTAINER_OF(node, struct sim_cm_house, node);
}

static uro_time house_next(const struct sim_node *node)
{
    return house_of(node)->due;
}

static void set_open(struct sim_cm_house *house, bool open)
{
    struct sim_world *world = house->cm->load->world;
    struct uro_cm *manager = uro_engine_cm(house->cm->load->hosts[house->side]->engine);

    for (unsigned i = 0; i < 2 && house->open != open; i++) {
        if (!open)
            uro_conn_unlisten(manager, &house->services[i]);
        else if (uro_conn_listen(manager, &house->services[i]) != 0)
            sim_world_fail(world, "a service could not be opened");
    }
    house->open = open;
    sim_journal_note(world->journal, world->now, "CM services of %c are %s",
                     house->cm->load->hosts[house->side]->config.name, open ? "open" : "shut");
}

static void house_run(struct sim_node *node)
{
    struct sim_cm_house *house = house_of(node);
    struct sim_cm *cm = house->cm;

    house->due = URO_TIME_NEVER;
    set_open(house, !house->open || cm->load->calm);
    if (!cm->load->calm && cm->plan->shut_wait_max > 0)
        house->due =
            cm->load->world->now + URO_US(1 + uro_rng_below(&cm->rng, cm->plan->shut_wait_max));
}

/* ---- all of them ------------------------------------------------------------------------------- */

static void init_user(struct sim_cm *cm, unsigned side, uint32_t i)
{
    struct sim_cm_user *user = &cm->users[side][i];

    user->cm = cm;
    user->side = side;
    user->number = side * SIM_CM_USERS_MAX + i;
    user->calls = i < cm->plan->callers[side];
    uro_rng_init_number(&user->rng, uro_rng_u64(&cm->rng));
    user->node = (struct sim_node){ NULL, user_next, user_run };
    sim_cm_qp_init(user);
    rest(user);
    sim_world_add(cm->load->world, &user->node);
}

static void init_house(struct sim_cm *cm, unsigned side)
{
    struct sim_cm_house *house = &cm->houses[side];

    house->cm = cm;
    house->side = side;
    house->due = cm->load->world->now;
    house->node = (struct sim_node){ NULL, house_next, house_run };
    for (unsigned i = 0; i < 2; i++)
        house->services[i] =
            (struct uro_listener){ .service_id = sim_cm_service(cm->load->number) + i,
                                   .any_address = true,
                                   .backlog = cm->plan->backlog,
                                   .user = house };
    sim_world_add(cm->load->world, &house->node);
}

struct sim_cm *sim_cm_make(struct sim_workload *load)
{
    struct sim_cm *cm = calloc(1, sizeof *cm);
    uint32_t callers = load->plan->cm.callers[0] + load->plan->cm.callers[1];

    URO_ASSERT(cm != NULL);
    cm->load = load;
    cm->plan = &load->plan->cm;
    uro_rng_init_number(&cm->rng, cm->plan->seed);
    for (unsigned side = 0; side < 2 && callers > 0; side++) {
        cm->user_count[side] = cm->plan->callers[side] + callers + SERVERS_SPARE;
        URO_ASSERT(cm->user_count[side] <= SIM_CM_USERS_MAX);
        sim_cq_init(&cm->cqs[side], load, load->hosts[side],
                    2 * SIM_CM_MESSAGES_MAX * SIM_CM_USERS_MAX);
        init_house(cm, side);
        for (uint32_t i = 0; i < cm->user_count[side]; i++)
            init_user(cm, side, i);
    }
    return cm;
}

void sim_cm_free(struct sim_cm *cm)
{
    for (unsigned side = 0; side < 2; side++) {
        for (uint32_t i = 0; i < cm->user_count[side]; i++) {
            sim_endpoint_fini(&cm->users[side][i].endpoint);
        }
        sim_cq_fini(&cm->cqs[side]);
    }
    for (uint32_t i = 0; i < cm->attempt_count; i++)
        free(cm->attempts[i]);
    free(cm->attempts);
    free(cm);
}

void sim_cm_calm(struct sim_cm *cm)
{
    sim_cm_hear_calm(cm);
    for (unsigned side = 0; side < 2; side++) {
        if (cm->user_count[side] > 0)
            cm->houses[side].due = cm->load->world->now;
        for (uint32_t i = 0; i < cm->user_count[side]; i++) {
            struct sim_cm_user *user = &cm->users[side][i];
            if (user->step == SIM_CM_FREE)
                rest(user);
            else if (user->step == SIM_CM_CONNECTED)
                limit_stay(user);
        }
    }
}

bool sim_cm_quiet(const struct sim_cm *cm)
{
    for (unsigned side = 0; side < 2; side++) {
        for (uint32_t i = 0; i < cm->user_count[side]; i++) {
            const struct sim_cm_user *user = &cm->users[side][i];
            if (user->step != SIM_CM_FREE || (user->calls && !user->served))
                return false;
        }
        if (uro_engine_cm(cm->load->hosts[side]->engine)->by_id.count > 0)
            return false;
    }
    return true;
}

void sim_cm_finish(struct sim_cm *cm)
{
    for (unsigned side = 0; side < 2; side++) {
        struct sim_cm_house *house = &cm->houses[side];
        for (unsigned i = 0; i < 2; i++)
            if (house->services[i].waiting != 0)
                sim_world_fail(cm->load->world, "a service of %c believes that somebody waits",
                               cm->load->hosts[side]->config.name);
        if (house->open)
            set_open(house, false);
    }
}

size_t sim_cm_blame(const struct sim_cm *cm, char *text, size_t room)
{
    static const char *const steps[] = { "free",     "asked",     "responded", "requested",
                                         "answered", "connected", "leaving",   "ended" };
    size_t used = 0;

    for (unsigned side = 0; side < 2 && used < room; side++) {
        uint32_t left = uro_engine_cm(cm->load->hosts[side]->engine)->by_id.count;
        int length = 0;
        if (cm->user_count[side] > 0 && left > 0)
            length = snprintf(text + used, room - used, " CM of %c has %u connections;",
                              cm->load->hosts[side]->config.name, left);
        used += length > 0 ? (size_t)length : 0;
        for (uint32_t i = 0; i < cm->user_count[side] && used < room; i++) {
            const struct sim_cm_user *user = &cm->users[side][i];
            if (user->step == SIM_CM_FREE && (!user->calls || user->served))
                continue;
            length = snprintf(text + used, room - used,
                              " CM user %u %s, %u posted %u done %u taken;", user->number,
                              steps[user->step], user->posted, user->confirmed, user->taken);
            used += length > 0 ? (size_t)length : 0;
        }
    }
    return used;
}
