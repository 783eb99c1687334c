/* SPDX-License-Identifier: BSD-3-Clause */
/* cm_data.c - the queue pairs of CM connections: their lives, their messages, and the checks; see cm.h.
 */
#include <string.h>

#include "core/psn.h"
#include "sim/oracle/model.h"
#include "sim/work/cm.h"

#define ADDRESS_SPACE UINT64_C(0x200000000000)
#define ADDRESS_STEP  UINT64_C(0x10000000000)
#define LIFE_STEP     UINT64_C(0x10000000)
#define PD_FIRST      4000u
#define PORT          1u

void sim_cm_fail(const struct sim_cm_user *user, const char *what)
{
    sim_world_fail(user->cm->load->world, "CM %s %u of %c, attempt %d: %s",
                   user->calls ? "caller" : "server", user->endpoint.number,
                   user->endpoint.host->config.name,
                   user->attempt != NULL ? (int)user->attempt->number : -1, what);
}

void sim_cm_note(const struct sim_cm_user *user, const char *what)
{
    struct sim_world *world = user->cm->load->world;

    sim_journal_note(world->journal, world->now, "CM %s %u of %c, attempt %d: %s",
                     user->calls ? "caller" : "server", user->endpoint.number,
                     user->endpoint.host->config.name,
                     user->attempt != NULL ? (int)user->attempt->number : -1, what);
}

/* ---- what goes over them ------------------------------------------------------------------------- */

/* Returns 0 for the caller, 1 for the server. */
static unsigned side_of(const struct sim_cm_user *user)
{
    return user->calls ? 0 : 1;
}

static const struct sim_cm_message *message_of(const struct sim_cm_user *user, uint32_t i)
{
    return &user->attempt->messages[side_of(user)][i];
}

static uint32_t count_of(const struct sim_cm_user *user)
{
    return user->attempt->message_count[side_of(user)];
}

static struct sim_memory_layout layout_of(uint32_t length)
{
    return (struct sim_memory_layout){ .count = 1, .pieces = { { SIM_CM_BESIDE, length } } };
}

/* Posts as many receives as there can ever be messages. */
static void post_receives(struct sim_cm_user *user)
{
    uint32_t most = user->cm->plan->message_max;
    const struct sim_memory_layout layout = layout_of(most);

    for (uint32_t i = 0; i < SIM_CM_MESSAGES_MAX; i++) {
        struct uro_rqe *rqe = uro_wq_reserve(uro_qp_recv_queue(user->endpoint.qp), i);
        URO_ASSERT(rqe != NULL);
        sim_memory_fill(&user->endpoint.memory, SIM_MEMORY_RECVS, i, &layout, 0, 0);
        rqe->wr_id = i | SIM_RECV_BIT;
        rqe->length = most;
        rqe->sge_count =
            sim_memory_sges(&user->endpoint.memory, SIM_MEMORY_RECVS, i, &layout, rqe->sges);
    }
    uro_wq_publish(uro_qp_recv_queue(user->endpoint.qp), SIM_CM_MESSAGES_MAX);
}

bool sim_cm_data_can_send(const struct sim_cm_user *user)
{
    return user->step == SIM_CM_CONNECTED && user->endpoint.posted < count_of(user);
}

void sim_cm_data_send(struct sim_cm_user *user)
{
    uint32_t count =
        sim_world_between(&user->endpoint.rng, 1, count_of(user) - (uint32_t)user->endpoint.posted);

    for (uint32_t i = 0; i < count; i++) {
        uint32_t number = (uint32_t)user->endpoint.posted++;
        struct sim_cm_message *message = &user->attempt->messages[side_of(user)][number];
        struct uro_wqe *wqe = uro_wq_reserve(uro_qp_send_queue(user->endpoint.qp), i);
        const struct sim_memory_layout layout = layout_of(message->length);
        URO_ASSERT(wqe != NULL);
        if (user->reads_max == 0)
            message->read = false;
        *wqe = (struct uro_wqe){ .wr_id = number,
                                 .length = message->length,
                                 .opcode = message->read ? URO_WR_RDMA_READ : URO_WR_SEND,
                                 .flags = URO_SEND_SIGNALED,
                                 .remote_address = user->window_address,
                                 .rkey = user->window_key };
        if (message->read)
            message->seed = user->attempt->seed;
        sim_memory_fill(&user->endpoint.memory, SIM_MEMORY_SENDS, number, &layout,
                        message->read ? 0 : message->length, message->seed);
        wqe->sge_count = (uint16_t)sim_memory_sges(&user->endpoint.memory, SIM_MEMORY_SENDS, number,
                                                   &layout, wqe->sges);
    }
    uro_wq_publish(uro_qp_send_queue(user->endpoint.qp), count);
    uro_qp_ring(uro_engine_shard(user->endpoint.host->engine), user->endpoint.qp);
}

