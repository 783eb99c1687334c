/* SPDX-License-Identifier: BSD-3-Clause */
/* rxe.c - the model of rxe: it sends packets, goes back, and processes responses. */
#include "rxe.h"

#include <string.h>

#define PSN_MASK    0xffffffu
#define WINDOW      128u /* PSNs beyond the oldest unacknowledged PSN */
#define UNASKED_MAX 64u

static int32_t distance(uint32_t a, uint32_t b)
{
    return (int32_t)((a - b) << 8) >> 8;
}

static uint32_t psn_add(uint32_t psn, uint32_t count)
{
    return (psn + count) & PSN_MASK;
}

static bool has_answer(const struct rxe_message *message)
{
    return message->operation == URO_READ || message->operation == URO_FETCH_ADD;
}

static void give_up(struct rxe *rxe, const char *why)
{
    if (rxe->failed == NULL)
        rxe->failed = why;
}

void rxe_init(struct rxe *rxe, enum rxe_kernel kernel, uint32_t mtu, uint32_t psn, uint32_t places)
{
    *rxe = (struct rxe){
        .kernel = kernel, .mtu = mtu, .next_psn = psn, .done_psn = psn, .places = places
    };
}

struct rxe_message *rxe_post(struct rxe *rxe, enum uro_operation operation, uint8_t *at,
                             uint32_t length, uint64_t va)
{
    assert_true(rxe->count < RXE_MESSAGES_MAX);
    struct rxe_message *message = &rxe->messages[rxe->count++];

    *message = (struct rxe_message){
        .operation = operation, .length = length, .left = length, .at = at, .va = va
    };
    return message;
}

bool rxe_is_done(const struct rxe *rxe)
{
    return rxe->head == rxe->count;
}

/* ---- going back ---------------------------------------------------------- */

/* Goes back to the oldest unacknowledged PSN. This PSN may be after the end of the oldest message.
 * Like rxe, the model does not notice that it then has nothing to retransmit. */
static void go_back(struct rxe *rxe)
{
    rxe->going_back = false;
    rxe->sending = rxe->head;
    rxe->next_psn = rxe->done_psn;
    rxe->inside = false;
    for (uint32_t i = rxe->head; i < rxe->count && rxe->messages[i].state != RXE_WAITS; i++) {
        struct rxe_message *message = &rxe->messages[i];
        bool oldest = i == rxe->head;
        message->state = RXE_WAITS;
        if (!oldest || message->operation != URO_READ)
            message->left = message->length;
        if (!oldest || has_answer(message))
            continue;
        uint32_t skipped = (rxe->done_psn - message->first_psn) & PSN_MASK;
        for (uint32_t n = 0; n < skipped; n++) {
            rxe->inside = message->left > rxe->mtu;
            message->left -= message->left < rxe->mtu ? message->left : rxe->mtu;
        }
    }
}

/* Requests that the model goes back and retransmits. @timeout: the reason is the timer. */
static void want_back(struct rxe *rxe, bool timeout)
{
    if (rxe_is_done(rxe) || rxe->messages[rxe->head].state == RXE_WAITS)
        return;
    if (rxe->has_gone_back && !timeout)
        return;
    if (distance(rxe->next_psn, rxe->done_psn) > 0)
        rxe->going_back = rxe->has_gone_back = true;
}

void rxe_timeout(struct rxe *rxe)
{
    if (rxe->failed == NULL && !rxe->going_back)
        want_back(rxe, true);
}

/* ---- sending ------------------------------------------------------------- */

static const char *opcode(const struct rxe *rxe, enum uro_operation operation, bool ends)
{
    static const char *const names[][2][2] = {
        [URO_SEND] = { { "RC_SEND_FIRST", "RC_SEND_ONLY" }, { "RC_SEND_MIDDLE", "RC_SEND_LAST" } },
        [URO_WRITE] = { { "RC_WRITE_FIRST", "RC_WRITE_ONLY" },
                        { "RC_WRITE_MIDDLE", "RC_WRITE_LAST" } },
    };

    if (operation == URO_READ)
        return "RC_READ_REQUEST";
    return operation == URO_FETCH_ADD ? "RC_FETCH_ADD" : names[operation][rxe->inside][ends];
}

