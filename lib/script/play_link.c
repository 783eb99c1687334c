/* SPDX-License-Identifier: BSD-3-Clause */
/* play_link.c - the script's end of a connection: handles its messages, and runs the steps that
 * exchange several messages.
 */
#include <string.h>

#include "cm/ip_cm.h"
#include "script/play_inside.h"

#define CONNECT_WAIT  URO_MS(2000) /* wait for an answer before sending again */
#define CONNECT_TRIES 5u
#define END_WAIT      URO_MS(500)
#define END_TRIES     3u

void uro_play_fresh(struct uro_play *play)
{
    struct uro_play_link *link = &play->link;
    const uint32_t mad_psn = link->mad_psn;

    *link =
        (struct uro_play_link){ .tid = uro_rng_u64(&play->rng) & ~UINT64_C(1), .mad_psn = mad_psn };
    uro_play_put(play, URO_NAME_LOCAL_ID, uro_rng_u32(&play->rng) | 1);
    uro_play_put(play, URO_NAME_REMOTE_ID, 0);
    uro_play_put(play, URO_NAME_MYQPN, 0x100 + uro_rng_below(&play->rng, 0xfffe00));
    uro_play_put(play, URO_NAME_QPN, 0);
    uro_play_put(play, URO_NAME_PSN, 0);
    uro_play_put(play, URO_NAME_PEERPSN, uro_rng_u32(&play->rng) & 0xffffff);
}

bool uro_play_decode_message(const struct uro_play_frame *frame, struct uro_cm_msg *msg)
{
    struct uro_frame decoded;

    return uro_frame_network(frame->octets, frame->length, &decoded) == URO_FRAME_OK &&
           uro_frame_roce(&decoded) == URO_FRAME_OK && decoded.payload_length == URO_MAD_LEN &&
           uro_cm_decode(decoded.payload, msg) == URO_CM_OK;
}

/* Returns whether the script expects such a message anywhere. */
static bool awaits(const struct uro_play *play, enum uro_cm_kind kind)
{
    for (uint32_t i = 0; i < play->script->step_count; i++) {
        const struct uro_script_step *step = &play->script->steps[i];
        if ((step->kind == URO_STEP_EXPECT || step->kind == URO_STEP_AWAIT) &&
            step->subject.kind == URO_SUBJECT_MESSAGE && step->subject.message == kind)
            return true;
    }
    return false;
}

/* Returns whether a DREP is expected. */
static bool ends(const struct uro_play *play)
{
    return play->closing || (play->step < play->script->step_count &&
                             play->script->steps[play->step].kind == URO_STEP_DISCONNECT);
}

/* Returns whether the message belongs to a connection of an earlier script, or to a connection that
 * the script gave up by "fresh". */
static bool is_foreign(const struct uro_play *play, const struct uro_cm_msg *msg)
{
    const uint64_t id =
        msg->value[msg->kind == URO_CM_SIDR_REP ? URO_CM_REQUEST_ID : URO_CM_REMOTE_ID];

    return msg->kind != URO_CM_REQ && msg->kind != URO_CM_SIDR_REQ &&
           id != uro_play_get(play, URO_NAME_LOCAL_ID) && id != play->link.sent_id;
}

bool uro_play_auto_message(struct uro_play *play, const struct uro_cm_msg *msg)
{
    struct uro_play_link *link = &play->link;

    if (is_foreign(play, msg)) {
        if (msg->kind == URO_CM_DREQ)
            uro_play_send_drep(play, msg);
        return true;
    }
    if (!play->closing && awaits(play, msg->kind))
        return false;
    if (msg->kind == URO_CM_DREQ) {
        link->their_tid = msg->tid;
        (void)uro_play_send_message(play, URO_CM_DREP, NULL);
        return true;
    }
    if (msg->kind == URO_CM_REP && link->confirmed) {
        (void)uro_play_send_message(play, URO_CM_RTU, NULL);
        return true;
    }
    return msg->kind == URO_CM_MRA || (msg->kind == URO_CM_DREP && !ends(play));
}

