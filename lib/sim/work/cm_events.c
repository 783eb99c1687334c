/* SPDX-License-Identifier: BSD-3-Clause */
/* cm_events.c - checks events and management datagrams against the requests and answers; see cm.h.
 */
#include <string.h>

#include "sim/work/cm.h"

#define SIDR_UNSUPPORTED 1
#define MRA_TIME         URO_MS(65536) /* 4.096 us * 2^24, as Linux counts it */
#define SLACK            URO_MS(2)     /* for hosts that cannot send for a moment */

#define KIND(event) (1u << (event))
#define ENDS        (KIND(URO_CONN_REJECTED) | KIND(URO_CONN_UNREACHABLE) | KIND(URO_CONN_DISCONNECTED))

/* Returns whether the received private data are these bytes, with only zeroes behind them. */
static bool has_data(const struct uro_conn *conn, const uint8_t *data, uint32_t length)
{
    const struct uro_conn_param *peer = &conn->peer;

    if (peer->data_length < length || memcmp(peer->data, data, length) != 0)
        return false;
    for (uint32_t i = length; i < peer->data_length; i++)
        if (peer->data[i] != 0)
            return false;
    return true;
}

static bool is_empty(const struct uro_conn *conn)
{
    return has_data(conn, conn->peer.data, 0);
}

/* Returns what differs between a request or answer and what arrived, or NULL. */
static const char *message_problem(const struct uro_conn *conn, const struct sim_cm_message *sent)
{
    const struct uro_conn_param *peer = &conn->peer;
    const struct uro_conn_param *param = &sent->param;

    if (!has_data(conn, param->data, param->data_length))
        return "got other private data than was sent";
    if (param->type != peer->type)
        return "got a message of another service";
    if (peer->qpn != param->qpn || peer->qkey != param->qkey)
        return "got another queue pair than was sent";
    if (param->type == URO_QPT_UD)
        return NULL;
    if (conn->peer_psn != sent->psn || peer->responder_resources != param->responder_resources ||
        peer->initiator_depth != param->initiator_depth)
        return "got something else than was sent";
    return NULL;
}

static uint32_t number_in(const struct uro_conn *conn)
{
    uint32_t number;

    memcpy(&number, conn->peer.data, sizeof number);
    return number;
}

/* Checks that a waiting user gets its event in time, unless an MRA extended the time. */
static void check_time(const struct sim_cm_user *user)
{
    const struct sim_cm *cm = user->cm;
    const struct sim_cm_attempt *attempt = user->attempt;
    uro_time waited = cm->load->world->now - user->waiting_since;
    uro_time flight = sim_plan_cm_time(cm->plan->ack_timeout);
    uro_time once = sim_plan_cm_time(attempt->response_timeout);

    if (user->step != SIM_CM_LEAVING && user->step != SIM_CM_REQ_SENT &&
        user->step != SIM_CM_ANSWERED)
        return;
    if (user->step == SIM_CM_REQ_SENT && !attempt->query)
        once += 2 * flight;
    uro_time most =
        (attempt->retries + UINT64_C(1)) * once + attempt->extensions * (MRA_TIME + flight + SLACK);
    most += sim_plan_faults_max(cm->load->plan, attempt->retries + 4u);
    /* Nothing is lost: a round trip, after neighbour discovery on both sides. */
    if (attempt->polite && !attempt->slow && !sim_cm_crowded(cm, attempt))
        most = 6 * sim_plan_flight_max(cm->load->plan) + cm->plan->turn_wait_max;
    if (waited > most + SLACK)
        sim_cm_fail(user, "got its event too late");
}

/* ---- requests ---- */

static const char *request_problem(const struct sim_cm *cm, unsigned side,
                                   const struct uro_conn *conn,
                                   const struct sim_cm_attempt *attempt)
{
    if (attempt->to != side || attempt->nobody || attempt->absent)
        return "was not asked";
    if (!attempt->query && conn->path_mtu != uro_conn_mtu_code(cm->plan->path_mtu))
        return "got something else than was sent";
    return message_problem(conn, &attempt->request);
}

