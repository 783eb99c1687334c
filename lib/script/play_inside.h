/* SPDX-License-Identifier: BSD-3-Clause */
/* play_inside.h - functions that the files of the player share.
 *
 *   play.c        runs the steps; receives and sends frames
 *   play_value.c  evaluates sums and variables
 *   play_send.c   makes packets and messages from steps
 *   play_match.c  compares received with expected packets
 *   play_link.c   handles connection management messages
 *   play_print.c  prints lines
 */
#pragma once

#include "script/play.h"

/* ---- play_print.c ---- */
URO_PRINTF(2) void uro_play_print(struct uro_play *play, const char *format, ...);
/* Records a deviation from the script, and prints it with the line of the step. */
URO_PRINTF(2) void uro_play_deviate(struct uro_play *play, const char *format, ...);
void uro_play_print_frame(struct uro_play *play, const char *direction, const uint8_t *octets,
                          uint32_t length);
/* Writes the name of the packet or message in a frame. */
#define URO_PLAY_TEXT_MAX 400u
void uro_play_frame_text(const uint8_t *octets, uint32_t length,
                         char text[static URO_PLAY_TEXT_MAX]);

/* ---- play_value.c ---- */
/* Evaluates a value. @base: the base of relative values. Returns false, with a deviation, when a
 * variable has no value, or the value does not fit the field. */
bool uro_play_value(struct uro_play *play, const struct uro_script_value *value,
                    enum uro_field field, uint64_t base, uint64_t *number);
uint64_t uro_play_get(const struct uro_play *play, enum uro_script_name name);
void uro_play_put(struct uro_play *play, enum uro_script_name name, uint64_t value);
/* Returns the first PSN of the sequence to which a packet with opcode @op belongs. @sent: we send
 * the packet, otherwise we expect it. */
uint64_t uro_play_base(const struct uro_play *play, const struct uro_opcode *op, bool sent);
/* Sets variables from name=value words in the private data. */
void uro_play_learn_words(struct uro_play *play, const uint8_t *data, uint32_t length);
/* Copies a text, and converts \xNN to a byte. Writes at most @size bytes, and returns their
 * number. */
uint32_t uro_play_unquote(const struct uro_script_text *text, uint8_t *out, uint32_t size);

/* ---- play_send.c ---- */
bool uro_play_out_full(const struct uro_play *play);
/* Puts the packet or message of a step into the outbox. Returns false, with a deviation, when a
 * value is missing or the payload is too long. */
bool uro_play_send_step(struct uro_play *play, const struct uro_script_step *step);
/* Sends the answer of an `on` step to a packet with PSN @its. */
void uro_play_send_answer(struct uro_play *play, const struct uro_script_step *step, uint64_t its);
/* Sends a message with the protocol's default fields, changed by the fields of @step unless that is
 * NULL. */
bool uro_play_send_message(struct uro_play *play, enum uro_cm_kind kind,
                           const struct uro_script_step *step);

/* Answers a DREQ of a connection other than the current connection. */
void uro_play_send_drep(struct uro_play *play, const struct uro_cm_msg *dreq);

/* ---- play_match.c ---- */
bool uro_play_is(const struct uro_play *play, const struct uro_script_subject *subject,
                 const struct uro_play_frame *frame);
/* Returns whether the frame matches the step and its fields. Prints differences if @report. */
bool uro_play_match(struct uro_play *play, const struct uro_script_step *step,
                    const struct uro_play_frame *frame, bool report);

/* ---- play_link.c ---- */
void uro_play_fresh(struct uro_play *play);
bool uro_play_decode_message(const struct uro_play_frame *frame, struct uro_cm_msg *msg);
/* Handles a received message unless the script expects it. Returns true when the script need not
 * see the message. */
bool uro_play_auto_message(struct uro_play *play, const struct uro_cm_msg *msg);
/* Updates the connection from a message that the script took. */
void uro_play_learn(struct uro_play *play, const struct uro_cm_msg *msg);
/* Performs one part of CONNECT or ACCEPT, or of disconnecting. Returns true when the step is
 * done. */
bool uro_play_connect(struct uro_play *play, const struct uro_script_step *step);
bool uro_play_accept(struct uro_play *play, const struct uro_script_step *step);
bool uro_play_disconnect(struct uro_play *play);

/* ---- rings ---- */
static inline struct uro_play_frame *uro_play_at(const struct uro_play_ring *ring, uint32_t index)
{
    return &ring->frames[(ring->first + index) % URO_PLAY_INBOX];
}

static inline void uro_play_pop(struct uro_play_ring *ring)
{
    ring->first = (ring->first + 1) % URO_PLAY_INBOX;
    ring->count--;
}

/* Returns the slot for a new frame, or NULL. */
static inline struct uro_play_frame *uro_play_push(struct uro_play_ring *ring)
{
    if (ring->count == URO_PLAY_INBOX)
        return NULL;
    return uro_play_at(ring, ring->count++);
}
