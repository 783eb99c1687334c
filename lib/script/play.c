/* SPDX-License-Identifier: BSD-3-Clause */
/* play.c - see play.h. Runs the steps in order, and passes received frames to them. */
#include "script/play.h"

#include <inttypes.h>
#include <string.h>

#include "script/play_inside.h"

#define MEET_WAIT   URO_MS(10000) /* longest wait for the endpoint's MAC address */
#define EXPECT_WAIT URO_MS(3000)  /* timeout of an expectation that has none */
#define STEPS_ONCE  64u           /* maximum number of steps in one call */

int uro_play_init(struct uro_play *play, const struct uro_script *script,
                  const struct uro_play_config *config, uro_time now)
{
    memset(play, 0, offsetof(struct uro_play, frames));
    play->config = *config;
    play->script = script;
    play->now = play->began = play->step_began = now;
    play->due = URO_TIME_NEVER;
    play->packets.frames = play->frames;
    play->messages.frames = play->frames + URO_PLAY_INBOX;
    play->out.frames = play->frames + (size_t)2 * URO_PLAY_INBOX;
    uro_rng_init_number(&play->rng, config->seed);
    uro_play_fresh(play);
    uro_play_put(play, URO_NAME_PORT, config->port);
    uro_play_put(play, URO_NAME_I, 0);
    return uro_engine_resolve_begin(config->engine, &play->resolve, config->sgid_index,
                                    &config->peer, now + MEET_WAIT, now);
}

void uro_play_fini(struct uro_play *play)
{
    uro_engine_resolve_end(play->config.engine, &play->resolve);
}

/* ---- received frames ------------------------------------------------------------------------- */

/* Applies the rules to a packet. Returns true when a rule has answered or dropped the packet. */
static bool meets_rule(struct uro_play *play, const struct uro_play_frame *frame, uint32_t psn)
{
    for (uint32_t i = 0; i < play->rule_count; i++) {
        struct uro_play_rule *rule = &play->rules[i];
        const struct uro_script_step *step = rule->step;
        if (!uro_play_is(play, &step->subject, frame))
            continue;
        rule->seen++;
        if (step->kind == URO_STEP_DROP && rule->seen == step->number) {
            uro_play_print(play, "dropped");
            return true;
        }
        if (step->kind == URO_STEP_ON && rule->seen <= step->number) {
            uro_play_send_answer(play, step, psn);
            return true;
        }
    }
    return false;
}

static void keep(struct uro_play *play, struct uro_play_ring *ring, const struct uro_pkt *pkt,
                 const struct uro_frame *frame)
{
    struct uro_play_frame *to = uro_play_push(ring);
    struct uro_cm_msg msg;

    if (to == NULL || pkt->length > sizeof to->octets) {
        if (to != NULL)
            ring->count--;
        uro_play_deviate(play, "the endpoint sent packets that the script does not expect");
        return;
    }
    to->length = pkt->length;
    to->time = play->now;
    memcpy(to->octets, pkt->octets, pkt->length);
    const bool seen = ring == &play->packets ? meets_rule(play, to, frame->bth.psn)
                                             : (!uro_play_decode_message(to, &msg) ||
                                                uro_play_auto_message(play, &msg));
    if (seen)
        ring->count--;
}

/* Handles a packet to port 4791 of our address. */
static void receive(struct uro_play *play, const struct uro_pkt *pkt, struct uro_frame *frame)
{
    const enum uro_frame_result result = uro_frame_roce(frame);
    const bool running = play->result == URO_PLAY_RUNNING;

    if (!running || !uro_gid_equal(&frame->ip.source, &play->config.peer))
        return;
    uro_play_print_frame(play, "receive", pkt->octets, pkt->length);
    if (result != URO_FRAME_OK)
        uro_play_deviate(play, "the endpoint sent a wrong packet: %s",
                         uro_frame_result_text(result));
    else if (frame->bth.dest_qpn == URO_CM_MAD_QPN)
        keep(play, &play->messages, pkt, frame);
    else if (frame->bth.dest_qpn == uro_play_get(play, URO_NAME_MYQPN))
        keep(play, &play->packets, pkt, frame);
    else
        uro_play_print(play, "ignored: it is for another queue pair");
}