static struct sim_cm_user *free_server(struct sim_cm *cm, unsigned side)
{
    for (uint32_t i = 0; i < cm->user_count[side]; i++) {
        struct sim_cm_user *user = &cm->users[side][i];
        if (!user->calls && user->step == SIM_CM_FREE)
            return user;
    }
    return NULL;
}

static void keep_forged(struct sim_cm *cm, unsigned side, struct uro_conn *conn)
{
    for (unsigned i = 0; i < SIM_CM_FORGED_MAX && !cm->load->calm; i++) {
        if (cm->forged[side][i] != NULL)
            continue;
        cm->forged[side][i] = conn;
        conn->user = NULL;
        return;
    }
    uro_conn_close(conn, cm->load->world->now);
}

void sim_cm_reject_forged(struct sim_cm *cm)
{
    for (unsigned i = 0; i < 2 * SIM_CM_FORGED_MAX; i++) {
        struct uro_conn **conn = &cm->forged[i % 2][i / 2];
        if (*conn != NULL)
            uro_conn_close(*conn, cm->load->world->now);
        *conn = NULL;
    }
}

static void on_request(struct sim_cm *cm, unsigned side, struct uro_conn *conn)
{
    struct sim_world *world = cm->load->world;
    uint32_t number = number_in(conn);
    struct sim_cm_user *server = free_server(cm, side);
    const char *problem = "got a request that nobody sent";

    if (number == SIM_ATTACKER_NUMBER && cm->load->plan->attacker.wait_max > 0) {
        keep_forged(cm, side, conn);
        return;
    }
    if (number < cm->attempt_count)
        problem = request_problem(cm, side, conn, cm->attempts[number]);
    if (problem != NULL) {
        sim_world_fail(world, "CM request %u: %c %s", number, cm->load->hosts[side]->config.name,
                       problem);
        return;
    }
    if (cm->attempts[number]->requests++ == 0)
        cm->attempts[number]->late = sim_cm_crowded(cm, cm->attempts[number]);
    if (server == NULL) {
        uro_conn_close(conn, world->now);
        return;
    }
    conn->user = server;
    sim_cm_begin(server, cm->attempts[number], conn);
    if (cm->plan->notices)
        uro_conn_noticed(conn);
    sim_cm_note(server, "receives a request");
    sim_cm_enter(server, SIM_CM_REQUESTED);
}

/* ---- answers ---- */

static void on_response(struct sim_cm_user *user)
{
    struct sim_cm_attempt *attempt = user->attempt;
    uint32_t number = number_in(user->conn);
    const char *problem = "got an answer that nobody gave";

    if (!user->calls || user->step != SIM_CM_REQ_SENT)
        problem = "got an answer and did not ask";
    else if (number < attempt->answer_count && attempt->answers[number].rejects)
        problem = "got an acceptance of a server that rejected";
    else if (number < attempt->answer_count)
        problem = message_problem(user->conn, &attempt->answers[number]);
    if (problem != NULL) {
        sim_cm_fail(user, problem);
        return;
    }
    user->answer = number;
    if (attempt->query) {
        user->served = attempt->polite;
        sim_cm_enter(user, SIM_CM_ENDED);
        return;
    }
    sim_cm_enter(user, SIM_CM_RESPONDED);
}

static void on_confirmed(struct sim_cm_user *user)
{
    if (user->calls || user->step != SIM_CM_ANSWERED || user->attempt->answer != user->answer) {
        sim_cm_fail(user, "was connected by nobody");
        return;
    }
    sim_cm_enter(user, SIM_CM_CONNECTED);
    sim_cm_on_progress(user);
}

/* ---- ends ---- */

