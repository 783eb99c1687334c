/* SPDX-License-Identifier: BSD-3-Clause */
/* cm_wire.c - frames of connections, and the messages that make them, against what was asked
 * for; see cm.h.
 */
#include <string.h>

#include "core/psn.h"
#include "sim/oracle/model.h"
#include "sim/work/cm.h"

/* Octets -> values -> octets; and who asked for time. */
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
    const struct sim_cm_message *messages = user->attempt->messages[sim_cm_data_side(user)];
    int32_t psn = uro_psn_diff(uro_psn_make(frame->bth.psn), uro_psn_make(user->first_psn));

    for (uint32_t i = 0; i < user->posted; i++) {
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