void uro_play_input(struct uro_play *play, const struct uro_pkt *pkts, uint32_t count, uro_time now)
{
    struct uro_frame frame;

    play->now = now;
    for (uint32_t i = 0; i < count; i++) {
        const bool known =
            uro_frame_network(pkts[i].octets, pkts[i].length, &frame) == URO_FRAME_OK;
        if (known && frame.ether.type != URO_ETHERTYPE_ARP &&
            frame.ip.protocol == URO_IPPROTO_UDP && frame.udp.dest_port == URO_ROCE_PORT) {
            if (uro_gid_equal(&frame.ip.dest, &play->config.address))
                receive(play, &pkts[i], &frame);
        } else {
            uro_engine_input(play->config.engine, &pkts[i], 1, now);
        }
    }
}

/* ---- steps: true when the step is done ------------------------------------------------------- */

static bool expect(struct uro_play *play, const struct uro_script_step *step)
{
    struct uro_play_ring *ring =
        step->subject.kind == URO_SUBJECT_MESSAGE ? &play->messages : &play->packets;
    struct uro_cm_msg msg;

    play->due = play->step_began + (step->time != 0 ? step->time : EXPECT_WAIT);
    for (; ring->count > 0; uro_play_pop(ring)) {
        const struct uro_play_frame *frame = uro_play_at(ring, 0);
        if (!uro_play_match(play, step, frame, step->kind == URO_STEP_EXPECT)) {
            if (step->kind == URO_STEP_AWAIT)
                continue;
            uro_play_pop(ring);
            return true;
        }
        const uro_time took = frame->time > play->step_began ? frame->time - play->step_began : 0;
        if (took < step->after)
            uro_play_deviate(play, "%.*s: the packet came too early, after %" PRIu64 " us",
                             (int)step->text.length, step->text.start, took / 1000);
        if (step->subject.kind == URO_SUBJECT_MESSAGE && uro_play_decode_message(frame, &msg))
            uro_play_learn(play, &msg);
        uro_play_pop(ring);
        return true;
    }
    if (play->now < play->due)
        return false;
    uro_play_deviate(play, "%.*s: no such packet arrived within %" PRIu64 " ms",
                     (int)step->text.length, step->text.start,
                     (play->due - play->step_began) / 1000000);
    return true;
}

static bool nothing(struct uro_play *play, const struct uro_script_step *step)
{
    play->due = play->step_began + step->time;
    if (play->packets.count > 0) {
        const struct uro_play_frame *frame = uro_play_at(&play->packets, 0);
        char text[URO_PLAY_TEXT_MAX];
        uro_play_frame_text(frame->octets, frame->length, text);
        uro_play_deviate(play, "%.*s: came %s", (int)step->text.length, step->text.start, text);
    }
    return play->deviated || play->now >= play->due;
}

static bool wait(struct uro_play *play, const struct uro_script_step *step)
{
    play->due = play->step_began + step->time;
    return play->now >= play->due;
}

static bool send_it(struct uro_play *play, const struct uro_script_step *step)
{
    if (uro_play_out_full(play))
        return false;
    (void)uro_play_send_step(play, step);
    return true;
}

static bool set(struct uro_play *play, const struct uro_script_step *step)
{
    uint64_t value;

    if (uro_play_value(play, &step->value, URO_FIELD_COUNT, 0, &value))
        uro_play_put(play, (enum uro_script_name)step->number, value);
    return true;
}

static bool by_hand(struct uro_play *play, const struct uro_script_step *step)
{
    const struct uro_script_field *fields = &play->script->fields[step->field_first];
    uint64_t value;

    for (uint32_t i = 0; i < step->field_count; i++)
        if (uro_play_value(play, &fields[i].value, URO_FIELD_PSN, 0, &value))
            uro_play_put(play, (enum uro_script_name)fields[i].field, value);
    return true;
}

static bool repeat_end(struct uro_play *play, const struct uro_script_step *step)
{
    const struct uro_script_step *repeat = &play->script->steps[step->number];

    play->repeats++;
    uro_play_put(play, URO_NAME_I, play->repeats);
    if (play->repeats < repeat->number) {
        play->step = (uint32_t)step->number; /* next_step() continues after REPEAT */
    } else {
        play->repeats = 0;
        uro_play_put(play, URO_NAME_I, 0);
    }
    return true;
}

static bool add_rule(struct uro_play *play, const struct uro_script_step *step)
{
    if (play->rule_count == URO_PLAY_RULES)
        uro_play_deviate(play, "the script has more than %u `on` and `drop` steps", URO_PLAY_RULES);
    else
        play->rules[play->rule_count++] = (struct uro_play_rule){ .step = step };
    return true;
}

