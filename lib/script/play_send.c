/* SPDX-License-Identifier: BSD-3-Clause */
/* play_send.c - makes frames from steps. Fields that a step leaves out get the protocol's default
 * values.
 */
#include <string.h>

#include "cm/ip_cm.h"
#include "script/play_inside.h"
#include "wire/icmp.h"

#define QKEY_RDMA_CM     0x01234567u /* Q_Key of rdma_cm's datagram services */
#define RESPONSE_TIMEOUT 20u         /* 4.3 s */
#define ACK_TIMEOUT      14u         /* 67 ms */
#define PATH_MTU_1024    3u
#define RESOURCES        4u
#define RETRIES          7u
#define MAX_RETRIES      15u

/* ---- packets --------------------------------------------------------------------------------- */

static bool put_text(struct uro_packet *packet, const struct uro_script_field *field,
                     uint8_t octets[static URO_SCRIPT_TEXT_MAX])
{
    if (field->field == URO_FIELD_PAYLOAD || field->field == URO_FIELD_BYTES) {
        packet->octets = octets;
        packet->length = uro_play_unquote(&field->text, octets, URO_SCRIPT_TEXT_MAX);
        return true;
    }
    return uro_script_address(&field->text,
                              field->field == URO_FIELD_FROM ? &packet->from : &packet->to);
}

static bool put_fields(struct uro_play *play, const struct uro_script_step *step,
                       struct uro_packet *packet, uint8_t octets[static URO_SCRIPT_TEXT_MAX])
{
    const struct uro_script_field *fields = &play->script->fields[step->field_first];
    const uint64_t base = packet->op == NULL ? 0 : uro_play_base(play, packet->op, true);
    bool has_length = false;

    for (uint32_t i = 0; i < step->field_count; i++) {
        const enum uro_field field = fields[i].field;
        bool good = uro_field_rows[field].text ? put_text(packet, &fields[i], octets)
                                               : uro_play_value(play, &fields[i].value, field, base,
                                                                &packet->value[field]);
        if (!good)
            return false;
        if (field == URO_FIELD_LENGTH)
            packet->length = (uint32_t)packet->value[field];
        has_length |= field == URO_FIELD_DMALEN;
    }
    if (!has_length)
        packet->value[URO_FIELD_DMALEN] = packet->length;
    if (packet->length <= URO_PACKET_BYTES_MAX - 64)
        return true;
    uro_play_deviate(play, "a packet cannot have more than %u bytes of payload",
                     URO_PACKET_BYTES_MAX - 64);
    return false;
}

bool uro_play_out_full(const struct uro_play *play)
{
    return play->out.count == URO_PLAY_OUTBOX;
}

static void send(struct uro_play *play, const struct uro_packet *packet)
{
    struct uro_play_frame *to = uro_play_push(&play->out);

    if (to == NULL) {
        uro_play_print(play, "not sent: too many packets wait to be sent");
        return;
    }
    to->length = uro_packet_write(packet, to->octets);
    uro_play_print_frame(play, "send   ", to->octets, to->length);
}

static void address(const struct uro_play *play, struct uro_packet *packet)
{
    packet->from = play->config.address;
    packet->to = play->config.peer;
    packet->from_mac = play->config.mac;
    packet->to_mac = play->resolve.hop->mac;
}

static bool send_packet(struct uro_play *play, const struct uro_script_step *step,
                        const struct uro_script_subject *subject)
{
    uint8_t octets[URO_SCRIPT_TEXT_MAX];
    struct uro_packet packet;

    uro_packet_init(&packet, subject->opcode);
    address(play, &packet);
    packet.value[URO_FIELD_QPN] = uro_play_get(play, URO_NAME_QPN);
    packet.value[URO_FIELD_SQPN] = uro_play_get(play, URO_NAME_MYQPN);
    packet.value[URO_FIELD_QKEY] = QKEY_RDMA_CM;
    packet.value[URO_FIELD_PSN] = uro_play_base(play, packet.op, true);
    if (subject->kind == URO_SUBJECT_RAW) {
        packet.op = NULL;
        packet.value[URO_FIELD_ICRC] = URO_PACKET_ICRC_NONE;
    }
    if (!put_fields(play, step, &packet, octets))
        return false;
    if (uro_gid_is_multicast(&packet.to))
        packet.to_mac = uro_mac_multicast(&packet.to);
    send(play, &packet);
    return true;
}