static bool has_place(struct rxe *rxe, struct rxe_message *message)
{
    if (!has_answer(message) || message->has_place)
        return true;
    if (rxe->places == 0)
        return false;
    rxe->places--;
    message->has_place = true;
    return true;
}

static void number(struct rxe *rxe, struct rxe_message *message, uint32_t payload)
{
    uint32_t left = message->operation == URO_FETCH_ADD ? 0 : message->left + payload;
    uint32_t packets = left == 0 ? 1 : (left + rxe->mtu - 1) / rxe->mtu;

    if (!rxe->inside) {
        message->first_psn = rxe->next_psn;
        message->last_psn = psn_add(rxe->next_psn, packets - 1);
    }
    rxe->next_psn = psn_add(rxe->next_psn, message->operation == URO_READ ? packets : 1);
}

bool rxe_send(struct rxe *rxe, struct scene_packet *packet)
{
    if (rxe->failed != NULL)
        return false;
    if (rxe->going_back)
        go_back(rxe);
    if (rxe->sending == rxe->count || distance(rxe->next_psn, psn_add(rxe->done_psn, WINDOW)) > 0)
        return false;
    struct rxe_message *message = &rxe->messages[rxe->sending];
    if (!has_place(rxe, message))
        return false;
    bool carries = !has_answer(message);
    uint32_t payload = !carries ? 0 : message->left < rxe->mtu ? message->left : rxe->mtu;
    bool ends = !carries || message->left <= rxe->mtu;
    if (carries && payload == 0 && message->length > 0)
        give_up(rxe, "sends an empty message");

    *packet =
        (struct scene_packet){ .op = opcode(rxe, message->operation, ends),
                               .rxe = true,
                               .psn = rxe->next_psn,
                               .va = message->va,
                               .dma = message->left,
                               .swap_add = 1,
                               .octets =
                                   carries ? message->at + message->length - message->left : NULL,
                               .length = payload };
    if (message->operation == URO_READ)
        packet->va += (message->length - message->left) / rxe->mtu * rxe->mtu;
    packet->ack_req = ends || rxe->unasked++ > UNASKED_MAX;
    if (packet->ack_req)
        rxe->unasked = 0;
    if (carries)
        message->left -= payload;
    number(rxe, message, payload);
    message->state = ends ? RXE_SENT : RXE_SENDING;
    rxe->inside = !ends;
    rxe->sending += ends;
    return true;
}

/* ---- responses ----------------------------------------------------------- */

static void complete(struct rxe *rxe, struct rxe_message *message)
{
    if (message->has_place) {
        message->has_place = false;
        rxe->places++;
    }
    rxe->head++;
}

static void advance(struct rxe *rxe, const struct uro_frame *frame)
{
    rxe->reading = !uro_position_ends(frame->op->position);
    if (distance(frame->bth.psn, rxe->done_psn) >= 0)
        rxe->done_psn = psn_add(frame->bth.psn, 1);
}

/* Processes the response to the last packet of the message. The message is then complete, even
 * while rxe retransmits it. */
static void answered(struct rxe *rxe, struct rxe_message *message, const struct uro_frame *frame)
{
    complete(rxe, message);
    if (distance(frame->bth.psn, rxe->done_psn) >= 0)
        advance(rxe, frame);
}

