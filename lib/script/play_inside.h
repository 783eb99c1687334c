/* SPDX-License-Identifier: BSD-3-Clause */
/* play_inside.h - what the files of the player know of each other.
 *
 *   play.c        the steps, and frames in and out
 *   play_value.c  what sums and variables are
 *   play_send.c   packets and messages as a step names them
 *   play_match.c  what came against what was expected
 *   play_link.c   what connection management messages mean
 *   play_say.c    lines
 */
#pragma once

#include "script/play.h"

/* ---- play_say.c ---- */
URO_PRINTF(2) void uro_play_say(struct uro_play *play, const char *format, ...);
/* The script is not held: says so, with the line of the step. */
URO_PRINTF(2) void uro_play_deviate(struct uro_play *play, const char *format, ...);
void uro_play_say_frame(struct uro_play *play, const char *what, const uint8_t *octets,
                        uint32_t length);
/* The name of what a frame carries. */
#define URO_PLAY_TEXT_MAX 400u
void uro_play_frame_text(const uint8_t *octets, uint32_t length,
                         char text[static URO_PLAY_TEXT_MAX]);

/* ---- play_value.c ---- */
/* False, and deviated, when a variable has no value. @base: of relative ones. */
bool uro_play_value(struct uro_play *play, const struct uro_script_value *value,
                    enum uro_field field, uint64_t base, uint64_t *number);
uint64_t uro_play_get(const struct uro_play *play, enum uro_script_name name);
void uro_play_put(struct uro_play *play, enum uro_script_name name, uint64_t value);
/* The first PSN of the direction in which such packets go: sent by us, or expected. */
uint64_t uro_play_base(const struct uro_play *play, const struct uro_opcode *op, bool sent);
/* name=value words in the private data become variables. */
void uro_play_learn_words(struct uro_play *play, const uint8_t *data, uint32_t length);
/* A text in which \\xNN stands for an octet; at most @room octets; returns how many. */
uint32_t uro_play_unquote(const struct uro_script_text *text, uint8_t *out, uint32_t room);

/* ---- play_send.c ---- */
bool uro_play_out_full(const struct uro_play *play);
/* Into the outbox. False, and deviated, when something of it has no value. */
bool uro_play_send_step(struct uro_play *play, const struct uro_script_step *step);
/* The answer of an "on" to a packet of PSN @its. */
void uro_play_send_answer(struct uro_play *play, const struct uro_script_step *step, uint64_t its);
/* A message as the protocol has it, changed by the fields of @step unless that is NULL. */
bool uro_play_send_message(struct uro_play *play, enum uro_cm_kind kind,
                           const struct uro_script_step *step);

/* Answers a DREQ of a connection other than the current connection. */
void uro_play_send_drep(struct uro_play *play, const struct uro_cm_msg *dreq);

/* ---- play_match.c ---- */
bool uro_play_is(const struct uro_play *play, const struct uro_script_subject *subject,
                 const struct uro_play_frame *frame);
/* The fields of the step too; says what differs when @say. */
bool uro_play_match(struct uro_play *play, const struct uro_script_step *step,
                    const struct uro_play_frame *frame, bool say);

/* ---- play_link.c ---- */
void uro_play_fresh(struct uro_play *play);
bool uro_play_decode_message(const struct uro_play_frame *frame, struct uro_cm_msg *msg);
/* A message came that the script does not ask for: true when it needs not see it. */
bool uro_play_auto_message(struct uro_play *play, const struct uro_cm_msg *msg);
/* A message that the script took. */
void uro_play_learn(struct uro_play *play, const struct uro_cm_msg *msg);
/* One part of CONNECT or ACCEPT, or the end of a connection; true when all is done. */
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

/* The place for one more, or NULL. */
static inline struct uro_play_frame *uro_play_push(struct uro_play_ring *ring)
{
    if (ring->count == URO_PLAY_INBOX)
        return NULL;
    return uro_play_at(ring, ring->count++);
}
