/* SPDX-License-Identifier: BSD-3-Clause */
/* play_match.c - compares received packets and messages with what a step expects, field by
 * field. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cm/ip_cm.h"
#include "script/play_inside.h"

/* The differences between a frame and a step, as text. */
struct differences {
    struct uro_play *play;
    uint64_t base; /* base of relative PSNs */
    uint32_t count;
    size_t used;
    char text[600];
};

/* A macro, because the format must be a literal for the compiler to check it. */
#define ADD(d, ...)                                                                                \
    added((d), snprintf((d)->text + (d)->used, sizeof(d)->text - (d)->used, __VA_ARGS__))

static void added(struct differences *d, int length)
{
    d->used += length > 0 ? (size_t)length : 0;
    if (d->used >= sizeof d->text)
        d->used = sizeof d->text - 1;
}

static void add_number(struct differences *d, enum uro_field field, uint64_t number)
{
    const char *word = uro_field_word_of(field, number);

    if (field == URO_FIELD_PSN)
        ADD(d, "%" PRIu64 " (%+" PRId32 ")", number,
            (int32_t)((uint32_t)(number - d->base) << 8) / 256);
    else if (uro_field_rows[field].bits > 16 || word != NULL)
        ADD(d, "0x%" PRIx64, number);
    else
        ADD(d, "%" PRIu64, number);
    if (word != NULL)
        ADD(d, " (%s)", word);
}

static void differ(struct differences *d, enum uro_field field, uint64_t is, uint64_t low,
                   uint64_t span)
{
    ADD(d, "%s%s is ", d->count++ > 0 ? "; " : "", uro_field_rows[field].name);
    add_number(d, field, is);
    ADD(d, ", not ");
    add_number(d, field, low);
    if (span > 0) {
        ADD(d, "..");
        add_number(d, field, low + span);
    }
}

static void differ_text(struct differences *d, enum uro_field field, const char *how)
{
    ADD(d, "%s%s %s", d->count++ > 0 ? "; " : "", uro_field_rows[field].name, how);
}

static void compare_number(struct differences *d, const struct uro_script_field *field, uint64_t is)
{
    uint64_t low = 0;

    if (!uro_play_value(d->play, &field->value, field->field, d->base, &low)) {
        d->count++;
        return;
    }
    if (((is - low) & uro_field_max(field->field)) > field->value.span)
        differ(d, field->field, is, low, field->value.span);
}

static void compare_address(struct differences *d, const struct uro_script_field *field,
                            const struct uro_gid *is)
{
    struct uro_gid wanted;

    if (!uro_script_address(&field->text, &wanted) || !uro_gid_equal(&wanted, is))
        differ_text(d, field->field, "is another");
}

/* ---- packets --------------------------------------------------------------------------------- */

static void compare_fill(struct differences *d, const struct uro_script_field *field,
                         const struct uro_packet *packet)
{
    uint64_t from = 0;

    if (!uro_play_value(d->play, &field->value, field->field, 0, &from))
        d->count++;
    for (uint32_t i = 0; i < packet->length; i++)
        if (packet->octets[i] != uro_packet_pattern(from + i)) {
            ADD(d, "%sbyte %" PRIu32 " of the payload is 0x%02x, not 0x%02x of the pattern",
                d->count++ > 0 ? "; " : "", i, packet->octets[i], uro_packet_pattern(from + i));
            return;
        }
}

static void compare_packet_field(struct differences *d, const struct uro_script_field *field,
                                 const struct uro_packet *packet)
{
    const unsigned ext = uro_field_rows[field->field].ext;
    uint8_t octets[URO_SCRIPT_TEXT_MAX];

    if (ext != 0 && (packet->op->ext & ext) == 0) {
        differ_text(d, field->field, "is not in this packet");
    } else if (field->field == URO_FIELD_PAYLOAD) {
        uint32_t length = uro_play_unquote(&field->text, octets, sizeof octets);
        if (length != packet->length || memcmp(octets, packet->octets, length) != 0)
            differ_text(d, field->field, "is another");
    } else if (field->field == URO_FIELD_FILL) {
        compare_fill(d, field, packet);
    } else if (uro_field_rows[field->field].text) {
        compare_address(d, field, field->field == URO_FIELD_FROM ? &packet->from : &packet->to);
    } else {
        compare_number(d, field, packet->value[field->field]);
    }
}