/* Counts the SENDs among the first @count messages of @side. */
static uint32_t sends_among(const struct sim_cm_attempt *attempt, unsigned side, uint32_t count)
{
    uint32_t sends = 0;

    for (uint32_t i = 0; i < count; i++)
        sends += !attempt->messages[side][i].read;
    return sends;
}

bool sim_cm_data_done(const struct sim_cm_user *user)
{
    const struct sim_cm_attempt *attempt = user->attempt;
    unsigned side = side_of(user);
    const struct sim_cm_user *peer = side == 0 ? attempt->server : attempt->caller;

    if (user->endpoint.posted < attempt->message_count[side] ||
        user->endpoint.confirmed < user->endpoint.posted)
        return false;
    /* How many of the peer's messages are READs is known when it has posted them all. */
    return peer == NULL || (peer->endpoint.posted == attempt->message_count[!side] &&
                            user->endpoint.messages_taken ==
                                sends_among(attempt, !side, attempt->message_count[!side]));
}

static void judge_send(struct sim_cm_user *user, const struct uro_cqe *cqe)
{
    uint32_t number = (uint32_t)cqe->wr_id;
    uint32_t at;

    if (number != user->endpoint.confirmed || number >= user->endpoint.posted) {
        sim_cm_fail(user, "a send completed out of turn");
        return;
    }
    user->endpoint.confirmed++;
    const struct sim_cm_message *message = message_of(user, number);
    const struct sim_memory_layout layout = layout_of(message->length);
    if (user->broken)
        sim_cm_fail(user, "a send succeeded after one that failed");
    else if (cqe->opcode != (message->read ? URO_WC_RDMA_READ : URO_WC_SEND))
        sim_cm_fail(user, "a send completed with the opcode of another operation");
    else if (!sim_memory_check(&user->endpoint.memory, SIM_MEMORY_SENDS, number, &layout,
                               message->length, message->seed, &at))
        sim_cm_fail(user,
                    message->read ? "a READ got something else" : "a send changed its buffer");
    user->cm->load->ops_done++;
}

/* Returns the message for receive number user->endpoint.messages_taken. */
static const struct sim_cm_message *next_message(const struct sim_cm_user *user)
{
    const struct sim_cm_attempt *attempt = user->attempt;
    unsigned side = !side_of(user);
    uint64_t left = user->endpoint.messages_taken;

    for (uint32_t i = 0; i < attempt->message_count[side]; i++)
        if (!attempt->messages[side][i].read && left-- == 0)
            return &attempt->messages[side][i];
    return NULL;
}

static void judge_receive(struct sim_cm_user *user, const struct uro_cqe *cqe)
{
    uint32_t number = (uint32_t)(cqe->wr_id & ~SIM_RECV_BIT);
    struct sim_memory_layout layout = layout_of(user->cm->plan->message_max);
    const struct sim_cm_message *message = next_message(user);
    uint32_t at;

    if (number != user->endpoint.messages_taken || message == NULL) {
        sim_cm_fail(user, "a receive completed out of turn");
        return;
    }
    if (cqe->byte_len != message->length || cqe->opcode != URO_WC_RECV ||
        !sim_memory_check(&user->endpoint.memory, SIM_MEMORY_RECVS, number, &layout,
                          message->length, message->seed, &at))
        sim_cm_fail(user, "a receive is not what was sent");
    user->endpoint.messages_taken++;
    if (user->step == SIM_CM_ANSWERED && uro_rng_below(&user->endpoint.rng, 2) == 0) {
        sim_cm_note(user, "has data before the confirmation");
        if (uro_conn_heard(user->conn, user->cm->load->world->now) != 0)
            sim_cm_fail(user, "could not say that it has data");
    }
}

