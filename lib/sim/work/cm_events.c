/* SPDX-License-Identifier: BSD-3-Clause */
/* cm_events.c - checks events and management datagrams against the requests and answers; see cm.h.
 */
#include <string.h>

#include "sim/inside.h"
#include "sim/work/cm.h"

/* Reasons of a REJ, and results of a SIDR_REP (IBTA Vol. 1, 12.6.7.2 and 12.11.2) */
#define REJ_TIMEOUT      4u
#define REJ_BAD_ID       6u
#define REJ_STALE        10u
#define SIDR_UNSUPPORTED 1
#define SIDR_REJECTED    2u
#define SIDR_NO_QP       3u
#define MRA_TIME         URO_MS(65536) /* 4.096 us * 2^24, rounded as in Linux */
#define SLACK            URO_MS(2)     /* longest time for which a host cannot send */

#define KIND(event) (1u << (event))
#define ENDS                                                                                       \
    (KIND(UROCE_CONN_REJECTED) | KIND(UROCE_CONN_UNREACHABLE) | KIND(UROCE_CONN_DISCONNECTED))

static struct uroce_conn_param peer_of(const struct uroce_conn *conn)
{
    struct uroce_conn_param peer;

    (void)!uroce_conn_peer(conn, &peer);
    return peer;
}

/* Returns whether the received private data are these bytes, with only zeroes behind them. */
static bool has_data(const struct uroce_conn *conn, const uint8_t *data, uint32_t length)
{
    const struct uroce_conn_param peer = peer_of(conn);

    if (peer.data_length < length || memcmp(peer.data, data, length) != 0)
        return false;
    for (uint32_t i = length; i < peer.data_length; i++)
        if (peer.data[i] != 0)
            return false;
    return true;
}

static bool is_empty(const struct uroce_conn *conn)
{
    return has_data(conn, (const uint8_t[1]){ 0 }, 0);
}

/* Compares a received request or answer with the sent message. Returns the difference as text, or
 * NULL. */
static const char *message_problem(const struct uroce_conn *conn, const struct sim_cm_message *sent)
{
    const struct uroce_conn_param peer = peer_of(conn);
    const struct uroce_conn_param *param = &sent->param;
    struct uroce_qp_attr attr;
    unsigned mask;

    if (!has_data(conn, param->data, param->data_length))
        return "got other private data than was sent";
    if (param->type != peer.type)
        return "got a message of another service";
    if (peer.qpn != param->qpn || peer.qkey != param->qkey)
        return "got another queue pair than was sent";
    if (param->type == UROCE_UD)
        return NULL;
    if (uroce_conn_attr(conn, UROCE_RTS, &attr, &mask) != 0 || attr.sq_psn != sent->psn ||
        peer.responder_resources != param->responder_resources ||
        peer.initiator_depth != param->initiator_depth)
        return "got something else than was sent";
    return NULL;
}

static uint32_t number_in(const struct uroce_conn *conn)
{
    const struct uroce_conn_param peer = peer_of(conn);
    uint32_t number;

    memcpy(&number, peer.data, sizeof number);
    return number;
}

/* Checks that a waiting user gets its event in time. MRAs extend the time. */
static void check_time(const struct sim_cm_user *user)
{
    const struct sim_cm *cm = user->cm;
    const struct sim_cm_attempt *attempt = user->attempt;
    uro_time waited = cm->workload->world->now - user->waiting_since;
    uro_time flight = sim_plan_cm_time(cm->plan->ack_timeout);
    uro_time once = sim_plan_cm_time(attempt->response_timeout);

    if (user->step != SIM_CM_LEAVING && user->step != SIM_CM_REQ_SENT &&
        user->step != SIM_CM_ANSWERED)
        return;
    if (user->step == SIM_CM_REQ_SENT && !attempt->query)
        once += 2 * flight;
    uro_time most =
        (attempt->retries + UINT64_C(1)) * once + attempt->extensions * (MRA_TIME + flight + SLACK);
    most += sim_plan_faults_max(cm->workload->plan, attempt->retries + 4u);
    /* Without faults no frame is lost. So the answer arrives within a round trip after neighbour
     * discovery on both sides. */
    if (attempt->calm && !attempt->slow && !sim_cm_crowded(cm, attempt))
        most = 6 * cm->workload->plan->flight_max + cm->plan->turn_wait_max;
    if (waited > most + SLACK)
        sim_cm_fail(user, "got its event too late");
}