static bool do_step(struct uro_play *play, const struct uro_script_step *step)
{
    switch (step->kind) {
    case URO_STEP_QP:
        return by_hand(play, step);
    case URO_STEP_SET:
        return set(play, step);
    case URO_STEP_SEND:
        return send_it(play, step);
    case URO_STEP_EXPECT:
    case URO_STEP_AWAIT:
        return expect(play, step);
    case URO_STEP_NOTHING:
        return nothing(play, step);
    case URO_STEP_WAIT:
        return wait(play, step);
    case URO_STEP_CONNECT:
        return uro_play_connect(play, step);
    case URO_STEP_ACCEPT:
        return uro_play_accept(play, step);
    case URO_STEP_DISCONNECT:
        return uro_play_disconnect(play);
    case URO_STEP_FRESH:
        uro_play_fresh(play);
        return true;
    case URO_STEP_REPEAT:
        return true;
    case URO_STEP_END:
        return repeat_end(play, step);
    case URO_STEP_ON:
    case URO_STEP_DROP:
        return add_rule(play, step);
    }
    return true;
}

/* ---- driving --------------------------------------------------------------------------------- */

static void next_step(struct uro_play *play)
{
    play->step++;
    play->step_began = play->now;
    play->part = play->tries = 0;
    play->due = URO_TIME_NEVER;
}

/* Begins closing, after all steps or the first deviation. */
static void begin_end(struct uro_play *play)
{
    if (!play->deviated && play->packets.count > 0) {
        const struct uro_play_frame *frame = uro_play_at(&play->packets, 0);
        char text[URO_PLAY_TEXT_MAX];
        uro_play_frame_text(frame->octets, frame->length, text);
        uro_play_deviate(play, "the script does not expect %s", text);
    }
    play->closing = true;
    play->part = 0;
}

static void run(struct uro_play *play)
{
    const struct uro_script *script = play->script;

    for (uint32_t i = 0; i < STEPS_ONCE && !play->closing; i++) {
        if (play->deviated || play->step == script->step_count) {
            begin_end(play);
            break;
        }
        if (!do_step(play, &script->steps[play->step]))
            return;
        if (!play->deviated)
            next_step(play);
    }
    if (!play->closing) {
        play->due = play->now;
        return;
    }
    if (play->link.ended || uro_play_disconnect(play))
        play->result = play->deviated ? URO_PLAY_DEVIATED : URO_PLAY_HELD;
}

/* Waits until the endpoint's MAC address is known. */
static void meet(struct uro_play *play)
{
    const enum uro_hop_state state = play->resolve.hop->state;

    play->due = play->began + MEET_WAIT;
    if (state == URO_HOP_KNOWN) {
        play->met = true;
        play->began = play->step_began = play->now;
        play->due = URO_TIME_NEVER;
    } else if (play->now >= play->due) {
        play->result = URO_PLAY_UNREACHED;
    }
}

static void describe(const struct uro_play_frame *frame, struct uro_tx *tx)
{
    tx->way = URO_TX_WIRE;
    tx->head_length = 0;
    tx->pad_count = 0;
    tx->icrc = false;
    tx->payload_length = frame->length;
    tx->span_count = 1;
    tx->spans[0] = (struct uro_span){ .data = frame->octets, .length = frame->length };
}

uint32_t uro_play_output(struct uro_play *play, struct uro_tx *tx, uint32_t max, uro_time now)
{
    play->now = now;
    for (; play->written > 0; play->written--)
        uro_play_pop(&play->out);
    uint32_t count = uro_engine_output(play->config.engine, tx, max, now);
    if (!play->met && play->result == URO_PLAY_RUNNING)
        meet(play);
    if (play->met && play->result == URO_PLAY_RUNNING)
        run(play);
    for (; count < max && play->written < play->out.count; play->written++)
        describe(uro_play_at(&play->out, play->written), &tx[count++]);
    return count;
}

uro_time uro_play_next(const struct uro_play *play)
{
    uro_time next = uro_engine_next(play->config.engine);

    if (play->out.count > play->written)
        return play->now;
    if (play->result != URO_PLAY_RUNNING)
        return next;
    if (!play->met && play->resolve.hop->state == URO_HOP_KNOWN)
        return play->now;
    return play->due < next ? play->due : next;
}