/* Checks that a completion in error has a cause: a side left, or network faults lasted too long. */
static void judge_failed(struct sim_cm_user *user, const struct uro_cqe *cqe)
{
    bool flushed = cqe->status == URO_WC_WR_FLUSH_ERR;
    bool over = user->step == SIM_CM_ENDED || user->step == SIM_CM_LEAVING;

    if (user->attempt->polite && !over)
        sim_cm_fail(user, "a request failed on a perfect network");
    if (!flushed && (cqe->status != URO_WC_RETRY_EXC_ERR || cqe->wr_id & SIM_RECV_BIT))
        sim_cm_fail(user, "a request failed in a way that nobody caused");
    user->broken = true;
    user->cm->load->failures++;
    if (user->step == SIM_CM_CONNECTED && !flushed)
        user->due = user->cm->load->world->now;
}

/* ---- completions --------------------------------------------------------------------------------- */

void sim_cm_data_judge(struct sim_cm_user *user, const struct uro_cqe *cqe)
{
    if (cqe->status != URO_WC_SUCCESS)
        judge_failed(user, cqe);
    else if (cqe->wr_id & SIM_RECV_BIT)
        judge_receive(user, cqe);
    else
        judge_send(user, cqe);
}

/* ---- queue pairs --------------------------------------------------------------------------------- */

static uint32_t pd_of(const struct sim_cm_user *user)
{
    return user->cm->load->pds + PD_FIRST + user->endpoint.number;
}

static void make_memory(struct sim_cm_user *user)
{
    const struct sim_plan_cm *plan = user->cm->plan;
    struct uro_shard *shard = uro_engine_shard(user->endpoint.host->engine);
    uint32_t room = (plan->message_max + 2 * SIM_CM_BESIDE + 7) / 8 * 8;
    const struct sim_memory_section_size sizes[SIM_MEMORY_SECTIONS] = {
        [SIM_MEMORY_SENDS] = { SIM_CM_MESSAGES_MAX, room },
        [SIM_MEMORY_RECVS] = { SIM_CM_MESSAGES_MAX, room },
        [SIM_MEMORY_WINDOWS] = { 1, room },
    };

    sim_memory_init(&user->endpoint.memory, sizes,
                    ADDRESS_SPACE + user->endpoint.number * ADDRESS_STEP + user->life++ * LIFE_STEP,
                    &user->endpoint.rng);
    sim_memory_register(&user->endpoint.memory, shard, SIM_MEMORY_SENDS, pd_of(user),
                        URO_ACCESS_LOCAL_WRITE);
    sim_memory_register(&user->endpoint.memory, shard, SIM_MEMORY_RECVS, pd_of(user),
                        URO_ACCESS_LOCAL_WRITE);
    sim_memory_register(&user->endpoint.memory, shard, SIM_MEMORY_WINDOWS, pd_of(user),
                        URO_ACCESS_REMOTE_READ);
    sim_memory_message(sim_memory_slot(&user->endpoint.memory, SIM_MEMORY_WINDOWS, 0), 0,
                       plan->message_max, user->attempt->seed);
}

static void modify(struct sim_cm_user *user, const struct uro_qp_attr *attr, unsigned mask)
{
    sim_endpoint_modify(&user->endpoint, attr, mask);
}

void sim_cm_qp_make(struct sim_cm_user *user)
{
    struct uro_cq *cq = user->cm->cqs[user->endpoint.side].cq;
    const struct uro_qp_init init = { .type = URO_QPT_RC,
                                      .pd = pd_of(user),
                                      .send_cq = cq,
                                      .recv_cq = cq,
                                      .send_capacity = SIM_CM_MESSAGES_MAX,
                                      .recv_capacity = SIM_CM_MESSAGES_MAX,
                                      .send_sge_max = 1,
                                      .recv_sge_max = 1,
                                      .signal_all = true,
                                      .user = &user->endpoint };
    const struct uro_qp_attr attr = { .state = URO_QPS_INIT,
                                      .port = PORT,
                                      .access = URO_ACCESS_REMOTE_READ };

    make_memory(user);
    sim_endpoint_create(&user->endpoint, &init);
    user->endpoint.alive = true;
    user->broken = false;
    user->endpoint.posted = user->endpoint.confirmed = user->endpoint.messages_taken = 0;
    user->peer_qpn = 0;
    modify(user, &attr, URO_ATTR_PKEY_INDEX | URO_ATTR_PORT | URO_ATTR_ACCESS);
    post_receives(user);
}

