/* SPDX-License-Identifier: BSD-3-Clause */
/* play_print.c - the lines that a play prints: the time, the packet, and deviations. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/utf8.h"
#include "script/play_inside.h"
#include "wire/text.h"

static void print_line(struct uro_play *play, const char *head, const char *format,
                       va_list arguments)
{
    const uro_time since = play->now - play->began;
    int used = snprintf(play->line, sizeof play->line, "%4" PRIu64 ".%06" PRIu64 "  %s",
                        since / 1000000000u, since / 1000u % 1000000u, head);

    (void)vsnprintf(play->line + used, sizeof play->line - (size_t)used, format, arguments);
    (void)uro_utf8_mask(play->line);
    if (play->config.print != NULL)
        play->config.print(play->config.user, play->line);
}

void uro_play_print(struct uro_play *play, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    print_line(play, "", format, arguments);
    va_end(arguments);
}

void uro_play_deviate(struct uro_play *play, const char *format, ...)
{
    va_list arguments;
    char head[48] = "at the end: ";

    if (play->step < play->script->step_count)
        (void)snprintf(head, sizeof head, "line %" PRIu32 ": ",
                       play->script->steps[play->step].line);
    play->deviated = true;
    va_start(arguments, format);
    print_line(play, head, format, arguments);
    va_end(arguments);
}

/* Appends the fields that distinguish one message from another. */
static void add_message(const struct uro_cm_msg *msg, char *text, size_t size)
{
    static const enum uro_cm_field shown[] = { URO_CM_LOCAL_ID,     URO_CM_REMOTE_ID,
                                               URO_CM_LOCAL_QPN,    URO_CM_REMOTE_QPN,
                                               URO_CM_STARTING_PSN, URO_CM_REASON,
                                               URO_CM_STATUS };
    int used = snprintf(text, size, " %s", uro_cm_kind_name(msg->kind));

    for (size_t i = 0; i < URO_ARRAY_LEN(shown) && used > 0 && (size_t)used < size; i++)
        if (msg->value[shown[i]] != 0)
            used += snprintf(text + used, size - (size_t)used, " %s 0x%" PRIx64,
                             uro_field_rows[URO_FIELD_CM + shown[i]].name, msg->value[shown[i]]);
}

void uro_play_frame_text(const uint8_t *octets, uint32_t length,
                         char text[static URO_PLAY_TEXT_MAX])
{
    struct uro_frame frame;
    struct uro_cm_msg msg;

    text[0] = '\0';
    if (uro_frame_network(octets, length, &frame) == URO_FRAME_OK &&
        uro_frame_roce(&frame) == URO_FRAME_OK && frame.bth.dest_qpn == URO_CM_MAD_QPN &&
        frame.payload_length == URO_MAD_LEN && uro_cm_decode(frame.payload, &msg) == URO_CM_OK) {
        char from[URO_GID_TEXT_MAX], to[URO_GID_TEXT_MAX];
        int used = snprintf(text, URO_PLAY_TEXT_MAX, "%s > %s",
                            uro_gid_text(&frame.ip.source, from), uro_gid_text(&frame.ip.dest, to));
        add_message(&msg, text + used, URO_PLAY_TEXT_MAX - (size_t)used);
        return;
    }
    (void)uro_text_line(octets, length, text);
}

void uro_play_print_frame(struct uro_play *play, const char *direction, const uint8_t *octets,
                          uint32_t length)
{
    char text[URO_PLAY_TEXT_MAX];

    uro_play_frame_text(octets, length, text);
    uro_play_print(play, "%s %s", direction, text);
}