bool uro_play_send_step(struct uro_play *play, const struct uro_script_step *step)
{
    if (step->subject.kind == URO_SUBJECT_MESSAGE)
        return uro_play_send_message(play, step->subject.message, step);
    return send_packet(play, step, &step->subject);
}

void uro_play_send_answer(struct uro_play *play, const struct uro_script_step *step, uint64_t its)
{
    uro_play_put(play, URO_NAME_ITS, its);
    (void)send_packet(play, step, &step->answer);
}

/* ---- messages -------------------------------------------------------------------------------- */

static bool is_answer(enum uro_cm_kind kind)
{
    return kind == URO_CM_REP || kind == URO_CM_REJ || kind == URO_CM_MRA || kind == URO_CM_DREP;
}

static void describe(const struct uro_play *play, enum uro_cm_kind kind, struct uro_cm_msg *msg)
{
    const bool datagram = kind == URO_CM_SIDR_REQ;
    const struct uro_play_link *link = &play->link;
    const uint16_t port = (uint16_t)uro_play_get(play, URO_NAME_PORT);
    uint64_t *v = msg->value;

    *msg =
        (struct uro_cm_msg){ .kind = kind, .tid = is_answer(kind) ? link->their_tid : link->tid };
    if (kind == URO_CM_DREQ)
        msg->tid = link->tid + 1;
    v[URO_CM_LOCAL_ID] = v[URO_CM_REQUEST_ID] = uro_play_get(play, URO_NAME_LOCAL_ID);
    if (kind != URO_CM_REQ)
        v[URO_CM_REMOTE_ID] = uro_play_get(play, URO_NAME_REMOTE_ID);
    v[URO_CM_SERVICE_ID] = uro_ip_cm_service(datagram ? URO_IP_CM_UDP : URO_IP_CM_TCP, port);
    v[URO_CM_CA_GUID] = uro_guid_from_mac(&play->config.mac);
    v[URO_CM_LOCAL_QPN] = uro_play_get(play, URO_NAME_MYQPN);
    v[URO_CM_REMOTE_QPN] = uro_play_get(play, URO_NAME_QPN);
    v[URO_CM_STARTING_PSN] = uro_play_get(play, URO_NAME_PEERPSN);
    v[URO_CM_RESPONDER_RESOURCES] = v[URO_CM_INITIATOR_DEPTH] = RESOURCES;
    v[URO_CM_REMOTE_RESPONSE_TIMEOUT] = v[URO_CM_LOCAL_RESPONSE_TIMEOUT] = RESPONSE_TIMEOUT;
    v[URO_CM_RETRY_COUNT] = v[URO_CM_RNR_RETRY_COUNT] = RETRIES;
    v[URO_CM_PKEY] = URO_PKEY_DEFAULT;
    v[URO_CM_PATH_MTU] = PATH_MTU_1024;
    v[URO_CM_MAX_RETRIES] = MAX_RETRIES;
    v[URO_CM_HOP_LIMIT] = 64;
    v[URO_CM_LOCAL_ACK_TIMEOUT] = ACK_TIMEOUT;
    v[URO_CM_LOCAL_LID] = v[URO_CM_REMOTE_LID] = 0xffff;
    msg->local_gid = play->config.address;
    msg->remote_gid = play->config.peer;
}

static bool put_message_text(struct uro_cm_msg *msg, const struct uro_script_field *field,
                             struct uro_script_text *private)
{
    if (field->field == URO_FIELD_PRIVATE) {
        *private = field->text;
        return true;
    }
    return uro_script_address(&field->text, field->field == URO_FIELD_LOCAL_GID ? &msg->local_gid
                                                                                : &msg->remote_gid);
}

static bool change(struct uro_play *play, const struct uro_script_step *step,
                   struct uro_cm_msg *msg, struct uro_script_text *private)
{
    const struct uro_script_field *fields = &play->script->fields[step->field_first];

