/* SPDX-License-Identifier: BSD-3-Clause */
/* cm.c - the schedule of the users of connections; see cm.h. */
#include "sim/work/cm.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define SERVERS_SPARE 2u

/* ---- nodes ------------------------------------------------------------------------------------- */

static uro_time now_of(const struct sim_cm_user *user)
{
    return user->cm->load->world->now;
}

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
    sim_cm_hear(user->cm->load->at_hosts[user->endpoint.side]);
}

static struct sim_cm_listeners *listener_of(const struct sim_node *node)
{
    return URO_CONTAINER_OF(node, struct sim_cm_listeners, node);
}

static uro_time listener_next(const struct sim_node *node)
{
    return listener_of(node)->due;
}

static void set_open(struct sim_cm_listeners *listener, bool open)
{
    struct sim_world *world = listener->cm->load->world;
    struct uro_cm *manager = uro_engine_cm(listener->cm->load->hosts[listener->side]->engine);

    for (unsigned i = 0; i < 2 && listener->open != open; i++) {
        if (!open)
            uro_conn_unlisten(manager, &listener->services[i]);
        else if (uro_conn_listen(manager, &listener->services[i]) != 0)
            sim_world_fail(world, "a service could not be opened");
    }
    listener->open = open;
    sim_journal_note(world->journal, world->now, "CM services of %c are %s",
                     listener->cm->load->hosts[listener->side]->config.name,
                     open ? "open" : "shut");
}

static void listener_run(struct sim_node *node)
{
    struct sim_cm_listeners *listener = listener_of(node);
    struct sim_cm *cm = listener->cm;

    listener->due = URO_TIME_NEVER;
    set_open(listener, !listener->open || cm->load->calm);
    if (!cm->load->calm && cm->plan->shut_wait_max > 0)
        listener->due =
            cm->load->world->now + URO_US(1 + uro_rng_below(&cm->rng, cm->plan->shut_wait_max));
}

/* ---- all of them ------------------------------------------------------------------------------- */

static void on_event(struct sim_endpoint *endpoint, enum uro_event_kind kind)
{
    if (!endpoint->alive || kind != URO_EVENT_COMM_EST)
        sim_world_fail(endpoint->load->world, "CM qp 0x%06x: event %d out of place", endpoint->qpn,
                       (int)kind);
}

static void judge(struct sim_endpoint *endpoint, const struct uro_cqe *cqe)
{
    struct sim_cm_user *user = URO_CONTAINER_OF(endpoint, struct sim_cm_user, endpoint);

    sim_cm_data_judge(user, cqe);
    sim_cm_on_progress(user->attempt);
    sim_cm_hear(user->cm->load->at_hosts[user->endpoint.side]);
}

static void init_endpoint(struct sim_cm_user *user)
{
    static const struct sim_endpoint_ops ops = { .family = "CM",
                                                 .judge = judge,
                                                 .on_event = on_event };
    struct sim_endpoint *endpoint = &user->endpoint;

    endpoint->ops = &ops;
    endpoint->load = user->cm->load;
    endpoint->type = URO_QPT_RC;
    endpoint->host = endpoint->load->hosts[endpoint->side];
    sim_endpoint_init(endpoint);
}

static void init_user(struct sim_cm *cm, unsigned side, uint32_t i)
{
    struct sim_cm_user *user = &cm->users[side][i];

    user->cm = cm;
    user->endpoint.side = side;
    user->endpoint.number = side * SIM_CM_USERS_MAX + i;
    user->calls = i < cm->plan->callers[side];
    uro_rng_init_number(&user->endpoint.rng, uro_rng_u64(&cm->rng));
    user->node = (struct sim_node){ NULL, user_next, user_run };
    init_endpoint(user);
    sim_cm_rest(user);
    sim_world_add(cm->load->world, &user->node);
}

static void init_listeners(struct sim_cm *cm, unsigned side)
{
    struct sim_cm_listeners *listener = &cm->listeners[side];

    listener->cm = cm;
    listener->side = side;
    listener->due = cm->load->world->now;
    listener->node = (struct sim_node){ NULL, listener_next, listener_run };
    for (unsigned i = 0; i < 2; i++)
        listener->services[i] =
            (struct uro_listener){ .service_id = sim_cm_service(cm->load->number) + i,
                                   .any_address = true,
                                   .backlog = cm->plan->backlog,
                                   .user = listener };
    sim_world_add(cm->load->world, &listener->node);
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
        init_listeners(cm, side);
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
            cm->listeners[side].due = cm->load->world->now;
        for (uint32_t i = 0; i < cm->user_count[side]; i++) {
            struct sim_cm_user *user = &cm->users[side][i];
            if (user->step == SIM_CM_FREE)
                sim_cm_rest(user);
            else if (user->step == SIM_CM_CONNECTED)
                sim_cm_limit_stay(user);
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
        struct sim_cm_listeners *listener = &cm->listeners[side];
        for (unsigned i = 0; i < 2; i++)
            if (listener->services[i].waiting != 0)
                sim_world_fail(cm->load->world, "a service of %c believes that somebody waits",
                               cm->load->hosts[side]->config.name);
        if (listener->open)
            set_open(listener, false);
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
            length =
                snprintf(text + used, room - used,
                         " CM user %u %s, %" PRIu64 " posted %" PRIu64 " done %" PRIu64 " taken;",
                         user->endpoint.number, steps[user->step], user->endpoint.posted,
                         user->endpoint.confirmed, user->endpoint.messages_taken);
            used += length > 0 ? (size_t)length : 0;
        }
    }
    return used;
}
