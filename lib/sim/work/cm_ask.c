/* SPDX-License-Identifier: BSD-3-Clause */
/* cm_ask.c - the requests and answers of the users of connections; see cm.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/work/cm.h"
#include "sim/work/workload.h"

#define SERVICE_NOBODYS UINT64_C(0x1064ff0)
#define NOBODYS_ADDRESS 99u /* last byte */
#define RNR_FOREVER     7u
#define HOP_LIMIT       64u
#define READS_MAX       16u
#define RETRY_COUNT                                                                                \
    6u /* 7 may mean no limit, so a user would not detect that the other side is gone */
#define TRIES_MAX  64u /* of the last attempt, which may be turned away */
#define QUERY_QKEY 0x1234u

static uro_time now_of(const struct sim_cm_user *user)
{
    return user->cm->load->world->now;
}

static struct uro_cm *manager_of(const struct sim_cm_user *user)
{
    return uro_engine_cm(user->endpoint.host->engine);
}

/* ---- asking ------------------------------------------------------------------------------------ */

/* Writes private data: a number, then key and address of the user's window. */
static void write_data(struct sim_cm_user *user, struct sim_cm_data *data, uint32_t number,
                       uint32_t room)
{
    uint32_t key =
        user->endpoint.alive ? uro_key_number(&user->endpoint.memory.keys[SIM_MEMORY_WINDOWS]) : 0;
    uint64_t address = user->endpoint.alive
                           ? sim_memory_address(&user->endpoint.memory, SIM_MEMORY_WINDOWS, 0)
                           : 0;

    data->length = sim_world_between(&user->endpoint.rng, SIM_CM_DATA_LEAST, room);
    for (uint32_t i = 0; i < data->length; i++)
        data->octets[i] = (uint8_t)uro_rng_below(&user->endpoint.rng, 256);
    memcpy(data->octets, &number, sizeof number);
    memcpy(data->octets + SIM_CM_DATA_KEY, &key, sizeof key);
    memcpy(data->octets + SIM_CM_DATA_ADDRESS, &address, sizeof address);
}

static void draw_messages(struct sim_cm *cm, struct sim_cm_attempt *attempt)
{
    for (unsigned side = 0; side < 2; side++) {
        attempt->message_count[side] = uro_rng_below(&cm->rng, cm->plan->message_count + 1);
        for (uint32_t i = 0; i < attempt->message_count[side]; i++)
            attempt->messages[side][i] = (struct sim_cm_message){
                .read = uro_rng_below(&cm->rng, 4) == 0,
                .length = uro_rng_below(&cm->rng, cm->plan->message_max + 1),
                .seed = uro_rng_u64(&cm->rng),
            };
    }
}

static void draw_manner(struct sim_cm *cm, struct sim_cm_attempt *attempt)
{
    const struct sim_plan_cm *plan = cm->plan;

    attempt->retries = plan->retries;
    attempt->response_timeout = plan->response_timeout;
    attempt->patient = attempt->polite || sim_world_chance(&cm->rng, plan->patient_probability);
    if (!attempt->patient)
        return;
    attempt->stays = uro_rng_below(&cm->rng, 4) == 0;
    if (attempt->polite && uro_rng_below(&cm->rng, 2) == 0)
        return;
    attempt->retries = SIM_PLAN_CM_PATIENT_RETRIES;
    attempt->response_timeout = SIM_PLAN_CM_PATIENT_TIMEOUT;
    attempt->slow = !attempt->query && sim_world_chance(&cm->rng, plan->slow_probability);
}

static struct sim_cm_attempt *new_attempt(struct sim_cm_user *user)
{
    struct sim_cm *cm = user->cm;
    const struct sim_plan_cm *plan = cm->plan;
    struct sim_cm_attempt *attempt = calloc(1, sizeof *attempt);

    cm->attempts = realloc(cm->attempts, (cm->attempt_count + 1) * sizeof(void *));
    URO_ASSERT(attempt != NULL && cm->attempts != NULL);
    attempt->number = cm->attempt_count;
    cm->attempts[cm->attempt_count++] = attempt;
    attempt->from = attempt->to = user->endpoint.side;
    if (!sim_world_chance(&cm->rng, plan->self_probability))
        attempt->to = !user->endpoint.side;
    attempt->unheard = sim_cm_unheard(cm, attempt->to);
    attempt->polite = sim_cm_polite(cm);
    attempt->query = sim_world_chance(&cm->rng, plan->query_probability);
    attempt->nobody = !attempt->polite && sim_world_chance(&cm->rng, plan->nobody_probability);
    attempt->absent = !attempt->polite && sim_world_chance(&cm->rng, plan->absent_probability);
    draw_manner(cm, attempt);
    attempt->answer = SIM_CM_NONE;
    attempt->caller = user;
    attempt->leavers = sim_world_between(&cm->rng, 1, 3);
    attempt->seed = uro_rng_u64(&cm->rng);
    attempt->responder_resources = (uint8_t)uro_rng_below(&cm->rng, READS_MAX + 1);
    attempt->initiator_depth = (uint8_t)uro_rng_below(&cm->rng, READS_MAX + 1);
    draw_messages(cm, attempt);
    return attempt;
}