/* Returns whether the rejection has a cause: a server rejected, left, or had no room. */
static bool may_reject(const struct sim_cm_user *user, int status)
{
    const struct sim_cm_attempt *attempt = user->attempt;
    bool sent = is_empty(user->conn);

    for (uint32_t i = 0; i < attempt->answer_count; i++)
        sent |= attempt->answers[i].rejects && has_data(user->conn, attempt->answers[i].param.data,
                                                        attempt->answers[i].param.data_length);
    if (attempt->query)
        return (status == (int)URO_CONN_SIDR_REJECTED && sent) || status == SIDR_UNSUPPORTED ||
               status == (int)URO_CONN_SIDR_NO_QP;
    if (status == (int)URO_CONN_REJ_CONSUMER)
        return sent;
    if (!is_empty(user->conn))
        return false;
    if (status == (int)URO_CONN_REJ_NO_RESOURCES)
        return true;
    if (status == (int)URO_CONN_REJ_BAD_SERVICE)
        return !attempt->polite;
    return !attempt->patient &&
           (status == (int)URO_CONN_REJ_TIMEOUT || status == (int)URO_CONN_REJ_BAD_ID ||
            status == (int)URO_CONN_REJ_STALE);
}

static void on_rejected(struct sim_cm_user *user, int status)
{
    bool waits = user->step == SIM_CM_REQ_SENT || user->step == SIM_CM_RESPONDED ||
                 user->step == SIM_CM_REQUESTED || user->step == SIM_CM_ANSWERED;

    if (!waits)
        sim_cm_fail(user, "was rejected and did not ask");
    else if (!user->calls && sim_cm_sure(user->cm, user->attempt))
        sim_cm_fail(user, "was rejected by a patient caller");
    else if (user->calls && !may_reject(user, status))
        sim_cm_fail(user, "was rejected for a reason that nobody had");
    if (user->attempt->absent)
        sim_cm_fail(user, "was answered by nobody");
    if (user->attempt->nobody && status != (int)URO_CONN_REJ_BAD_SERVICE &&
        status != SIDR_UNSUPPORTED)
        sim_cm_fail(user, "found a server where there is none");
}

static void on_unreachable(const struct sim_cm_user *user)
{
    if (user->step != SIM_CM_REQ_SENT && user->step != SIM_CM_ANSWERED)
        sim_cm_fail(user, "could not reach a user that it did not ask");
    else if (sim_cm_sure(user->cm, user->attempt) && !user->attempt->absent)
        sim_cm_fail(user, "could not reach the other side, and both are patient");
}

static void on_disconnected(struct sim_cm_user *user)
{
    const struct sim_cm_attempt *attempt = user->attempt;
    bool connected = user->step == SIM_CM_CONNECTED || user->step == SIM_CM_LEAVING;

    if (!connected && user->step != SIM_CM_ANSWERED && user->step != SIM_CM_RESPONDED)
        sim_cm_fail(user, "was disconnected and is not connected");
    if (sim_cm_sure(user->cm, attempt) && !attempt->left)
        sim_cm_fail(user, "was disconnected and nobody left");
    if (!attempt->polite)
        return;
    if (!connected || !sim_cm_worked(user))
        sim_cm_fail(user, "was disconnected before all was done");
    user->served = true;
}

static void on_end(struct sim_cm_user *user, const struct uro_conn_event *event)
{
    check_time(user);
    if (event->kind == URO_CONN_REJECTED)
        on_rejected(user, event->status);
    else if (event->kind == URO_CONN_UNREACHABLE)
        on_unreachable(user);
    else
        on_disconnected(user);
    if (uro_rng_below(&user->rng, 2) == 0 && user->own != NULL)
        sim_endpoint_to_error(sim_cm_end(user));
    sim_cm_enter(user, SIM_CM_ENDED);
}

/* ---- all ---- */

static const char *order_problem(const struct sim_cm_user *user, enum uro_conn_event_kind kind)
{
    if (user->seen & KIND(kind))
        return "got the same event twice";
    if (KIND(kind) & ENDS && user->seen & ENDS)
        return "got two ends";
    if (kind == URO_CONN_TIMEWAIT_EXIT)
        return user->seen & KIND(URO_CONN_DISCONNECTED) ? NULL : "left time-wait too early";
    return user->seen & ENDS ? "got an event after the end" : NULL;
}