static void receive_read(struct rxe *rxe, struct rxe_message *message,
                         const struct uro_frame *frame)
{
    if (message->operation != URO_READ) {
        give_up(rxe, "fatal error: a READ response for another request");
        return;
    }
    rxe->has_gone_back = false;
    if (frame->payload_length > message->left) {
        give_up(rxe, "a READ response that is too long");
        return;
    }
    assert_memory_equal(frame->payload, message->at + message->length - message->left,
                        frame->payload_length);
    message->left -= frame->payload_length;
    if (message->left == 0 && uro_position_ends(frame->op->position))
        answered(rxe, message, frame);
    else
        advance(rxe, frame);
}

static void receive_ack(struct rxe *rxe, struct rxe_message *message, const struct uro_frame *frame)
{
    if (frame->aeth.kind == URO_AETH_ACK) {
        rxe->has_gone_back = false;
        if (message->state == RXE_SENT && message->last_psn == frame->bth.psn)
            answered(rxe, message, frame);
        else
            advance(
                rxe,
                frame); /* the bug: may advance beyond the end of a message that is being sent */
        return;
    }
    if (frame->aeth.kind != URO_AETH_NAK || frame->aeth.value != 0) {
        give_up(rxe, "a NAK, and not of a gap");
        return;
    }
    if (distance(frame->bth.psn, rxe->done_psn) > 0)
        rxe->done_psn = frame->bth.psn;
    want_back(rxe, false);
}

static bool fits(const struct rxe *rxe, const struct rxe_message *message,
                 const struct uro_frame *frame)
{
    enum uro_position position = frame->op->position;

    if (!rxe->reading)
        return uro_position_begins(position);
    if (frame->op->operation == URO_ACK && rxe->kernel != RXE_6_1)
        return true;
    if (position == URO_MIDDLE || position == URO_LAST)
        return frame->op->operation == URO_READ;
    if (frame->op->operation != URO_READ)
        return false;
    return position == URO_FIRST ? frame->bth.psn == message->first_psn
                                 : message->first_psn == message->last_psn;
}

static void judge(struct rxe *rxe, struct rxe_message *message, const struct uro_frame *frame)
{
    if (!fits(rxe, message, frame)) {
        give_up(rxe, "an answer that does not follow the one before");
    } else if (frame->op->operation == URO_READ) {
        receive_read(rxe, message, frame);
    } else if (frame->op->operation == URO_ACK) {
        receive_ack(rxe, message, frame);
    } else if (message->operation != URO_FETCH_ADD) {
        give_up(rxe, "an atomic answer for another request");
    } else {
        rxe->has_gone_back = false;
        message->original = frame->atomic_ack;
        answered(rxe, message, frame);
    }
}

/* Processes a response to a later request. Returns true when this response completes the message,
 * so that the caller must check the next message. */
static bool answers_later(struct rxe *rxe, struct rxe_message *message)
{
    if (message->state != RXE_SENT)
        return false;
    if (has_answer(message)) {
        want_back(rxe, false);
        return false;
    }
    rxe->has_gone_back = false;
    if (distance(message->last_psn, rxe->done_psn) >= 0) {
        rxe->done_psn = psn_add(message->last_psn, 1);
        rxe->reading = false;
    }
    complete(rxe, message);
    return true;
}

bool rxe_receive(struct rxe *rxe, const struct uro_frame *frame)
{
    if (rxe->failed != NULL)
        return true;
    if (rxe->going_back)
        return false;
    while (rxe->head < rxe->count) {
        struct rxe_message *message = &rxe->messages[rxe->head];
        int32_t ahead = distance(frame->bth.psn, rxe->done_psn);
        if (message->state == RXE_WAITS)
            return true;
        if (distance(frame->bth.psn, message->last_psn) > 0) {
            if (!answers_later(rxe, message))
                return true;
            continue;
        }
        if (ahead < 0 && frame->bth.psn == message->last_psn)
            answered(rxe, message, frame);
        else if (ahead >= 0
                     ? ahead == 0 || !has_answer(message)
                     : rxe->kernel != RXE_6_1 && rxe->reading && frame->op->operation == URO_ACK)
            judge(rxe, message, frame);
        return true;
    }
    return true;
}