/* Returns when the user leaves early; NEVER: when all is done. */
static uro_time departure(struct sim_cm_user *user)
{
    const struct sim_plan_cm *plan = user->cm->plan;
    bool leaves =
        !user->attempt->patient && sim_world_chance(&user->endpoint.rng, plan->leave_probability);

    return leaves ? now_of(user) + URO_US(uro_rng_below(&user->endpoint.rng, plan->stay_max))
                  : URO_TIME_NEVER;
}

void sim_cm_ask_begin(struct sim_cm_user *user, struct sim_cm_attempt *attempt,
                      struct uro_conn *conn)
{
    user->attempt = attempt;
    user->conn = conn;
    user->heard = 0;
    user->answer = SIM_CM_NONE;
    user->leave_at = departure(user);
}

static int ask(struct sim_cm_user *user, struct uro_conn **conn)
{
    struct sim_cm_attempt *attempt = user->attempt;
    const struct sim_plan_cm *plan = user->cm->plan;
    const struct uro_engine_config *here = &user->endpoint.host->config.engine;
    const struct uro_engine_config *there = &user->cm->load->hosts[attempt->to]->config.engine;
    unsigned index = plan->v6 ? 0 : 1;
    struct uro_gid remote = there->addresses[index].gid;
    if (attempt->absent)
        remote.octets[sizeof remote.octets - 1] = NOBODYS_ADDRESS;
    const struct uro_conn_target target = {
        .route = { .local = here->addresses[index].gid,
                   .remote = remote,
                   .sgid_index = (uint8_t)index,
                   .hop_limit = HOP_LIMIT },
        .service_id = attempt->nobody ? SERVICE_NOBODYS
                                      : sim_cm_service(user->cm->load->number) + attempt->query,
        .path_mtu = uro_conn_mtu_code(plan->path_mtu),
        .ack_timeout = plan->ack_timeout,
        .response_timeout = attempt->response_timeout,
        .retries = attempt->retries,
        .user = user,
    };
    struct uro_conn_param param = { .type = attempt->query ? URO_QPT_UD : URO_QPT_RC,
                                    .qpn = attempt->qpn,
                                    .responder_resources = attempt->responder_resources,
                                    .initiator_depth = attempt->initiator_depth,
                                    .retry_count = RETRY_COUNT,
                                    .rnr_retry_count = RNR_FOREVER };

    param.data_length = attempt->data.length;
    memcpy(param.data, attempt->data.octets, attempt->data.length);
    return uro_conn_connect(manager_of(user), &target, &param, now_of(user), conn);
}

/* Counts the connections that are in use; the others may be reused. */
static uint32_t owned(const struct sim_cm_user *user)
{
    const struct sim_host_work *at_host = user->cm->load->at_hosts[user->endpoint.side];
    uint32_t count = 0;

    for (uint32_t i = 0; i < at_host->tie_count; i++)
        count += sim_cm_owned(at_host->ties[i].load->cm, at_host->ties[i].side);
    return count;
}

static void call(struct sim_cm_user *user)
{
    struct sim_cm_attempt *attempt = new_attempt(user);
    struct uro_conn *conn = NULL;

    user->made++;
    user->tries += attempt->polite;
    if (user->tries > TRIES_MAX)
        sim_cm_fail(user, "found no room again and again");
    sim_cm_ask_begin(user, attempt, NULL);
    if (!attempt->query) {
        sim_cm_qp_make(user);
        attempt->qpn = user->endpoint.qpn;
    }
    write_data(user, &attempt->data, attempt->number,
               uro_cm_data_room(attempt->query ? URO_CM_SIDR_REQ : URO_CM_REQ));
    bool full = owned(user) == manager_of(user)->config.connections;
    int result = ask(user, &conn);
    sim_cm_note(user, result == 0 ? "asks" : "finds no room to ask");
    if (result != (full ? -ENOMEM : 0))
        sim_cm_fail(user, "was told that there is room, or none, wrongly");
    if (result != 0) {
        sim_cm_let_go(user);
        return;
    }
    user->conn = conn;
    attempt->tid = conn->tid;
    attempt->psn = conn->local_psn;
    sim_cm_turn(user, SIM_CM_ASKED);
}

/* ---- answering --------------------------------------------------------------------------------- */

