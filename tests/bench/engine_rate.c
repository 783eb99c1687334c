/* SPDX-License-Identifier: BSD-3-Clause */
/* engine_rate.c - measures the time of one message in both engines together, without a port.
 *
 *   engine_rate [rc|uc|ud|xrc|write [bytes [active [idle [messages [each]]]]]]
 *
 * Two engines in one thread pass their frames to each other. Every byte is copied and included in a
 * CRC, as in a port. The messages are SENDs, or WRITEs over RC. The program prints the nanoseconds
 * for a message and the number of frames. The queue pairs send one message in turn, with
 * SIDES_WINDOW outstanding messages in total. With "each", every queue pair has that many
 * outstanding messages (at most SIDES_WINDOW), and posts the next message when a message completes.
 */
#include <stdio.h>
#include <stdlib.h>

#include "sides.h"

static uint8_t frames[SIDES_BURST][SIDES_FRAME];
static uint64_t carried;

/* Passes frames of one engine to the other. */
static void carry(struct side *from, struct side *to)
{
    static struct uro_tx tx[SIDES_BURST];
    struct uro_pkt pkts[SIDES_BURST];
    uro_time at = sides_now();
    uint32_t count = uro_engine_output(from->engine, tx, SIDES_BURST, at);

    for (uint32_t i = 0; i < count; i++) {
        uro_tx_write(&tx[i], frames[i]);
        pkts[i] = (struct uro_pkt){ .octets = frames[i], .length = uro_tx_length(&tx[i]) };
    }
    if (count > 0)
        uro_engine_input(to->engine, pkts, count, at);
    carried += count;
}

/* Sends from all queue pairs, round robin, until all messages were sent and received. */
static void in_turn(struct side sides[2], const struct plan *plan, uint32_t messages)
{
    bool receives = plan->opcode == URO_WR_SEND;
    uint32_t posted = 0, sent = 0, received = 0, ready = receives ? 0 : messages;

    while ((receives && received < messages) || sent < messages) {
        for (; ready < messages && ready - received < SIDES_WINDOW; ready++)
            sides_post_receive(&sides[1], ready % plan->active, plan);
        for (; posted < ready && posted - sent < SIDES_WINDOW; posted++)
            sides_post(sides, 0, posted % plan->active, plan);
        carry(&sides[0], &sides[1]);
        carry(&sides[1], &sides[0]);
        for (unsigned s = 0; s < 2; s++)
            sent += sides_poll(&sides[s], &received);
    }
}

/* Posts a receive for each receive that completed. */
static uint32_t receive_again(struct side *side, const struct plan *plan)
{
    struct uro_cqe cqes[SIDES_BURST];
    uint32_t count = sides_completed(side, cqes);

    for (uint32_t i = 0; i < count; i++)
        sides_post_receive(side, (uint32_t)cqes[i].wr_id, plan);
    return count;
}

/* Keeps plan->each messages outstanding at every queue pair. For SENDs, the other side always has
 * the same number of receives posted. */
static void windows(struct side sides[2], const struct plan *plan, uint32_t messages)
{
    struct uro_cqe cqes[SIDES_BURST];

    for (uint32_t sent = 0; sent < messages;) {
        carry(&sides[0], &sides[1]);
        while (receive_again(&sides[1], plan) > 0)
            ;
        carry(&sides[1], &sides[0]);
        uint32_t count = sides_completed(&sides[0], cqes);
        sent += count;
        for (uint32_t i = 0; i < count; i++)
            sides_post(sides, 0, (uint32_t)cqes[i].wr_id, plan);
    }
}

/* Runs the plan. Returns nanoseconds. */
static uro_time run(struct side sides[2], const struct plan *plan, uint32_t messages)
{
    uro_time start = sides_now();

    if (plan->each > 0)
        windows(sides, plan, messages);
    else
        in_turn(sides, plan, messages);
    return sides_now() - start;
}

/* Resolves the neighbours and touches the memory, so that both are ready. */
static void get_ready(struct side sides[2], const struct plan *plan)
{
    uint32_t before = plan->messages / 10 + 1;

    for (uint32_t i = 0; i < plan->each * plan->active; i++) {
        if (plan->opcode == URO_WR_SEND)
            sides_post_receive(&sides[1], i / plan->each, plan);
        sides_post(sides, 0, i / plan->each, plan);
    }
    if (before < plan->each * plan->active)
        before = plan->each * plan->active;
    (void)run(sides, plan, before);
    carried = 0;
}

int main(int argc, char **argv)
{
    struct plan plan = {
        .octets = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 0) : 64,
        .active = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 0) : 1,
        .idle = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 0) : 0,
        .messages = argc > 5 ? (uint32_t)strtoul(argv[5], NULL, 0) : 500000,
        .receives = SIDES_WINDOW,
        .each = argc > 6 ? (uint32_t)strtoul(argv[6], NULL, 0) : 0,
    };
    static struct side sides[2];

    sides_kind(&plan, argc > 1 ? argv[1] : "rc");
    if (plan.each > 0 && plan.type != URO_QPT_RC) {
        (void)fprintf(stderr, "engine_rate: only rc and write accept EACH, the outstanding "
                              "messages of a queue pair\n");
        return 2;
    }
    if (plan.active == 0 || plan.each > SIDES_WINDOW ||
        plan.octets > SIDES_FRAME - URO_TX_HEAD_MAX || plan.messages == 0) {
        (void)fprintf(stderr,
                      "engine_rate: at least one queue pair and message, at most %u octets and %u "
                      "outstanding of each\n",
                      SIDES_FRAME - URO_TX_HEAD_MAX, SIDES_WINDOW);
        return 2;
    }
    sides_connect(sides, &plan);
    get_ready(sides, &plan);
    uro_time took = run(sides, &plan, plan.messages);
    printf("%.1f ns per message, %.3f frames\n", (double)took / plan.messages,
           (double)carried / plan.messages);
    return 0;
}