    for (uint32_t i = 0; i < step->field_count; i++) {
        const enum uro_field field = fields[i].field;
        uint64_t number = 0;
        bool good = uro_field_rows[field].text
                        ? put_message_text(msg, &fields[i], private)
                        : uro_play_value(play, &fields[i].value, field, 0, &number);
        if (!good)
            return false;
        if (field == URO_FIELD_TID)
            msg->tid = number;
        else if (field == URO_FIELD_PORT)
            msg->value[URO_CM_SERVICE_ID] =
                (msg->value[URO_CM_SERVICE_ID] & ~UINT64_C(0xffff)) | number;
        else if (!uro_field_rows[field].text)
            msg->value[field - URO_FIELD_CM] = number;
    }
    return true;
}

/* Writes the private data: in a REQ or SIDR_REQ the addresses that rdma_cm puts before the
 * application's bytes, then @text. */
static void put_private(const struct uro_play *play, const struct uro_script_text *text,
                        struct uro_cm_msg *msg)
{
    const bool addressed = msg->kind == URO_CM_REQ || msg->kind == URO_CM_SIDR_REQ;
    const struct uro_ip_cm header = {
        .source = msg->kind == URO_CM_REQ ? msg->local_gid : play->config.address,
        .dest = msg->kind == URO_CM_REQ ? msg->remote_gid : play->config.peer,
        .source_port = 0xc000
    };
    const uint32_t max = uro_cm_data_max(msg->kind);

    if (addressed) {
        uro_ip_cm_encode(msg->data, &header);
        msg->data_length = URO_IP_CM_LEN;
    }
    msg->data_length +=
        uro_play_unquote(text, msg->data + msg->data_length, max - msg->data_length);
}

static void note(struct uro_play *play, enum uro_cm_kind kind, const struct uro_cm_msg *msg)
{
    struct uro_play_link *link = &play->link;

    if (kind == URO_CM_REQ) {
        link->requested = true;
        /* The endpoint will use the numbers that the script sent. */
        uro_play_put(play, URO_NAME_LOCAL_ID, msg->value[URO_CM_LOCAL_ID]);
        uro_play_put(play, URO_NAME_MYQPN, msg->value[URO_CM_LOCAL_QPN]);
        uro_play_put(play, URO_NAME_PEERPSN, msg->value[URO_CM_STARTING_PSN]);
    }
    link->sent_id = msg->value[kind == URO_CM_SIDR_REQ ? URO_CM_REQUEST_ID : URO_CM_LOCAL_ID];
    if (link->sent_id != uro_play_get(play, URO_NAME_LOCAL_ID))
        return; /* message of a connection that the script invented */
    link->confirmed |= kind == URO_CM_RTU;
    link->ended |= kind == URO_CM_DREP || kind == URO_CM_REJ;
}

static void send_mad(struct uro_play *play, const struct uro_cm_msg *msg)
{
    uint8_t octets[URO_MAD_LEN];
    struct uro_packet packet;

    uro_cm_encode(octets, msg);
    uro_packet_init(&packet, (uint8_t)uro_opcode_by_name("UD_SEND_ONLY"));
    address(play, &packet);
    packet.value[URO_FIELD_QPN] = packet.value[URO_FIELD_SQPN] = URO_CM_MAD_QPN;
    packet.value[URO_FIELD_QKEY] = URO_CM_QKEY;
    packet.value[URO_FIELD_PSN] = play->link.mad_psn++ & 0xffffff;
    packet.octets = octets;
    packet.length = URO_MAD_LEN;
    send(play, &packet);
}

void uro_play_send_drep(struct uro_play *play, const struct uro_cm_msg *dreq)
{
    struct uro_cm_msg msg = { .kind = URO_CM_DREP, .tid = dreq->tid };

    msg.value[URO_CM_LOCAL_ID] = dreq->value[URO_CM_REMOTE_ID];
    msg.value[URO_CM_REMOTE_ID] = dreq->value[URO_CM_LOCAL_ID];
    send_mad(play, &msg);
}

bool uro_play_send_message(struct uro_play *play, enum uro_cm_kind kind,
                           const struct uro_script_step *step)
{
    struct uro_script_text private = { 0 };
    struct uro_cm_msg msg;

    describe(play, kind, &msg);
    if (step != NULL && !change(play, step, &msg, &private))
        return false;
    put_private(play, &private, &msg);
    note(play, kind, &msg);
    send_mad(play, &msg);
    return true;
}