/* ---- requests ---- */

static const char *request_problem(const struct sim_cm *cm, unsigned side,
                                   const struct uroce_conn *conn,
                                   const struct sim_cm_attempt *attempt)
{
    struct uroce_conn_target target;

    if (attempt->to != side || attempt->nobody || attempt->absent)
        return "was not the receiver of the request";
    (void)!uroce_conn_target(conn, &target);
    if (!attempt->query && target.path_mtu != cm->plan->path_mtu)
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

static void keep_forged(struct sim_cm *cm, unsigned side, struct uroce_conn *conn)
{
    for (unsigned i = 0; i < SIM_CM_FORGED_MAX && !cm->workload->calm; i++) {
        if (cm->forged[side][i] != NULL)
            continue;
        cm->forged[side][i] = conn;
        return;
    }
    (void)!uroce_conn_close(conn, cm->workload->world->now);
}

void sim_cm_reject_forged(struct sim_cm *cm)
{
    for (unsigned i = 0; i < 2 * SIM_CM_FORGED_MAX; i++) {
        struct uroce_conn **conn = &cm->forged[i % 2][i / 2];
        if (*conn != NULL)
            (void)!uroce_conn_close(*conn, cm->workload->world->now);
        *conn = NULL;
    }
}

static void on_request(struct sim_cm *cm, unsigned side, struct uroce_conn *conn)
{
    struct sim_world *world = cm->workload->world;
    uint32_t number = number_in(conn);
    struct sim_cm_user *server = free_server(cm, side);
    const char *problem = "got a request that no caller sent";

    if (number == SIM_ATTACKER_NUMBER && cm->workload->plan->attacker.wait_max > 0) {
        keep_forged(cm, side, conn);
        return;
    }
    if (number < cm->attempt_count)
        problem = request_problem(cm, side, conn, cm->attempts[number]);
    if (problem != NULL) {
        sim_world_fail(world, "CM request %u: %c %s", number,
                       cm->workload->hosts[side]->config.name, problem);
        return;
    }
    if (cm->attempts[number]->requests++ == 0)
        cm->attempts[number]->late = sim_cm_crowded(cm, cm->attempts[number]);
    if (server == NULL) {
        (void)!uroce_conn_close(conn, world->now);
        return;
    }
    sim_cm_begin(server, cm->attempts[number], conn);
    sim_cm_note(server, "receives a request");
    sim_cm_enter(server, SIM_CM_REQUESTED);
}

/* ---- answers ---- */

static void on_response(struct sim_cm_user *user)
{
    struct sim_cm_attempt *attempt = user->attempt;
    uint32_t number = number_in(user->conn);
    const char *problem = "got an answer that no server gave";

    if (!user->calls || user->step != SIM_CM_REQ_SENT)
        problem = "got an answer without a request";
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
        user->served = attempt->calm;
        sim_cm_enter(user, SIM_CM_ENDED);
        return;
    }
    sim_cm_enter(user, SIM_CM_RESPONDED);
}

static void on_confirmed(struct sim_cm_user *user)
{
    if (user->calls || user->step != SIM_CM_ANSWERED || user->attempt->answer != user->answer) {
        sim_cm_fail(user, "was confirmed by a caller that has another answer");
        return;
    }
    sim_cm_enter(user, SIM_CM_CONNECTED);
    sim_cm_on_progress(user);
}

/* ---- ends ---- */

/* Returns whether the rejection has a cause: a server rejected, left, had no room, or did not
 * listen. */
static bool may_reject(const struct sim_cm_user *user, int status)
{
    const struct sim_cm_attempt *attempt = user->attempt;
    bool sent = is_empty(user->conn);

    for (uint32_t i = 0; i < attempt->answer_count; i++)
        sent |= attempt->answers[i].rejects && has_data(user->conn, attempt->answers[i].param.data,
                                                        attempt->answers[i].param.data_length);
    if (attempt->query)
        return (status == (int)SIDR_REJECTED && sent) || status == SIDR_UNSUPPORTED ||
               status == (int)SIDR_NO_QP;
    if (status == (int)UROCE_REJECT_CONSUMER)
        return sent;
    if (!is_empty(user->conn))
        return false;
    if (status == (int)UROCE_REJECT_NO_RESOURCES)
        return true;
    if (status == (int)UROCE_REJECT_BAD_SERVICE)
        return !attempt->calm;
    return !attempt->patient &&
           (status == (int)REJ_TIMEOUT || status == (int)REJ_BAD_ID || status == (int)REJ_STALE);
}

