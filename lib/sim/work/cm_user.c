/* SPDX-License-Identifier: BSD-3-Clause */
/* cm_user.c - the turns of a user of connections, and the release of its connection; see cm.h. */
#include "sim/work/cm.h"

#define TRY_WAIT URO_MS(200) /* more each time: others may keep the room for seconds */

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

void sim_cm_rest(struct sim_cm_user *user)
{
    const struct sim_cm *cm = user->cm;
    const struct sim_workload *load = cm->load;

    user->step = SIM_CM_FREE;
    user->due = user->leave_at = URO_TIME_NEVER;
    if (!user->calls || user->served || (!sim_cm_polite(cm) && user->made >= cm->plan->attempts))
        return;
    user->due = load->world->now + uro_rng_below(&user->endpoint.rng, cm->plan->call_wait_max) +
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
    sim_cm_rest(user);
}

/* Limits the stay of a user. If the other side left silently or had a second answer, the user gets no event of the end. The
 * limit allows for sending all data. */
void sim_cm_limit_stay(struct sim_cm_user *user)
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
    user->due =
        waits ? URO_TIME_NEVER
              : now_of(user) + uro_rng_below(&user->endpoint.rng, user->cm->plan->turn_wait_max);
    if (step == SIM_CM_REQUESTED && user->attempt->slow)
        user->due += SIM_PLAN_CM_SLOW;
    if (step == SIM_CM_CONNECTED)
        sim_cm_limit_stay(user);
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
                uro_rng_below(&users[side]->endpoint.rng, users[side]->cm->plan->turn_wait_max) +
                (attempt->stays ? SIM_PLAN_CM_STAY_LONG : 0);
}
