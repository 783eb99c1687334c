/* SPDX-License-Identifier: BSD-3-Clause */
/* load_cm_data.c - what goes over connections, and its judgement; see load_cm.h. */
#include <string.h>

#include "io/sim/load_cm.h"

unsigned uro_load_cm_data_side(const struct uro_load_cm_user *user)
{
    return user->calls ? 0 : 1;
}

static const struct uro_load_cm_message *message_of(const struct uro_load_cm_user *user, uint32_t i)
{
    return &user->attempt->messages[uro_load_cm_data_side(user)][i];
}

static uint32_t count_of(const struct uro_load_cm_user *user)
{
    return user->attempt->message_count[uro_load_cm_data_side(user)];
}

static struct uro_arena_layout layout_of(uint32_t length)
{
    return (struct uro_arena_layout){ .count = 1, .pieces = { { URO_LOAD_CM_BESIDE, length } } };
}

/* ---- posting ----------------------------------------------------------------------------------- */

/* As many as there can ever be: nobody has to wait for a receiver. */
void uro_load_cm_data_receives(struct uro_load_cm_user *user)
{
    uint32_t most = user->cm->plan->message_max;
    const struct uro_arena_layout layout = layout_of(most);

    for (uint32_t i = 0; i < URO_LOAD_CM_MESSAGES_MAX; i++) {
        struct uro_rqe *rqe = uro_wq_reserve(uro_qp_recv_queue(user->qp), i);
        URO_ASSERT(rqe != NULL);
        uro_arena_fill(&user->arena, URO_ARENA_RECVS, i, &layout, 0, 0);
        rqe->wr_id = i | URO_LOAD_RECV_BIT;
        rqe->length = most;
        rqe->sge_count = uro_arena_sges(&user->arena, URO_ARENA_RECVS, i, &layout, rqe->sges);
    }
    uro_wq_publish(uro_qp_recv_queue(user->qp), URO_LOAD_CM_MESSAGES_MAX);
}

bool uro_load_cm_data_can_send(const struct uro_load_cm_user *user)
{
    return user->step == URO_LOAD_CM_CONNECTED && user->posted < count_of(user);
}

void uro_load_cm_data_send(struct uro_load_cm_user *user)
{
    uint32_t count = uro_world_between(&user->rng, 1, count_of(user) - user->posted);

    for (uint32_t i = 0; i < count; i++) {
        struct uro_load_cm_message *message =
            &user->attempt->messages[uro_load_cm_data_side(user)][user->posted];
        struct uro_wqe *wqe = uro_wq_reserve(uro_qp_send_queue(user->qp), i);
        const struct uro_arena_layout layout = layout_of(message->length);
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
        uro_arena_fill(&user->arena, URO_ARENA_SENDS, user->posted, &layout,
                       message->read ? 0 : message->length, message->seed);
        wqe->sge_count = (uint16_t)uro_arena_sges(&user->arena, URO_ARENA_SENDS, user->posted,
                                                  &layout, wqe->sges);
        user->posted++;
    }
    uro_wq_publish(uro_qp_send_queue(user->qp), count);
    uro_qp_ring(uro_engine_shard(user->station->engine), user->qp);
}

/* ---- completions ------------------------------------------------------------------------------- */

/* SENDs among the first @count messages of @side. */
static uint32_t sends_among(const struct uro_load_cm_attempt *attempt, unsigned side,
                            uint32_t count)
{
    uint32_t sends = 0;

    for (uint32_t i = 0; i < count; i++)
        sends += !attempt->messages[side][i].read;
    return sends;
}

bool uro_load_cm_data_done(const struct uro_load_cm_user *user)
{
    const struct uro_load_cm_attempt *attempt = user->attempt;
    unsigned side = uro_load_cm_data_side(user);
    const struct uro_load_cm_user *peer = side == 0 ? attempt->host : attempt->caller;

    if (user->posted < attempt->message_count[side] || user->confirmed < user->posted)
        return false;
    /* What the other side sends as READs is known when it has posted them all. */
    return peer == NULL ||
           (peer->posted == attempt->message_count[!side] &&
            user->taken == sends_among(attempt, !side, attempt->message_count[!side]));
}