static void on_rejected(struct sim_cm_user *user, int status)
{
    bool waits = user->step == SIM_CM_REQ_SENT || user->step == SIM_CM_RESPONDED ||
                 user->step == SIM_CM_REQUESTED || user->step == SIM_CM_ANSWERED;

    if (!waits)
        sim_cm_fail(user, "was rejected without a request");
    else if (!user->calls && sim_cm_sure(user->cm, user->attempt))
        sim_cm_fail(user, "was rejected by a patient caller");
    else if (user->calls && !may_reject(user, status))
        sim_cm_fail(user, "was rejected for a reason that does not apply");
    if (user->attempt->absent)
        sim_cm_fail(user, "was answered from an address without a host");
    if (user->attempt->nobody && status != (int)UROCE_REJECT_BAD_SERVICE &&
        status != SIDR_UNSUPPORTED)
        sim_cm_fail(user, "got an acceptance from a service without a listener");
}

static void on_unreachable(const struct sim_cm_user *user)
{
    if (user->step != SIM_CM_REQ_SENT && user->step != SIM_CM_ANSWERED)
        sim_cm_fail(user, "could not reach a user to which it sent no request");
    else if (sim_cm_sure(user->cm, user->attempt) && !user->attempt->absent)
        sim_cm_fail(user, "could not reach the other side, and both are patient");
}

static void on_disconnected(struct sim_cm_user *user)
{
    const struct sim_cm_attempt *attempt = user->attempt;
    bool connected = user->step == SIM_CM_CONNECTED || user->step == SIM_CM_LEAVING;

    if (!connected && user->step != SIM_CM_ANSWERED && user->step != SIM_CM_RESPONDED)
        sim_cm_fail(user, "was disconnected but was not connected");
    if (sim_cm_sure(user->cm, attempt) && !attempt->left)
        sim_cm_fail(user, "was disconnected although no side disconnected");
    if (!attempt->calm)
        return;
    if (!connected || !sim_cm_worked(user))
        sim_cm_fail(user, "was disconnected before all was done");
    user->served = true;
}

static void on_end(struct sim_cm_user *user, const struct uroce_conn_event *event)
{
    if (event->kind == UROCE_CONN_REJECTED)
        on_rejected(user, event->status);
    else if (event->kind == UROCE_CONN_UNREACHABLE)
        on_unreachable(user);
    else
        on_disconnected(user);
    if (uro_rng_below(&user->rng, 2) == 0 && user->own != NULL)
        sim_endpoint_to_error(sim_cm_end(user));
    sim_cm_enter(user, SIM_CM_ENDED);
}

/* ---- all ---- */

static const char *order_problem(const struct sim_cm_user *user, enum uroce_conn_event_kind kind)
{
    if (user->seen & KIND(kind))
        return "got the same event twice";
    if (KIND(kind) & ENDS && user->seen & ENDS)
        return "got two events that end the connection";
    if (kind == UROCE_CONN_TIMEWAIT_EXIT)
        return user->seen & KIND(UROCE_CONN_DISCONNECTED) ? NULL : "left time-wait too early";
    return user->seen & ENDS ? "got an event after the end" : NULL;
}

static void on_event(struct sim_cm_user *user, const struct uroce_conn_event *event)
{
    static const char *const names[] = {
        [UROCE_CONN_REQUEST] = "REQUEST",
        [UROCE_CONN_RESPONSE] = "RESPONSE",
        [UROCE_CONN_CONFIRMED] = "CONFIRMED",
        [UROCE_CONN_REJECTED] = "REJECTED",
        [UROCE_CONN_UNREACHABLE] = "UNREACHABLE",
        [UROCE_CONN_DISCONNECTED] = "DISCONNECTED",
        [UROCE_CONN_TIMEWAIT_EXIT] = "TIMEWAIT_EXIT",
    };
    const char *problem = order_problem(user, event->kind);

    sim_cm_note(user, names[event->kind]);
    if (problem != NULL)
        sim_cm_fail(user, problem);
    user->seen |= KIND(event->kind);
    if (event->kind == UROCE_CONN_TIMEWAIT_EXIT)
        return;
    check_time(user);
    if (event->kind == UROCE_CONN_RESPONSE)
        on_response(user);
    else if (event->kind == UROCE_CONN_CONFIRMED)
        on_confirmed(user);
    else
        on_end(user, event);
}

