/* SPDX-License-Identifier: BSD-3-Clause */
/* cm.c - the requests, answers and disconnects of programs that connect by messages, and their
 * schedule; see cm.h. */
#include "sim/work/cm.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/inside.h"

/* Service ID of connections; the next ID is for datagrams. */
#define SERVICE         UINT64_C(0x1064000)
#define SERVICES        16u /* distance between the service IDs of two workloads */
#define SERVICE_NOBODYS UINT64_C(0x1064ff0)
#define NOBODYS_ADDRESS 99u /* last byte of an address without a host */
#define SERVERS_SPARE   2u
#define RNR_FOREVER     7u
#define HOP_LIMIT       64u
#define READS_MAX       16u
#define SGES_MAX        4u
#define WEIGHT_MAX      8u
#define RETRY_COUNT                                                                                \
    6u /* not 7: without a limit, a user would never detect that the other side is gone */
#define TRIES_MAX    64u /* maximum calm attempts of a user: a host without room may reject them */
#define QUERY_QKEY   0x1234u
#define NUMBER_FIRST 512u  /* number of the first endpoint; RC connections have smaller numbers */
#define PD_FIRST     4000u /* first protection domain of the CM users of a workload */
#define PORT         1u
/* Wait before a repeated attempt, for each attempt before it: other users may use all connections
 * of the engine for seconds. */
#define TRY_WAIT URO_MS(200)

/* ---- the state of a program ---- */

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

/* Returns true if the link has no faults, or if they have ended. Users then remain connected until
 * their work is done. */
static bool without_faults(const struct sim_cm *cm)
{
    return cm->workload->calm || cm->workload->plan->clean;
}

/* Returns the number of requests that the host of a side dropped for lack of room. */
static uint64_t dropped(const struct sim_cm *cm, unsigned side)
{
    return sim_host_count(cm->workload->hosts[side], URO_COUNT_CM_DROP_BUSY);
}

bool sim_cm_crowded(const struct sim_cm *cm, const struct sim_cm_attempt *attempt)
{
    return dropped(cm, attempt->to) != attempt->dropped;
}

bool sim_cm_sure(const struct sim_cm *cm, const struct sim_cm_attempt *attempt)
{
    bool late = attempt->requests > 0 ? attempt->late : sim_cm_crowded(cm, attempt);

    return attempt->patient && attempt->requests < 2 && attempt->refusals == 0 && !late;
}

/* ---- the endpoint ---- */