static void answer(struct sim_cm_user *user)
{
    struct sim_cm_attempt *attempt = user->attempt;
    const struct uro_conn_param *asked = &user->conn->peer;
    struct sim_cm_answer *said = &attempt->answers[attempt->answer_count];
    const uint32_t reads = uro_rng_below(&user->endpoint.rng, READS_MAX + 1);
    int result;

    if (attempt->answer_count == SIM_CM_ANSWERS_MAX) {
        sim_cm_let_go(user);
        return;
    }
    user->answer = attempt->answer_count++;
    *said = (struct sim_cm_answer){
        .rejects = !attempt->patient &&
                   sim_world_chance(&user->endpoint.rng, user->cm->plan->reject_probability),
        .qpn = uro_rng_u32(&user->endpoint.rng) & 0xffffff,
        .qkey = attempt->query ? QUERY_QKEY + user->answer : 0,
        .psn = user->conn->local_psn,
        .responder_resources =
            (uint8_t)(reads < asked->initiator_depth ? reads : asked->initiator_depth),
        .initiator_depth =
            (uint8_t)(reads < asked->responder_resources ? reads : asked->responder_resources),
    };
    if (!said->rejects && !attempt->query) {
        sim_cm_qp_make(user);
        said->qpn = user->endpoint.qpn;
    }
    enum uro_cm_kind kind = attempt->query ? URO_CM_SIDR_REP : URO_CM_REP;
    if (said->rejects && !attempt->query)
        kind = URO_CM_REJ;
    write_data(user, &said->data, user->answer, uro_cm_data_room(kind));
    sim_cm_note(user, said->rejects ? "rejects" : "accepts");
    if (said->rejects) {
        result = uro_conn_reject(user->conn, URO_CONN_REJ_CONSUMER, said->data.octets,
                                 said->data.length, now_of(user));
    } else {
        struct uro_conn_param param = { .type = user->conn->local.type,
                                        .qpn = said->qpn,
                                        .qkey = said->qkey,
                                        .responder_resources = said->responder_resources,
                                        .initiator_depth = said->initiator_depth,
                                        .rnr_retry_count = RNR_FOREVER,
                                        .data_length = said->data.length };
        memcpy(param.data, said->data.octets, said->data.length);
        if (!attempt->query)
            sim_cm_qp_connect(user, said);
        result = uro_conn_accept(user->conn, &param, now_of(user));
    }
    if (result != 0)
        sim_cm_fail(user, "an answer that fits the state was refused");
    sim_cm_turn(user, said->rejects || attempt->query ? SIM_CM_ENDED : SIM_CM_ANSWERED);
}

static void confirm(struct sim_cm_user *user)
{
    struct sim_cm_attempt *attempt = user->attempt;
    bool rejects = !attempt->patient &&
                   sim_world_chance(&user->endpoint.rng, user->cm->plan->reject_probability);
    int result;

    sim_cm_note(user, rejects ? "rejects the answer" : "confirms");
    if (rejects) {
        result = uro_conn_reject(user->conn, URO_CONN_REJ_CONSUMER, NULL, 0, now_of(user));
        sim_cm_turn(user, SIM_CM_ENDED);
    } else {
        sim_cm_qp_connect(user, NULL);
        attempt->answer = user->answer;
        result = uro_conn_confirm(user->conn, now_of(user));
        sim_cm_turn(user, SIM_CM_CONNECTED);
        sim_cm_on_progress(attempt);
    }
    if (result != 0)
        sim_cm_fail(user, "an answer that fits the state was refused");
}

/* ---- leaving ----------------------------------------------------------------------------------- */

static void disconnect(struct sim_cm_user *user)
{
    sim_cm_note(user, "disconnects");
    user->attempt->left = true;
    if (uro_conn_disconnect(user->conn, now_of(user)) != 0)
        sim_cm_fail(user, "could not disconnect");
    sim_cm_turn(user, SIM_CM_LEAVING);
}

void sim_cm_ask_leave(struct sim_cm_user *user)
{
    user->leave_at = URO_TIME_NEVER;
    if (user->step == SIM_CM_CONNECTED && uro_rng_below(&user->endpoint.rng, 2) == 0)
        disconnect(user);
    else
        sim_cm_let_go(user);
}

void sim_cm_ask_turn(struct sim_cm_user *user)
{
    user->due = URO_TIME_NEVER;
    switch (user->step) {
    case SIM_CM_FREE:
        call(user);
        break;
    case SIM_CM_RESPONDED:
        confirm(user);
        break;
    case SIM_CM_REQUESTED:
        answer(user);
        break;
    case SIM_CM_CONNECTED:
        disconnect(user);
        break;
    case SIM_CM_ENDED:
        sim_cm_let_go(user);
        break;
    case SIM_CM_ASKED:
    case SIM_CM_ANSWERED:
    case SIM_CM_LEAVING:
        break;
    }
}