static bool decode(const struct uro_play_frame *frame, struct uro_frame *to)
{
    return uro_frame_network(frame->octets, frame->length, to) == URO_FRAME_OK &&
           uro_frame_roce(to) == URO_FRAME_OK;
}

/* ---- messages -------------------------------------------------------------------------------- */

static void compare_message_field(struct differences *d, const struct uro_script_field *field,
                                  const struct uro_cm_msg *msg)
{
    const bool addressed = msg->kind == URO_CM_REQ || msg->kind == URO_CM_SIDR_REQ;
    const uint8_t *data = msg->data + (addressed ? URO_IP_CM_LEN : 0);
    uint8_t octets[URO_SCRIPT_TEXT_MAX];

    if (field->field == URO_FIELD_PRIVATE) {
        uint32_t length = uro_play_unquote(&field->text, octets, sizeof octets);
        if (length > URO_CM_DATA_MAX - URO_IP_CM_LEN || memcmp(data, octets, length) != 0)
            differ_text(d, field->field, "is another");
    } else if (uro_field_rows[field->field].text) {
        compare_address(d, field,
                        field->field == URO_FIELD_LOCAL_GID ? &msg->local_gid : &msg->remote_gid);
    } else if (field->field == URO_FIELD_TID) {
        compare_number(d, field, msg->tid);
    } else if (field->field == URO_FIELD_PORT) {
        compare_number(d, field, msg->value[URO_CM_SERVICE_ID] & 0xffff);
    } else {
        compare_number(d, field, msg->value[field->field - URO_FIELD_CM]);
    }
}

/* ---------------------------------------------------------------------------------------------- */

bool uro_play_is(const struct uro_play *play, const struct uro_script_subject *subject,
                 const struct uro_play_frame *frame)
{
    struct uro_cm_msg msg;
    struct uro_frame decoded;

    (void)play;
    if (subject->kind == URO_SUBJECT_MESSAGE)
        return uro_play_decode_message(frame, &msg) && msg.kind == subject->message;
    return decode(frame, &decoded) &&
           (subject->opcodes[decoded.bth.opcode / 64] >> decoded.bth.opcode % 64 & 1) != 0;
}

static void compare(struct differences *d, const struct uro_script_step *step,
                    const struct uro_play_frame *frame)
{
    const struct uro_script_field *fields = &d->play->script->fields[step->field_first];
    struct uro_packet packet;
    struct uro_frame decoded;
    struct uro_cm_msg msg;

    if (step->subject.kind == URO_SUBJECT_MESSAGE) {
        if (uro_play_decode_message(frame, &msg))
            for (uint32_t i = 0; i < step->field_count; i++)
                compare_message_field(d, &fields[i], &msg);
        return;
    }
    if (!decode(frame, &decoded))
        return;
    uro_packet_read(&packet, &decoded);
    d->base = uro_play_base(d->play, packet.op, false);
    for (uint32_t i = 0; i < step->field_count; i++)
        compare_packet_field(d, &fields[i], &packet);
}

bool uro_play_match(struct uro_play *play, const struct uro_script_step *step,
                    const struct uro_play_frame *frame, bool report)
{
    struct differences d = { .play = play };
    char text[URO_PLAY_TEXT_MAX];

    if (!uro_play_is(play, &step->subject, frame))
        d.count++, ADD(&d, "it is another packet");
    else
        compare(&d, step, frame);
    if (d.count > 0 && report) {
        uro_play_frame_text(frame->octets, frame->length, text);
        uro_play_deviate(play, "%.*s: came %s; %s", (int)step->text.length, step->text.start, text,
                         d.text);
    }
    return d.count == 0;
}