/* Moves the queue pair to RTS with the attributes of the connection and the server's own depths, as librdmacm does. */
void sim_cm_qp_connect(struct sim_cm_user *user, const struct sim_cm_answer *own_answer)
{
    const uint8_t *data = user->conn->peer.data;
    struct uro_qp_attr attr = { .state = URO_QPS_RTR };
    unsigned mask = 0;

    memcpy(&user->window_key, data + SIM_CM_DATA_KEY, sizeof user->window_key);
    memcpy(&user->window_address, data + SIM_CM_DATA_ADDRESS, sizeof user->window_address);
    if (uro_conn_qp_attr(user->conn, &attr, &mask) != 0)
        sim_cm_fail(user, "finds no attributes for RTR");
    if (own_answer != NULL)
        attr.max_dest_rd_atomic = own_answer->responder_resources;
    user->peer_qpn = attr.dest_qpn;
    modify(user, &attr, mask);
    attr = (struct uro_qp_attr){ .state = URO_QPS_RTS };
    if (uro_conn_qp_attr(user->conn, &attr, &mask) != 0)
        sim_cm_fail(user, "finds no attributes for RTS");
    if (own_answer != NULL)
        attr.max_rd_atomic = own_answer->initiator_depth;
    user->first_psn = attr.sq_psn;
    user->reads_max = attr.max_rd_atomic;
    modify(user, &attr, mask);
}

void sim_cm_qp_to_error(struct sim_cm_user *user)
{
    const struct uro_qp_attr attr = { .state = URO_QPS_ERR };

    if (user->endpoint.alive)
        modify(user, &attr, 0);
}

void sim_cm_qp_destroy(struct sim_cm_user *user)
{
    struct sim_endpoint *endpoint = &user->endpoint;

    if (!endpoint->alive)
        return;
    endpoint->alive = false;
    sim_endpoint_destroy(endpoint);
    sim_host_events(endpoint->host);
    sim_endpoint_bury(endpoint);
    endpoint->load->lives_begun++;
}

/* ---- frames -------------------------------------------------------------------------------------- */

/* Decodes and encodes a management datagram, and counts MRAs and REJs of its attempt. */
static bool check_message(struct sim_cm *cm, const struct sim_host *host,
                          const struct uro_frame *frame)
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
        return false;
    }
    for (uint32_t i = 0; i < cm->attempt_count; i++) {
        struct sim_cm_attempt *attempt = cm->attempts[i];
        if (attempt->tid != msg.tid)
            continue;
        attempt->extensions += msg.kind == URO_CM_MRA;
        attempt->refusals +=
            msg.kind == URO_CM_REJ && msg.value[URO_CM_REASON] != URO_CONN_REJ_TIMEOUT;
    }
    return true;
}

static uint32_t packets_of(const struct sim_cm *cm, const struct sim_cm_message *message)
{
    return sim_model_packets(message->length, cm->plan->path_mtu);
}

static void check_send(const struct sim_cm_user *user, const struct sim_cm_message *message,
                       uint32_t index, const struct uro_frame *frame)
{
    uint32_t mtu = user->cm->plan->path_mtu;
    uint32_t left = message->length - index * mtu;

    if (!sim_model_carries(frame, index * mtu, left < mtu ? left : mtu, message->seed))
        sim_cm_fail(user, "sent other octets than it was asked to");
}

static void check_request(const struct sim_cm_user *user, const struct uro_frame *frame)
{
    const struct sim_cm_message *messages = user->attempt->messages[side_of(user)];
    int32_t psn = uro_psn_diff(uro_psn_make(frame->bth.psn), uro_psn_make(user->first_psn));

    for (uint32_t i = 0; i < user->endpoint.posted; i++) {
        int32_t packets = (int32_t)packets_of(user->cm, &messages[i]);
        if (psn >= 0 && psn < packets) {
            if ((frame->op->verb == URO_READ) != messages[i].read)
                sim_cm_fail(user, "sent another operation than it was asked to");
            else if (!messages[i].read)
                check_send(user, &messages[i], (uint32_t)psn, frame);
            return;
        }
        psn -= packets;
    }
    sim_cm_fail(user, "sent what nobody asked for");
}

bool sim_cm_wire(struct sim_cm *cm, struct sim_host *host, const struct uro_frame *frame)
{
    unsigned side = host == cm->load->hosts[1];

    if (frame->bth.dest_qpn == URO_CM_MAD_QPN && frame->op->service == URO_UD)
        return check_message(cm, host, frame) || true;
    for (uint32_t i = 0; frame->op->service == URO_RC && i < cm->user_count[side]; i++) {
        const struct sim_cm_user *user = &cm->users[side][i];
        if (!user->endpoint.alive || user->peer_qpn != frame->bth.dest_qpn)
            continue;
        if (frame->op->role == URO_REQUEST)
            check_request(user, frame);
        return true;
    }
    return false;
}