static void on_event(struct sim_cm_user *user, const struct uro_conn_event *event)
{
    static const char *const names[URO_CONN_EVENT_COUNT] = {
        [URO_CONN_REQUEST] = "REQUEST",
        [URO_CONN_RESPONSE] = "RESPONSE",
        [URO_CONN_CONFIRMED] = "CONFIRMED",
        [URO_CONN_REJECTED] = "REJECTED",
        [URO_CONN_UNREACHABLE] = "UNREACHABLE",
        [URO_CONN_DISCONNECTED] = "DISCONNECTED",
        [URO_CONN_TIMEWAIT_EXIT] = "TIMEWAIT_EXIT",
    };
    const char *problem = order_problem(user, event->kind);

    sim_cm_note(user, names[event->kind]);
    if (problem != NULL)
        sim_cm_fail(user, problem);
    user->seen |= KIND(event->kind);
    if (event->kind == URO_CONN_RESPONSE) {
        check_time(user);
        on_response(user);
    } else if (event->kind == URO_CONN_CONFIRMED) {
        check_time(user);
        on_confirmed(user);
    } else if (event->kind != URO_CONN_TIMEWAIT_EXIT) {
        on_end(user, event);
    }
}

/* Returns whether the connection came from a forged request. */
static bool was_forged(const struct sim_host_work *at_host, const struct uro_conn *conn)
{
    for (uint32_t i = 0; i < at_host->tie_count; i++)
        for (unsigned j = 0; j < SIM_CM_FORGED_MAX; j++)
            if (at_host->ties[i].load->cm->forged[at_host->ties[i].side][j] == conn)
                return true;
    return false;
}

void sim_cm_events(const struct sim_host_work *at_host)
{
    struct sim_world *world = at_host->host->world;
    struct uro_cm *manager = uro_engine_cm(at_host->host->engine);
    struct uro_conn_event event;

    while (!world->failed && uro_conn_event(manager, &event)) {
        sim_world_digest(world, &event.kind, sizeof event.kind);
        if (event.kind == URO_CONN_REQUEST) {
            const struct sim_cm_listeners *listener = event.user;
            on_request(listener->cm, listener->side, event.conn);
            continue;
        }
        struct sim_cm_user *user = event.user;
        if (user == NULL && was_forged(at_host, event.conn))
            continue;
        if (user == NULL || user->conn != event.conn)
            sim_world_fail(world, "%c got an event of a connection that nobody has",
                           at_host->host->config.name);
        else
            on_event(user, &event);
    }
}

/* ---- management datagrams ---- */

/* Decodes and encodes a management datagram, and counts MRAs and REJs of its attempt. */
void sim_cm_check_mad(struct sim_cm *cm, const struct sim_host *host, const struct uro_frame *frame)
{
    struct uro_cm_msg msg;
    uint8_t again[URO_MAD_LEN];
    bool good = frame->payload_length == URO_MAD_LEN && frame->deth.qkey == URO_CM_QKEY &&
                uro_cm_decode(frame->payload, &msg) == URO_CM_OK;

    if (good) {
        uro_cm_encode(again, &msg);
        good = memcmp(again, frame->payload, URO_MAD_LEN) == 0;
    }
    if (!good) {
        sim_world_fail(cm->load->world, "%c sent a management datagram that is not right",
                       host->config.name);
        return;
    }
    for (uint32_t i = 0; i < cm->attempt_count; i++) {
        struct sim_cm_attempt *attempt = cm->attempts[i];
        if (attempt->tid != msg.tid)
            continue;
        attempt->extensions += msg.kind == URO_CM_MRA;
        attempt->refusals +=
            msg.kind == URO_CM_REJ && msg.value[URO_CM_REASON] != URO_CONN_REJ_TIMEOUT;
    }
}
