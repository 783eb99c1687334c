/* SPDX-License-Identifier: BSD-3-Clause */
/* cm_user.c - a simulated program that connects with CM messages: the steps of the program, and the
 * endpoint of its connection; see cm.h. */
#include "sim/work/cm.h"

#include <stdlib.h>

#define NUMBER_FIRST                                                                               \
    512u               /* number of the first endpoint; RC connections have the smaller numbers */
#define PD_FIRST 4000u /* first protection domain of the CM users of a workload */
#define PORT     1u
/* Wait before a repeated attempt, for each attempt before it: other users may use all connections
 * of the engine for seconds. */
#define TRY_WAIT URO_MS(200)

static int attempt_number(const struct sim_cm_user *user)
{
    return user->attempt != NULL ? (int)user->attempt->number : -1;
}

void sim_cm_fail(const struct sim_cm_user *user, const char *problem)
{
    sim_world_fail(user->cm->workload->world, "CM %s %u of %c, attempt %d: %s",
                   user->calls ? "caller" : "server", user->number, sim_cm_host(user)->config.name,
                   attempt_number(user), problem);
}

void sim_cm_note(const struct sim_cm_user *user, const char *problem)
{
    struct sim_world *world = user->cm->workload->world;

    sim_world_note(world, "CM %s %u of %c, attempt %d: %s", user->calls ? "caller" : "server",
                   user->number, sim_cm_host(user)->config.name, attempt_number(user), problem);
}

bool sim_cm_without_faults(const struct sim_cm *cm)
{
    return cm->workload->calm || cm->workload->plan->clean;
}

uint64_t sim_cm_dropped(const struct sim_cm *cm, unsigned side)
{
    return sim_host_count(cm->workload->hosts[side], URO_COUNT_CM_DROP_BUSY);
}

bool sim_cm_crowded(const struct sim_cm *cm, const struct sim_cm_attempt *attempt)
{
    return sim_cm_dropped(cm, attempt->to) != attempt->dropped;
}

bool sim_cm_sure(const struct sim_cm *cm, const struct sim_cm_attempt *attempt)
{
    bool late = attempt->requests > 0 ? attempt->late : sim_cm_crowded(cm, attempt);

    return attempt->patient && attempt->requests < 2 && attempt->refusals == 0 && !late;
}

/* ---- the endpoint ---- */

void sim_cm_make_end(struct sim_cm_user *user)
{
    struct sim_cm *cm = user->cm;
    struct sim_cm_endpoint *own = calloc(1, sizeof *own);
    const struct uroce_qp_attr attr = { .state = UROCE_INIT,
                                        .port = PORT,
                                        .access = SIM_ACCESS_REMOTE };

    URO_ASSERT(own != NULL);
    user->own = own;
    own->user = user;
    own->next = cm->endpoints;
    cm->endpoints = own;
    own->life = (struct sim_life){ .workload = cm->workload,
                                   .plan = &cm->pair,
                                   .number = user->attempt->number,
                                   .count = 1,
                                   .last_life = true,
                                   .life = user->lives++ };
    struct sim_endpoint *end = &own->life.ends[0];
    end->ops = &cm->ops;
    end->life = &own->life;
    end->workload = cm->workload;
    end->plan = &cm->pair.ends[0];
    end->side = user->side;
    end->host = sim_cm_host(user);
    end->type = UROCE_RC;
    end->number = NUMBER_FIRST + user->number;
    end->pd = sim_host_pd(end->host, cm->workload->pds + PD_FIRST + user->number);
    end->rc = calloc(1, sizeof *end->rc);
    URO_ASSERT(end->rc != NULL);
    uro_rng_init_number(&end->rng, uro_rng_u64(&user->rng));
    sim_endpoint_init(end);
    sim_life_begin_endpoint(end);
    end->sends_left = 0; /* nothing is sent until the endpoint is connected */
    end->alive = true;
    sim_endpoint_modify(end, &attr, UROCE_ATTR_PKEY_INDEX | UROCE_ATTR_PORT | UROCE_ATTR_ACCESS);
}

/* Moves the queue pair to RTS with the attributes of the connection. A server uses the depths of
 * its answer instead, as in librdmacm. */
void sim_cm_connect_end(struct sim_cm_user *user, const struct uroce_conn_param *own_answer)
{
    struct sim_endpoint *end = sim_cm_end(user);
    struct uroce_qp_attr attr;
    unsigned mask = 0;

    if (uroce_conn_attr(user->conn, UROCE_RTR, &attr, &mask) != 0)
        sim_cm_fail(user, "finds no attributes for RTR");
    if (own_answer != NULL)
        attr.max_dest_rd_atomic = own_answer->responder_resources;
    sim_endpoint_modify(end, &attr, mask);
    if (uroce_conn_attr(user->conn, UROCE_RTS, &attr, &mask) != 0)
        sim_cm_fail(user, "finds no attributes for RTS");
    if (own_answer != NULL)
        attr.max_rd_atomic = own_answer->initiator_depth;
    end->wire_psn = end->rc->psn = attr.sq_psn;
    if (attr.max_rd_atomic == 0)
        end->plan = &user->cm->pair.ends[1];
    sim_endpoint_modify(end, &attr, mask);
}

