/* SPDX-License-Identifier: BSD-3-Clause */
/* cm_data.c - what goes over connections, and its judgement; see cm.h. */
#include <string.h>

#include "sim/work/cm.h"

unsigned sim_cm_data_side(const struct sim_cm_user *user)
{
    return user->calls ? 0 : 1;
}

static const struct sim_cm_message *message_of(const struct sim_cm_user *user, uint32_t i)
{
    return &user->attempt->messages[sim_cm_data_side(user)][i];
}

static uint32_t count_of(const struct sim_cm_user *user)
{
    return user->attempt->message_count[sim_cm_data_side(user)];
}

static struct sim_memory_layout layout_of(uint32_t length)
{
    return (struct sim_memory_layout){ .count = 1, .pieces = { { SIM_CM_BESIDE, length } } };
}

/* ---- posting ----------------------------------------------------------------------------------- */

/* As many as there can ever be: nobody has to wait for a receiver. */
void sim_cm_data_receives(struct sim_cm_user *user)
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
    return user->step == SIM_CM_CONNECTED && user->posted < count_of(user);
}

void sim_cm_data_send(struct sim_cm_user *user)
{
    uint32_t count = sim_world_between(&user->rng, 1, count_of(user) - user->posted);

    for (uint32_t i = 0; i < count; i++) {
        struct sim_cm_message *message =
            &user->attempt->messages[sim_cm_data_side(user)][user->posted];
        struct uro_wqe *wqe = uro_wq_reserve(uro_qp_send_queue(user->endpoint.qp), i);
        const struct sim_memory_layout layout = layout_of(message->length);
        URO_ASSERT(wqe != NULL);
        if (user->reads_max == 0)
            message->read = false;
        *wqe = (struct uro_wqe){ .wr_id = user->posted,
                                 .length = message->length,
                                 .opcode = message->read ? URO_WR_RDMA_READ : URO_WR_SEND,
                                 .flags = URO_SEND_SIGNALED,
                                 .remote_address = user->window_address,
                                 .rkey = user->window_key };
        if (message->read)
            message->seed = user->attempt->seed;
        sim_memory_fill(&user->endpoint.memory, SIM_MEMORY_SENDS, user->posted, &layout,
                        message->read ? 0 : message->length, message->seed);
        wqe->sge_count = (uint16_t)sim_memory_sges(&user->endpoint.memory, SIM_MEMORY_SENDS,
                                                   user->posted, &layout, wqe->sges);
        user->posted++;
    }
    uro_wq_publish(uro_qp_send_queue(user->endpoint.qp), count);
    uro_qp_ring(uro_engine_shard(user->endpoint.host->engine), user->endpoint.qp);
}

/* ---- completions ------------------------------------------------------------------------------- */

/* SENDs among the first @count messages of @side. */
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
    unsigned side = sim_cm_data_side(user);
    const struct sim_cm_user *peer = side == 0 ? attempt->server : attempt->caller;

    if (user->posted < attempt->message_count[side] || user->confirmed < user->posted)
        return false;
    /* What the other side sends as READs is known when it has posted them all. */
    return peer == NULL ||
           (peer->posted == attempt->message_count[!side] &&
            user->taken == sends_among(attempt, !side, attempt->message_count[!side]));
}

static void judge_send(struct sim_cm_user *user, const struct uro_cqe *cqe)
{
    uint32_t number = (uint32_t)cqe->wr_id;
    uint32_t at;

    if (number != user->confirmed || number >= user->posted) {
        sim_cm_fail(user, "a send completed out of turn");
        return;
    }
    user->confirmed++;
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

/* The message that the receive number user->taken is for. */
static const struct sim_cm_message *next_message(const struct sim_cm_user *user)
{
    const struct sim_cm_attempt *attempt = user->attempt;
    unsigned side = !sim_cm_data_side(user);
    uint32_t left = user->taken;

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

    if (number != user->taken || message == NULL) {
        sim_cm_fail(user, "a receive completed out of turn");
        return;
    }
    if (cqe->byte_len != message->length || cqe->opcode != URO_WC_RECV ||
        !sim_memory_check(&user->endpoint.memory, SIM_MEMORY_RECVS, number, &layout,
                          message->length, message->seed, &at))
        sim_cm_fail(user, "a receive is not what was sent");
    user->taken++;
    if (user->step == SIM_CM_ANSWERED && uro_rng_below(&user->rng, 2) == 0) {
        sim_cm_note(user, "has data before the confirmation");
        if (uro_conn_heard(user->conn, user->cm->load->world->now) != 0)
            sim_cm_fail(user, "could not say that it has data");
    }
}

/* Somebody has left, or the network was bad for too long. */
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

void sim_cm_data_judge(struct sim_endpoint *endpoint, const struct uro_cqe *cqe)
{
    struct sim_cm_user *user = URO_CONTAINER_OF(endpoint, struct sim_cm_user, endpoint);

    if (cqe->status != URO_WC_SUCCESS)
        judge_failed(user, cqe);
    else if (cqe->wr_id & SIM_RECV_BIT)
        judge_receive(user, cqe);
    else
        judge_send(user, cqe);
    sim_cm_on_progress(user->attempt);
    sim_cm_hear(user->cm->load->at_hosts[user->side]);
}