static void judge_send(struct uro_load_cm_user *user, const struct uro_cqe *cqe)
{
    uint32_t number = (uint32_t)cqe->wr_id;
    uint32_t at;

    if (number != user->confirmed || number >= user->posted) {
        uro_load_cm_fail(user, "a send completed out of turn");
        return;
    }
    user->confirmed++;
    const struct uro_load_cm_message *message = message_of(user, number);
    const struct uro_arena_layout layout = layout_of(message->length);
    if (user->broken)
        uro_load_cm_fail(user, "a send succeeded after one that failed");
    else if (cqe->opcode != (message->read ? URO_WC_RDMA_READ : URO_WC_SEND))
        uro_load_cm_fail(user, "a send completed with the opcode of another operation");
    else if (!uro_arena_check(&user->arena, URO_ARENA_SENDS, number, &layout, message->length,
                              message->seed, &at))
        uro_load_cm_fail(user,
                         message->read ? "a READ got something else" : "a send changed its buffer");
    user->cm->load->ops_done++;
}

/* The message that the receive number user->taken is for. */
static const struct uro_load_cm_message *next_message(const struct uro_load_cm_user *user)
{
    const struct uro_load_cm_attempt *attempt = user->attempt;
    unsigned side = !uro_load_cm_data_side(user);
    uint32_t left = user->taken;

    for (uint32_t i = 0; i < attempt->message_count[side]; i++)
        if (!attempt->messages[side][i].read && left-- == 0)
            return &attempt->messages[side][i];
    return NULL;
}

static void judge_receive(struct uro_load_cm_user *user, const struct uro_cqe *cqe)
{
    uint32_t number = (uint32_t)(cqe->wr_id & ~URO_LOAD_RECV_BIT);
    struct uro_arena_layout layout = layout_of(user->cm->plan->message_max);
    const struct uro_load_cm_message *message = next_message(user);
    uint32_t at;

    if (number != user->taken || message == NULL) {
        uro_load_cm_fail(user, "a receive completed out of turn");
        return;
    }
    if (cqe->byte_len != message->length || cqe->opcode != URO_WC_RECV ||
        !uro_arena_check(&user->arena, URO_ARENA_RECVS, number, &layout, message->length,
                         message->seed, &at))
        uro_load_cm_fail(user, "a receive is not what was sent");
    user->taken++;
    if (user->step == URO_LOAD_CM_ANSWERED && uro_rng_below(&user->rng, 2) == 0) {
        uro_load_cm_note(user, "has data before the confirmation");
        if (uro_conn_heard(user->conn, user->cm->load->world->now) != 0)
            uro_load_cm_fail(user, "could not say that it has data");
    }
}

/* Somebody has left, or the network was bad for too long. */
static void judge_failed(struct uro_load_cm_user *user, const struct uro_cqe *cqe)
{
    bool flushed = cqe->status == URO_WC_WR_FLUSH_ERR;
    bool over = user->step == URO_LOAD_CM_ENDED || user->step == URO_LOAD_CM_LEAVING;

    if (user->attempt->polite && !over)
        uro_load_cm_fail(user, "a request failed on a perfect network");
    if (!flushed && (cqe->status != URO_WC_RETRY_EXC_ERR || cqe->wr_id & URO_LOAD_RECV_BIT))
        uro_load_cm_fail(user, "a request failed in a way that nobody caused");
    user->broken = true;
    user->cm->load->failures++;
    if (user->step == URO_LOAD_CM_CONNECTED && !flushed)
        user->due = user->cm->load->world->now;
}

static struct uro_load_cm_user *find(struct uro_load_cm *cm, unsigned side, uint32_t qpn)
{
    for (uint32_t i = 0; i < cm->user_count[side]; i++)
        if (cm->users[side][i].alive && cm->users[side][i].qpn == qpn)
            return &cm->users[side][i];
    return NULL;
}

void uro_load_cm_data_judge(struct uro_load_cq *cq, const struct uro_cqe *cqe)
{
    struct uro_load_cm *cm = cq->owner;
    unsigned side = cq == &cm->cqs[1];
    struct uro_load_cm_user *user = find(cm, side, cqe->qpn);

    if (user == NULL) {
        uro_world_fail(cm->load->world, "completion of CM qp 0x%06x, which is no more", cqe->qpn);
        return;
    }
    if (cqe->status != URO_WC_SUCCESS)
        judge_failed(user, cqe);
    else if (cqe->wr_id & URO_LOAD_RECV_BIT)
        judge_receive(user, cqe);
    else
        judge_send(user, cqe);
    uro_load_cm_on_progress(user->attempt);
    uro_load_cm_hear(cm->load->sites[side]);
}