/* Returns the user of a connection, or NULL. */
static struct sim_cm_user *user_of(const struct sim_host_workload *on_host,
                                   const struct uroce_conn *conn)
{
    struct sim_cm *cm = on_host->workload->cm;

    for (uint32_t i = 0; i < cm->user_count[on_host->side]; i++)
        if (cm->users[on_host->side][i].conn == conn)
            return &cm->users[on_host->side][i];
    return NULL;
}

/* Takes the request of an event. Without notices, or if the request is forged, the request counts
 * in the backlog until it is answered. */
static void take_request(const struct uroce_conn_event *event)
{
    const struct sim_cm_listeners *listener = event->user;
    struct sim_cm *cm = listener->cm;
    struct uroce_conn_target target;

    (void)!uroce_conn_target(event->conn, &target);
    if (!cm->plan->notices || number_in(event->conn) == SIM_ATTACKER_NUMBER)
        sim_inside_keep_request(
            listener->services[target.service_id - sim_cm_service(cm->workload->number)],
            event->conn);
    on_request(cm, listener->side, event->conn);
}

/* Passes an event to the user of its connection. */
static void take_event(const struct sim_host_workloads *host_workloads,
                       const struct uroce_conn_event *event)
{
    struct sim_cm_user *user = NULL;
    bool forged = false;

    for (uint32_t i = 0; i < host_workloads->count && user == NULL; i++) {
        const struct sim_host_workload *on_host = &host_workloads->list[i];
        user = user_of(on_host, event->conn);
        for (unsigned j = 0; j < SIM_CM_FORGED_MAX; j++)
            forged |= on_host->workload->cm->forged[on_host->side][j] == event->conn;
    }
    if (user != NULL && (event->user == NULL || event->user == user))
        on_event(user, event);
    else if (!forged || event->user != NULL)
        sim_world_fail(host_workloads->host->world,
                       "%c got an event of a connection without a user",
                       host_workloads->host->config.name);
}

void sim_cm_events(const struct sim_host_workloads *host_workloads)
{
    struct sim_world *world = host_workloads->host->world;
    struct uroce_conn_event event;

    while (!world->failed && uroce_conn_event(host_workloads->host->engine, &event) > 0) {
        sim_world_digest(world, &event.kind, sizeof event.kind);
        if (event.kind == UROCE_CONN_REQUEST)
            take_request(&event);
        else
            take_event(host_workloads, &event);
    }
}

/* ---- management datagrams ---- */

/* Records the transaction ID and the PSN of a request in its attempt: the attempt with the same
 * service and the same private data. */
static void note_request(struct sim_cm *cm, const struct uro_cm_msg *msg)
{
    uint32_t number;

    if (msg->kind != URO_CM_REQ && msg->kind != URO_CM_SIDR_REQ)
        return;
    memcpy(&number, msg->data, sizeof number);
    if (number >= cm->attempt_count)
        return;
    struct sim_cm_attempt *attempt = cm->attempts[number];
    const struct uroce_conn_param *param = &attempt->request.param;
    if (msg->value[URO_CM_SERVICE_ID] != sim_cm_requested(cm, attempt) ||
        memcmp(msg->data, param->data, param->data_length) != 0)
        return;
    attempt->tid = msg->tid;
    attempt->request.psn = (uint32_t)msg->value[URO_CM_STARTING_PSN];
}

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
        sim_world_fail(cm->workload->world, "%c sent a malformed management datagram",
                       host->config.name);
        return;
    }
    note_request(cm, &msg);
    for (uint32_t i = 0; i < cm->attempt_count; i++) {
        struct sim_cm_attempt *attempt = cm->attempts[i];
        if (attempt->tid != msg.tid)
            continue;
        attempt->extensions += msg.kind == URO_CM_MRA;
        attempt->refusals += msg.kind == URO_CM_REJ && msg.value[URO_CM_REASON] != REJ_TIMEOUT;
    }
}