static void make_end(struct sim_cm_user *user)
{
    struct sim_cm *cm = user->cm;
    struct sim_cm_endpoint *own = sim_alloc(sizeof *own);
    const struct uroce_qp_attr attr = { .state = UROCE_INIT,
                                        .port = PORT,
                                        .access = SIM_ACCESS_REMOTE };

    user->own = own;
    own->user = user;
    own->next = cm->endpoints;
    cm->endpoints = own;
    own->life = (struct sim_life){ .workload = cm->workload,
                                   .world = cm->workload->world,
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
    end->rc = sim_alloc(sizeof *end->rc);
    uro_rng_init_number(&end->rng, uro_rng_u64(&user->rng));
    sim_endpoint_init(end);
    sim_life_begin_endpoint(end);
    end->sends_left = 0; /* nothing is sent until the endpoint is connected */
    end->alive = true;
    sim_endpoint_modify(end, &attr, UROCE_ATTR_PKEY_INDEX | UROCE_ATTR_PORT | UROCE_ATTR_ACCESS);
}

/* Moves the queue pair to RTS with the attributes of the connection. A server uses the depths of
 * its answer instead, as in librdmacm. */
static void connect_end(struct sim_cm_user *user, const struct uroce_conn_param *own_answer)
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

/* Waits for the next attempt, if there is one. */
static void rest(struct sim_cm_user *user)
{
    const struct sim_cm *cm = user->cm;
    const struct sim_workload *workload = cm->workload;

    user->step = SIM_CM_FREE;
    user->due = user->leave_at = URO_TIME_NEVER;
    if (!user->calls || user->served || (!without_faults(cm) && user->made >= cm->plan->attempts))
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

/* When faults have stopped, sets the time at which a user leaves a connection that is not sure. If
 * the other side left without a message, or sent a second answer, the user gets no event at the end
 * of the connection. The time suffices to send all data. */
static void limit_time(struct sim_cm_user *user)
{
    const struct sim_plan_cm *plan = user->cm->plan;
    const uro_time flight = user->cm->workload->plan->flight_max;

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
    limit_time(user);
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

static void release(struct sim_cm_user *user)
{
    sim_cm_note(user, "releases its connection");
    if (user->attempt != NULL)
        user->attempt->left = true;
    if (user->conn != NULL)
        (void)!uroce_conn_close(user->conn, sim_cm_now(user));
    user->conn = NULL;
    destroy_end(user);
    user->attempt = NULL;
    rest(user);
}

/* ---- asking ---- */

uint64_t sim_cm_service(uint32_t workload)
{
    return SERVICE + (uint64_t)workload * SERVICES;
}

uint64_t sim_cm_requested(const struct sim_cm *cm, const struct sim_cm_attempt *attempt)
{
    return attempt->nobody ? SERVICE_NOBODYS
                           : sim_cm_service(cm->workload->number) + attempt->query;
}

/* Writes private data: a number and random bytes. */
static void write_data(struct sim_cm_user *user, struct uroce_conn_param *param, uint32_t number,
                       enum uro_cm_kind kind)
{
    param->data_length = sim_world_between(&user->rng, sizeof number, uro_cm_data_max(kind));
    for (uint32_t i = 0; i < param->data_length; i++)
        param->data[i] = (uint8_t)uro_rng_below(&user->rng, 256);
    memcpy(param->data, &number, sizeof number);
}

static void draw_manner(struct sim_cm *cm, struct sim_cm_attempt *attempt)
{
    const struct sim_plan_cm *plan = cm->plan;

    attempt->retries = plan->retries;
    attempt->response_timeout = plan->response_timeout;
    attempt->patient = attempt->calm || sim_world_chance(&cm->rng, plan->patient_probability);
    if (!attempt->patient)
        return;
    attempt->stays = uro_rng_below(&cm->rng, 4) == 0;
    if (attempt->calm && uro_rng_below(&cm->rng, 2) == 0)
        return;
    attempt->retries = SIM_PLAN_CM_PATIENT_RETRIES;
    attempt->response_timeout = SIM_PLAN_CM_PATIENT_TIMEOUT;
    attempt->slow = !attempt->query && sim_world_chance(&cm->rng, plan->slow_probability);
}

static struct sim_cm_attempt *new_attempt(struct sim_cm_user *user)
{
    struct sim_cm *cm = user->cm;
    const struct sim_plan_cm *plan = cm->plan;
    struct sim_cm_attempt *attempt = sim_alloc(sizeof *attempt);

    cm->attempts = sim_realloc(cm->attempts, (cm->attempt_count + 1) * sizeof(void *));
    attempt->number = cm->attempt_count;
    cm->attempts[cm->attempt_count++] = attempt;
    attempt->to = user->side;
    if (!sim_world_chance(&cm->rng, plan->self_probability))
        attempt->to = !user->side;
    attempt->dropped = dropped(cm, attempt->to);
    attempt->calm = without_faults(cm);
    attempt->query = sim_world_chance(&cm->rng, plan->query_probability);
    attempt->nobody = !attempt->calm && sim_world_chance(&cm->rng, plan->nobody_probability);
    attempt->absent = !attempt->calm && sim_world_chance(&cm->rng, plan->absent_probability);
    draw_manner(cm, attempt);
    attempt->answer = SIM_CM_NONE;
    attempt->leavers = sim_world_between(&cm->rng, 1, 3);
    attempt->request.param = (struct uroce_conn_param){
        .type = attempt->query ? UROCE_UD : UROCE_RC,
        .responder_resources = (uint8_t)uro_rng_below(&cm->rng, READS_MAX + 1),
        .initiator_depth = (uint8_t)uro_rng_below(&cm->rng, READS_MAX + 1),
        .retry_count = RETRY_COUNT,
        .rnr_retry_count = RNR_FOREVER
    };
    for (unsigned side = 0; side < 2; side++)
        attempt->message_count[side] = uro_rng_below(&cm->rng, plan->message_count + 1);
    return attempt;
}

static int ask(struct sim_cm_user *user, struct uroce_conn **conn)
{
    struct sim_cm_attempt *attempt = user->attempt;
    const struct sim_plan_cm *plan = user->cm->plan;
    struct uro_gid remote = user->cm->workload->hosts[attempt->to]->gids[plan->v6 ? 0 : 1];
    struct uroce_conn_target target = {
        .address = { .sgid_index = plan->v6 ? 0 : 1, .hop_limit = HOP_LIMIT },
        .service_id = sim_cm_requested(user->cm, attempt),
        .path_mtu = plan->path_mtu,
        .ack_timeout = plan->ack_timeout,
        .response_timeout = attempt->response_timeout,
        .retries = attempt->retries,
    };

    if (attempt->absent)
        remote.octets[sizeof remote.octets - 1] = NOBODYS_ADDRESS;
    memcpy(target.address.gid, remote.octets, sizeof target.address.gid);
    return uroce_conn_connect(sim_cm_engine(user->cm, user->side), &target, &attempt->request.param,
                              user, sim_cm_now(user), conn);
}

/* Returns the number of connections of the user's host that are in use, for all workloads. Only
 * other connections can be reused. */
static uint32_t owned(const struct sim_cm_user *user)
{
    const struct sim_host_workloads *host_workloads =
        user->cm->workload->host_workloads[user->side];
    uint32_t count = 0;

    for (uint32_t i = 0; i < host_workloads->count; i++) {
        const struct sim_cm *cm = host_workloads->list[i].workload->cm;
        unsigned side = host_workloads->list[i].side;
        for (uint32_t j = 0; j < cm->user_count[side]; j++)
            count += cm->users[side][j].conn != NULL;
        for (uint32_t j = 0; j < SIM_CM_FORGED_MAX; j++)
            count += cm->forged[side][j] != NULL;
    }
    return count;
}

static void call(struct sim_cm_user *user)
{
    struct sim_cm_attempt *attempt = new_attempt(user);
    struct uroce_conn *conn = NULL;

    user->made++;
    user->tries += attempt->calm;
    if (user->tries > TRIES_MAX)
        sim_cm_fail(user, "found no free connection again and again");
    sim_cm_begin(user, attempt, NULL);
    if (!attempt->query) {
        make_end(user);
        attempt->request.param.qpn = sim_cm_end(user)->qpn;
    }
    write_data(user, &attempt->request.param, attempt->number,
               attempt->query ? URO_CM_SIDR_REQ : URO_CM_REQ);
    bool full = owned(user) == sim_cm_host(user)->config.engine.connections;
    int result = ask(user, &conn);
    sim_cm_note(user, result == 0 ? "asks" : "finds no free connection for a request");
    if (result != (full ? -ENOMEM : 0))
        sim_cm_fail(user,
                    "got a wrong result: refused with a free connection, or accepted without one");
    if (result != 0) {
        release(user);
        return;
    }
    user->conn = conn;
    sim_cm_enter(user, SIM_CM_REQ_SENT);
}

/* ---- answering ---- */

static uint8_t lower(uint32_t a, uint32_t b)
{
    return (uint8_t)(a < b ? a : b);
}

static void answer(struct sim_cm_user *user)
{
    struct sim_cm_attempt *attempt = user->attempt;
    struct uroce_conn_param asked;
    struct uroce_qp_attr attr;
    unsigned mask;
    struct sim_cm_message *sent = &attempt->answers[attempt->answer_count];
    const uint32_t reads = uro_rng_below(&user->rng, READS_MAX + 1);
    enum uro_cm_kind kind = attempt->query ? URO_CM_SIDR_REP : URO_CM_REP;
    int result;

    if (attempt->answer_count == SIM_CM_ANSWERS_MAX) {
        release(user);
        return;
    }
    (void)!uroce_conn_peer(user->conn, &asked);
    user->answer = attempt->answer_count++;
    *sent = (struct sim_cm_message){
        .rejects =
            !attempt->patient && sim_world_chance(&user->rng, user->cm->plan->reject_probability),
        .param = { .type = asked.type,
                   .qpn = uro_rng_u32(&user->rng) & 0xffffff,
                   .qkey = attempt->query ? QUERY_QKEY + user->answer : 0,
                   .responder_resources = lower(reads, asked.initiator_depth),
                   .initiator_depth = lower(reads, asked.responder_resources),
                   .rnr_retry_count = RNR_FOREVER },
    };
    if (!attempt->query && !sent->rejects) {
        make_end(user);
        sent->end = sim_cm_end(user);
        sent->param.qpn = sent->end->qpn;
        connect_end(user, &sent->param);
        if (uroce_conn_attr(user->conn, UROCE_RTR, &attr, &mask) == 0)
            sent->psn = attr.rq_psn;
    } else if (!attempt->query) {
        kind = URO_CM_REJ;
    }
    write_data(user, &sent->param, user->answer, kind);
    sim_cm_note(user, sent->rejects ? "rejects" : "accepts");
    if (sent->rejects)
        result = uroce_conn_reject(user->conn, UROCE_REJECT_CONSUMER, sent->param.data,
                                   sent->param.data_length, sim_cm_now(user));
    else
        result = uroce_conn_accept(user->conn, &sent->param, user, sim_cm_now(user));
    if (result != 0)
        sim_cm_fail(user, "an answer that fits the state was refused");
    sim_cm_enter(user, sent->rejects || attempt->query ? SIM_CM_ENDED : SIM_CM_ANSWERED);
}

static void confirm(struct sim_cm_user *user)
{
    struct sim_cm_attempt *attempt = user->attempt;
    bool rejects =
        !attempt->patient && sim_world_chance(&user->rng, user->cm->plan->reject_probability);
    int result;

    sim_cm_note(user, rejects ? "rejects the answer" : "confirms");
    if (rejects) {
        result = uroce_conn_reject(user->conn, UROCE_REJECT_CONSUMER, NULL, 0, sim_cm_now(user));
        sim_cm_enter(user, SIM_CM_ENDED);
    } else {
        connect_end(user, NULL);
        sim_rc_meet(sim_cm_end(user), attempt->answers[user->answer].end);
        attempt->answer = user->answer;
        result = uroce_conn_confirm(user->conn, sim_cm_now(user));
        sim_cm_enter(user, SIM_CM_CONNECTED);
        sim_cm_on_progress(user);
    }
    if (result != 0)
        sim_cm_fail(user, "an answer that fits the state was refused");
}

/* ---- leaving ---- */

static void disconnect(struct sim_cm_user *user)
{
    sim_cm_note(user, "disconnects");
    user->attempt->left = true;
    if (uroce_conn_disconnect(user->conn, sim_cm_now(user)) != 0)
        sim_cm_fail(user, "could not disconnect");
    sim_cm_enter(user, SIM_CM_LEAVING);
}

/* Takes the next step. In a state without an action, the user waits for an event. */
static void act(struct sim_cm_user *user)
{
    static void (*const actions[])(struct sim_cm_user * user) = {
        [SIM_CM_FREE] = call,        [SIM_CM_RESPONDED] = confirm,
        [SIM_CM_REQUESTED] = answer, [SIM_CM_CONNECTED] = disconnect,
        [SIM_CM_ENDED] = release,
    };

    user->due = URO_TIME_NEVER;
    if (actions[user->step] != NULL)
        actions[user->step](user);
}

/* ---- nodes ---- */

static uro_time user_next(const struct sim_node *node)
{
    const struct sim_cm_user *user = URO_CONTAINER_OF(node, struct sim_cm_user, node);
    const struct sim_endpoint *end = sim_cm_end(user);
    uro_time next = user->due < user->leave_at ? user->due : user->leave_at;
    uro_time post_at = end != NULL ? sim_post_next(end) : URO_TIME_NEVER;

    return post_at < next ? post_at : next;
}

static void user_run(struct sim_node *node)
{
    struct sim_cm_user *user = URO_CONTAINER_OF(node, struct sim_cm_user, node);

    if (user->leave_at <= sim_cm_now(user)) {
        user->leave_at = URO_TIME_NEVER;
        if (user->step == SIM_CM_CONNECTED && uro_rng_below(&user->rng, 2) == 0)
            disconnect(user);
        else
            release(user);
    } else if (user->due <= sim_cm_now(user)) {
        act(user);
    }
    if (user->own != NULL)
        sim_post_run(sim_cm_end(user));
    sim_cm_events(user->cm->workload->host_workloads[user->side]);
}

static void set_open(struct sim_cm_listeners *listener, bool open)
{
    struct sim_world *world = listener->cm->workload->world;

    for (unsigned i = 0; i < 2 && listener->open != open; i++) {
        if (!open)
            (void)!uroce_listener_destroy(listener->services[i]);
        else if (uroce_listener_create(sim_cm_engine(listener->cm, listener->side),
                                       sim_cm_service(listener->cm->workload->number) + i, -1,
                                       listener->cm->plan->backlog, listener,
                                       &listener->services[i]) != 0)
            sim_world_fail(world, "a service could not be opened");
    }
    listener->open = open;
    sim_world_note(world, "CM services of %c are %s",
                   listener->cm->workload->hosts[listener->side]->config.name,
                   open ? "open" : "shut");
}

static void listener_run(struct sim_node *node)
{
    struct sim_cm_listeners *listener = URO_CONTAINER_OF(node, struct sim_cm_listeners, node);
    struct sim_cm *cm = listener->cm;

    node->due = URO_TIME_NEVER;
    set_open(listener, !listener->open || cm->workload->calm);
    if (!cm->workload->calm && cm->plan->shut_wait_max > 0)
        node->due =
            cm->workload->world->now + URO_US(1 + uro_rng_below(&cm->rng, cm->plan->shut_wait_max));
}

/* ---- the endpoints ---- */

static void on_progress(struct sim_endpoint *end)
{
    struct sim_cm_user *user = sim_cm_user(end);

    if (user->step == SIM_CM_ANSWERED && uro_rng_below(&user->rng, 2) == 0) {
        sim_cm_note(user, "has data before the confirmation");
        if (uroce_conn_established(user->conn, sim_cm_now(user)) != 0)
            sim_cm_fail(user, "could not report to the engine that data arrived");
    }
    sim_cm_on_progress(user);
    sim_cm_events(user->cm->workload->host_workloads[user->side]);
}

/* A user that loses its connection disconnects. */
static void on_error(struct sim_endpoint *end, const struct sim_request *request, uint32_t status)
{
    struct sim_cm_user *user = sim_cm_user(end);

    if (request != NULL)
        sim_rc_uncertain(end, request);
    if (user->step == SIM_CM_CONNECTED && status != UROCE_WR_FLUSH_ERR)
        user->due = sim_cm_now(user);
}

static bool expected(const struct sim_endpoint *end, const struct sim_request *request,
                     uint32_t status)
{
    (void)request;
    return status == UROCE_RETRY_EXC_ERR && end->life->may_time_out;
}

/* Draws the plan of all connections. There are few messages, none about memory windows, and no
 * deliberate errors. A receive for each message is posted at the beginning, because the RNR timer
 * of a connection is long. */
static void draw_pair(struct sim_cm *cm)
{
    const struct sim_plan_cm *plan = cm->plan;
    struct sim_plan_end *end = &cm->pair.ends[0];
    struct uro_rng *rng = &cm->rng;

    cm->pair = (struct sim_plan_pair){ .path_mtu = plan->path_mtu,
                                       .message_max = plan->message_max,
                                       .v6 = plan->v6 };
    *end = (struct sim_plan_end){ .send_capacity = sim_world_between(rng, 1, SIM_CM_MESSAGES_MAX),
                                  .recv_capacity = SIM_CM_MESSAGES_MAX,
                                  .send_sges = sim_world_between(rng, 1, SGES_MAX),
                                  .recv_sges = sim_world_between(rng, 1, SGES_MAX),
                                  .inline_max = uro_rng_below(rng, UROCE_INLINE_MAX + 1),
                                  .signal_probability = uro_rng_below(rng, 65537),
                                  .inline_probability = uro_rng_below(rng, 65537),
                                  .fence_probability = uro_rng_below(rng, 65537),
                                  .solicit_probability = uro_rng_below(rng, 65537),
                                  .batch_max = SIM_CM_MESSAGES_MAX,
                                  .recv_batch_max = 1000,
                                  .srq = SIM_PLAN_NO_SRQ };
    for (unsigned kind = 0; kind < SIM_PLAN_BIND; kind++)
        end->weights[kind] = uro_rng_below(rng, WEIGHT_MAX);
    end->weights[SIM_PLAN_SEND]++;
    cm->pair.ends[1] = *end;
    for (unsigned kind = SIM_PLAN_READ; kind < SIM_PLAN_BIND; kind++)
        cm->pair.ends[1].weights[kind] = 0;
}

/* ---- all of them ---- */

static void init_user(struct sim_cm *cm, unsigned side, uint32_t i)
{
    struct sim_cm_user *user = &cm->users[side][i];

    user->cm = cm;
    user->side = side;
    user->number = side * SIM_CM_USERS_MAX + i;
    user->calls = i < cm->plan->callers[side];
    uro_rng_init_number(&user->rng, uro_rng_u64(&cm->rng));
    rest(user);
    sim_world_add(cm->workload->world, &user->node, user_next, user_run);
}

struct sim_cm *sim_cm_make(struct sim_workload *workload)
{
    struct sim_cm *cm = sim_alloc(sizeof *cm);
    uint32_t callers = workload->plan->cm.callers[0] + workload->plan->cm.callers[1];

    cm->workload = workload;
    cm->plan = &workload->plan->cm;
    uro_rng_init_number(&cm->rng, cm->plan->seed);
    cm->ops = sim_rc_ops;
    cm->ops.family = "CM";
    cm->ops.expected = expected;
    cm->ops.on_error = on_error;
    cm->ops.on_progress = on_progress;
    draw_pair(cm);
    for (unsigned side = 0; side < 2 && callers > 0; side++) {
        cm->user_count[side] = cm->plan->callers[side] + callers + SERVERS_SPARE;
        URO_ASSERT(cm->user_count[side] <= SIM_CM_USERS_MAX);
        struct sim_cm_listeners *listener = &cm->listeners[side];
        listener->cm = cm;
        listener->side = side;
        listener->node.due = workload->world->now;
        sim_world_add(workload->world, &listener->node, NULL, listener_run);
        for (uint32_t i = 0; i < cm->user_count[side]; i++)
            init_user(cm, side, i);
    }
    return cm;
}

/* Closes the connections and services that are left after a failed run. */
static void close_all(struct sim_cm *cm)
{
    uro_time now = cm->workload->world->now;

    sim_cm_reject_forged(cm);
    for (unsigned side = 0; side < 2; side++) {
        for (uint32_t i = 0; i < cm->user_count[side]; i++)
            if (cm->users[side][i].conn != NULL)
                (void)!uroce_conn_close(cm->users[side][i].conn, now);
        for (unsigned i = 0; i < 2 && cm->listeners[side].open; i++)
            (void)!uroce_listener_destroy(cm->listeners[side].services[i]);
    }
}

void sim_cm_free(struct sim_cm *cm)
{
    close_all(cm);
    while (cm->endpoints != NULL) {
        struct sim_cm_endpoint *own = cm->endpoints;
        cm->endpoints = own->next;
        sim_life_fini(&own->life);
        free(own);
    }
    for (uint32_t i = 0; i < cm->attempt_count; i++)
        free(cm->attempts[i]);
    free(cm->attempts);
    free(cm);
}

void sim_cm_calm(struct sim_cm *cm)
{
    sim_cm_reject_forged(cm);
    for (unsigned side = 0; side < 2; side++) {
        if (cm->user_count[side] > 0)
            cm->listeners[side].node.due = cm->workload->world->now;
        for (uint32_t i = 0; i < cm->user_count[side]; i++) {
            struct sim_cm_user *user = &cm->users[side][i];
            if (user->step == SIM_CM_FREE)
                rest(user);
            else if (user->step == SIM_CM_CONNECTED)
                limit_time(user);
        }
    }
}

bool sim_cm_idle(const struct sim_cm *cm)
{
    for (unsigned side = 0; side < 2; side++) {
        for (uint32_t i = 0; i < cm->user_count[side]; i++) {
            const struct sim_cm_user *user = &cm->users[side][i];
            if (user->step != SIM_CM_FREE || (user->calls && !user->served))
                return false;
        }
        if (sim_inside_connections(sim_cm_engine(cm, side)) > 0)
            return false;
    }
    return true;
}

void sim_cm_finish(struct sim_cm *cm)
{
    for (unsigned side = 0; side < 2; side++) {
        struct sim_cm_listeners *listener = &cm->listeners[side];
        for (unsigned i = 0; i < 2 && listener->open; i++)
            if (sim_inside_requests(listener->services[i]) != 0)
                sim_world_fail(cm->workload->world,
                               "a service of %c counts waiting requests, but there are none",
                               cm->workload->hosts[side]->config.name);
        if (listener->open)
            set_open(listener, false);
    }
}

void sim_cm_explain(const struct sim_cm *cm, char *text, size_t size)
{
    static const char *const steps[] = { "free",     "REQ sent",  "responded", "requested",
                                         "answered", "connected", "leaving",   "ended" };

    for (unsigned side = 0; side < 2; side++) {
        uint32_t left = sim_inside_connections(sim_cm_engine(cm, side));
        if (cm->user_count[side] > 0 && left > 0)
            sim_world_append(text, size, " CM of %c has %u connections;",
                             cm->workload->hosts[side]->config.name, left);
        for (uint32_t i = 0; i < cm->user_count[side]; i++) {
            const struct sim_cm_user *user = &cm->users[side][i];
            if (user->step == SIM_CM_FREE && (!user->calls || user->served))
                continue;
            const struct sim_endpoint *end = sim_cm_end(user);
            sim_world_append(text, size,
                             " CM user %u %s, %" PRIu64 "/%" PRIu64 " done, %" PRIu64 " taken;",
                             user->number, steps[user->step], end != NULL ? end->confirmed : 0,
                             end != NULL ? end->posted : 0, end != NULL ? end->messages_taken : 0);
        }
    }
}