void uro_play_learn(struct uro_play *play, const struct uro_cm_msg *msg)
{
    struct uro_play_link *link = &play->link;

    link->their_tid = msg->tid;
    if (msg->kind == URO_CM_REQ || msg->kind == URO_CM_REP) {
        uro_play_put(play, URO_NAME_REMOTE_ID, msg->value[URO_CM_LOCAL_ID]);
        uro_play_put(play, URO_NAME_QPN, msg->value[URO_CM_LOCAL_QPN]);
        uro_play_put(play, URO_NAME_PSN, msg->value[URO_CM_STARTING_PSN]);
        link->requested = true;
    }
    if (msg->kind == URO_CM_SIDR_REP)
        uro_play_put(play, URO_NAME_QPN, msg->value[URO_CM_LOCAL_QPN]);
    if (msg->kind == URO_CM_REQ)
        uro_play_learn_words(play, msg->data + URO_IP_CM_LEN, msg->data_length - URO_IP_CM_LEN);
    else
        uro_play_learn_words(play, msg->data, msg->data_length);
    link->confirmed |= msg->kind == URO_CM_RTU;
    link->ended |= msg->kind == URO_CM_DREQ || msg->kind == URO_CM_DREP || msg->kind == URO_CM_REJ;
}

/* Takes the next message if it has that kind. Drops a message of another kind, which is a deviation
 * unless the connection is being closed. */
static bool take(struct uro_play *play, enum uro_cm_kind kind)
{
    struct uro_cm_msg msg;

    while (play->messages.count > 0) {
        const struct uro_play_frame *frame = uro_play_at(&play->messages, 0);
        bool decoded = uro_play_decode_message(frame, &msg);
        if (decoded && msg.kind == kind) {
            uro_play_learn(play, &msg);
            uro_play_pop(&play->messages);
            return true;
        }
        if (!play->closing) {
            char text[URO_PLAY_TEXT_MAX];
            uro_play_frame_text(frame->octets, frame->length, text);
            uro_play_deviate(play, "expected %s, came %s", uro_cm_kind_name(kind), text);
        }
        uro_play_pop(&play->messages);
        if (!play->closing)
            return false;
    }
    return false;
}

/* Sends the message, for the first time or again. Records a deviation if CONNECT_TRIES messages got
 * no answer. */
static void again(struct uro_play *play, enum uro_cm_kind kind, const struct uro_script_step *step)
{
    if (play->tries++ < CONNECT_TRIES) {
        (void)uro_play_send_message(play, kind, step);
        play->due = play->now + CONNECT_WAIT;
    } else {
        uro_play_deviate(play, "no answer to %s", uro_cm_kind_name(kind));
    }
}

bool uro_play_connect(struct uro_play *play, const struct uro_script_step *step)
{
    uint64_t port;

    if (play->part == 0) {
        if (!uro_play_value(play, &step->value, URO_FIELD_PORT, 0, &port))
            return true;
        if (play->link.ended)
            uro_play_fresh(play);
        uro_play_put(play, URO_NAME_PORT, port);
        play->part = 1;
        play->due = play->now;
    }
    if (take(play, URO_CM_REP)) {
        (void)uro_play_send_message(play, URO_CM_RTU, NULL);
        return true;
    }
    if (!play->deviated && play->now >= play->due)
        again(play, URO_CM_REQ, step);
    return play->deviated;
}

/* Runs an ACCEPT step. Accepts a REQ for any service port. */
bool uro_play_accept(struct uro_play *play, const struct uro_script_step *step)
{
    if (play->part == 0) {
        play->due = URO_TIME_NEVER;
        if (take(play, URO_CM_REQ)) {
            play->part = 1;
            play->due = play->now;
        }
    }
    if (play->part == 1) {
        if (take(play, URO_CM_RTU))
            return true;
        if (!play->deviated && play->now >= play->due)
            again(play, URO_CM_REP, step);
    }
    return play->deviated;
}

bool uro_play_disconnect(struct uro_play *play)
{
    if (take(play, URO_CM_DREP) || uro_play_get(play, URO_NAME_REMOTE_ID) == 0)
        return true;
    if (play->now < play->due && play->part > 0)
        return false;
    if (play->part++ == END_TRIES)
        return true;
    (void)uro_play_send_message(play, URO_CM_DREQ, NULL);
    play->due = play->now + END_WAIT;
    return false;
}