static void destroy_end(struct sim_cm_user *user)
{
    struct sim_endpoint *end = sim_cm_end(user);

    if (end == NULL)
        return;
    sim_endpoint_stop(end, false);
    end->ops->check_memory(end);
    end->ops->bury(end);
    sim_endpoint_unlist(end);
    user->own->user = NULL;
    user->own = NULL;
    user->cm->workload->lives_begun++;
}

bool sim_cm_worked(const struct sim_cm_user *user)
{
    const struct sim_endpoint *end = sim_cm_end(user);

    return end != NULL && end->peer != NULL && end->ops->worked(end) && end->ops->worked(end->peer);
}

/* ---- steps ---- */

void sim_cm_rest(struct sim_cm_user *user)
{
    const struct sim_cm *cm = user->cm;
    const struct sim_workload *workload = cm->workload;

    user->step = SIM_CM_FREE;
    user->due = user->leave_at = URO_TIME_NEVER;
    if (!user->calls || user->served ||
        (!sim_cm_without_faults(cm) && user->made >= cm->plan->attempts))
        return;
    user->due = workload->world->now + uro_rng_below(&user->rng, cm->plan->call_wait_max) +
                user->tries * TRY_WAIT;
    if (workload->calm && user->due < workload->calm_since + SIM_LIFE_NEIGHBOUR_WAIT)
        user->due += SIM_LIFE_NEIGHBOUR_WAIT;
}

void sim_cm_begin(struct sim_cm_user *user, struct sim_cm_attempt *attempt, struct uroce_conn *conn)
{
    const struct sim_plan_cm *plan = user->cm->plan;

    user->attempt = attempt;
    user->conn = conn;
    user->seen = 0;
    user->answer = SIM_CM_NONE;
    user->leave_at = URO_TIME_NEVER;
    if (!attempt->patient && sim_world_chance(&user->rng, plan->leave_probability))
        user->leave_at = sim_cm_now(user) + URO_US(uro_rng_below(&user->rng, plan->stay_max));
}

/* Sets the time at which a user leaves its connection in any case. If the other side left without a
 * message, or sent a second answer, the user gets no event at the end of the connection. The time
 * suffices to send all data. */
void sim_cm_limit_time(struct sim_cm_user *user)
{
    const struct sim_plan_cm *plan = user->cm->plan;
    const uro_time flight = sim_plan_flight_max(user->cm->workload->plan);

    if (user->cm->workload->calm && !sim_cm_sure(user->cm, user->attempt))
        user->leave_at =
            sim_cm_now(user) + URO_US(plan->stay_max) + plan->message_count * 4 * flight;
}

void sim_cm_enter(struct sim_cm_user *user, enum sim_cm_step step)
{
    bool waits = step == SIM_CM_REQ_SENT || step == SIM_CM_ANSWERED || step == SIM_CM_CONNECTED ||
                 step == SIM_CM_LEAVING;
    bool over = step == SIM_CM_LEAVING || step == SIM_CM_ENDED;
    struct sim_endpoint *end = sim_cm_end(user);

    user->step = step;
    user->waiting_since = sim_cm_now(user);
    user->due = waits ? URO_TIME_NEVER
                      : sim_cm_now(user) + uro_rng_below(&user->rng, user->cm->plan->turn_wait_max);
    if (step == SIM_CM_REQUESTED && user->attempt->slow)
        user->due += SIM_PLAN_CM_SLOW;
    if (end != NULL) /* the other side may be gone, or network faults last too long */
        end->life->may_fail = end->life->may_time_out = over || !user->attempt->calm;
    if (step != SIM_CM_CONNECTED)
        return;
    end->sends_left = user->attempt->message_count[!user->calls];
    sim_cm_limit_time(user);
}

void sim_cm_on_progress(struct sim_cm_user *user)
{
    const struct sim_endpoint *end = sim_cm_end(user);
    const struct sim_cm_attempt *attempt = user->attempt;

    if (end == NULL || end->peer == NULL || !sim_cm_worked(user))
        return;
    struct sim_cm_user *users[2] = { user, sim_cm_user(end->peer) };
    for (unsigned i = 0; i < 2; i++)
        if (users[i] == NULL || users[i]->step != SIM_CM_CONNECTED)
            return;
    for (unsigned i = 0; i < 2; i++)
        if (attempt->leavers & (users[i]->calls ? 1u : 2u) && users[i]->due == URO_TIME_NEVER)
            users[i]->due = sim_cm_now(user) +
                            uro_rng_below(&users[i]->rng, user->cm->plan->turn_wait_max) +
                            (attempt->stays ? SIM_PLAN_CM_STAY_LONG : 0);
}

void sim_cm_release(struct sim_cm_user *user)
{
    sim_cm_note(user, "releases its connection");
    if (user->attempt != NULL)
        user->attempt->left = true;
    if (user->conn != NULL)
        (void)!uroce_conn_close(user->conn, sim_cm_now(user));
    user->conn = NULL;
    destroy_end(user);
    user->attempt = NULL;
    sim_cm_rest(user);
}
