/* SPDX-License-Identifier: BSD-3-Clause */
/* test_rc_read_window.c - tests that only a limited number of READ responses is in flight after a
 * READ response was lost.
 *
 * The path MTU is 256, and the window of the device is 8 packets.
 */
#include "scene.h"

#define MTU     256u
#define WINDOW  8u
#define FIRST   100u /* PSN of the first response */
#define TIMEOUT ((UINT64_C(4096) << 14) + URO_US(2))

static struct scene *open_with_depth(uint8_t depth)
{
    return scene_rc(.sq_psn = FIRST, .mtu = MTU, .window = WINDOW, .depth = depth);
}

/* Posts a READ of @count responses. Earlier READs had @before responses together. */
static void post(struct scene *s, uint64_t id, uint32_t before, uint32_t count)
{
    scene_post_send(s,
                    SEND(.id = id, .op = UROCE_RDMA_READ, .at = before * MTU, .length = count * MTU,
                         .rkey = 0x77, .remote_address = 0x10000 + before * MTU));
}

/* Expects a request for the responses [first, first + count). Response 0 has the PSN FIRST. */
static void expect_request(struct scene *s, uro_time now, uint32_t first, uint32_t count)
{
    scene_expect_tx(s, now,
                    PACKET(.op = "RC_READ_REQUEST", .psn = FIRST + first, .ack_req = true,
                           .va = 0x10000 + first * MTU, .rkey = 0x77, .dma = count * MTU));
}

static void respond(struct scene *s, uro_time now, const char *op, uint32_t index)
{
    scene_rx(s, now,
             PACKET(.op = op, .psn = FIRST + index, .msn = 1, .length = MTU, .fill = index * MTU));
}

/* Delivers the responses [first, first + count) to one request; @count is more than 1. */
static void answer(struct scene *s, uro_time now, uint32_t first, uint32_t count)
{
    respond(s, now, "RC_READ_RESPONSE_FIRST", first);
    for (uint32_t i = 1; i + 1 < count; i++)
        respond(s, now, "RC_READ_RESPONSE_MIDDLE", first + i);
    respond(s, now, "RC_READ_RESPONSE_LAST", first + count - 1);
}

/* Loses the response @index and delivers the response behind it. */
static void lose(struct scene *s, uro_time now, uint32_t index)
{
    respond(s, now, "RC_READ_RESPONSE_MIDDLE", index + 1);
}

static void rc_reads__response_lost__no_more_than_the_window_is_requested(void **state)
{
    (void)state;
    struct scene *s = open_with_depth(4);

    post(s, 1, 0, 64);
    post(s, 2, 64, 64);
    expect_request(s, 0, 0, 64);
    expect_request(s, 0, 64, 64);
    respond(s, 0, "RC_READ_RESPONSE_FIRST", 0);
    lose(s, 0, 1);
    expect_request(s, 0, 1, WINDOW - 1);
    scene_expect_mark(s, "REQ.READ.WINDOW");
    scene_expect_silence(s, 0);
    answer(s, 0, 1, WINDOW - 1);
    for (uint32_t i = WINDOW; i < 128; i += WINDOW) {
        expect_request(s, 0, i, WINDOW);
        scene_expect_silence(s, 0);
        answer(s, 0, i, WINDOW);
    }
    for (uint64_t id = 1; id <= 2; id++)
        scene_expect_sent(s, id, UROCE_SUCCESS);
    scene_assert_filled(s->local, 0, 128 * MTU);
    scene_close(s);
}

static void rc_reads__further_loss__halves_the_window_and_responses_double_it(void **state)
{
    (void)state;
    struct scene *s = open_with_depth(1);

    post(s, 1, 0, 128);
    expect_request(s, 0, 0, 128);
    respond(s, 0, "RC_READ_RESPONSE_FIRST", 0);
    lose(s, 0, 1);
    expect_request(s, 0, 1, 7);
    respond(s, 0, "RC_READ_RESPONSE_FIRST", 1);
    lose(s, 0, 2);
    expect_request(s, 0, 2, 2); /* the request ends at the next multiple of 4 */
    respond(s, 0, "RC_READ_RESPONSE_FIRST", 2);
    lose(s, 0, 3);
    expect_request(s, 0, 3, 1); /* the window is at its least, 4 */
    respond(s, 0, "RC_READ_RESPONSE_ONLY", 3);
    for (uint32_t i = 4; i < 32; i += 4) {
        expect_request(s, 0, i, 4);
        answer(s, 0, i, 4);
    }
    for (uint32_t i = 32; i < 128; i += 8) { /* after 8 answered requests; at most WINDOW */
        expect_request(s, 0, i, 8);
        answer(s, 0, i, 8);
    }
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_assert_filled(s->local, 0, 128 * MTU);
    scene_close(s);
}

/* The responder drops a duplicate request that goes beyond a request which it executed. */
static void rc_reads__part_was_lost__smaller_parts_end_at_the_same_psn(void **state)
{
    (void)state;
    struct scene *s = open_with_depth(4);

    post(s, 1, 0, 3);
    expect_request(s, 0, 0, 3);
    lose(s, 0, 0);
    expect_request(s, 0, 0, 3);
    answer(s, 0, 0, 3);
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    post(s, 2, 3, 20);
    expect_request(s, 0, 3, 8);
    scene_expect_mark(s, "REQ.READ.PART");
    scene_expect_silence(s, 0);
    respond(s, 0, "RC_READ_RESPONSE_FIRST", 3);
    lose(s, 0, 4);
    expect_request(s, 0, 4, 3);
    answer(s, 0, 4, 3);
    for (uint32_t i = 7; i < 23; i += 4) {
        expect_request(s, 0, i, 4);
        scene_expect_silence(s, 0);
        answer(s, 0, i, 4);
    }
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    scene_assert_filled(s->local, 0, 23 * MTU);
    scene_close(s);
}

static void rc_reads__short_reads_after_a_loss__share_the_window(void **state)
{
    (void)state;
    struct scene *s = open_with_depth(4);

    for (uint32_t i = 0; i < 5; i++)
        post(s, i, i * 3, 3);
    for (uint32_t i = 0; i < 4; i++)
        expect_request(s, 0, i * 3, 3);
    lose(s, 0, 0);
    expect_request(s, 0, 0, 3);
    expect_request(s, 0, 3, 3);
    scene_expect_silence(s, 0);
    for (uint32_t i = 0; i < 5; i++) {
        answer(s, 0, i * 3, 3);
        scene_expect_sent(s, i, UROCE_SUCCESS);
        if (i + 2 < 5)
            expect_request(s, 0, (i + 2) * 3, 3);
        scene_expect_silence(s, 0);
    }
    scene_assert_filled(s->local, 0, 15 * MTU);
    scene_close(s);
}

/* The responses to the first request are late, not lost. So at the end of the requested part, a
 * MIDDLE arrives. */
static void rc_reads__late_response_ends_a_part__the_next_part_is_requested(void **state)
{
    (void)state;
    struct scene *s = open_with_depth(1);

    post(s, 1, 0, 16);
    expect_request(s, 0, 0, 16);
    lose(s, 0, 0);
    expect_request(s, 0, 0, 8);
    respond(s, 0, "RC_READ_RESPONSE_FIRST", 0);
    for (uint32_t i = 1; i < 8; i++)
        respond(s, 0, "RC_READ_RESPONSE_MIDDLE", i);
    expect_request(s, 0, 8, 8);
    answer(s, 0, 0, 8); /* these responses are late, too */
    scene_expect_silence(s, 0);
    answer(s, 0, 8, 8);
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_assert_filled(s->local, 0, 16 * MTU);
    scene_close(s);
}

static void rc_reads__ack_timeout__starts_the_window(void **state)
{
    (void)state;
    struct scene *s = open_with_depth(4);

    post(s, 1, 0, 16);
    expect_request(s, 0, 0, 16);
    scene_expect_silence(s, TIMEOUT - URO_US(5));
    expect_request(s, TIMEOUT, 0, 8);
    scene_expect_silence(s, TIMEOUT);
    answer(s, TIMEOUT, 0, 8);
    expect_request(s, TIMEOUT, 8, 8);
    answer(s, TIMEOUT, 8, 8);
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_close(s);
}

/* No READ response was lost: the responder did not accept the READ behind the SEND. */
static void rc_reads__send_before_the_reads_gets_rnr_nak__reads_are_requested_again(void **state)
{
    (void)state;
    struct scene *s = open_with_depth(4);
    const uro_time later = URO_MS(1);

    scene_post_send(s, SEND(.id = 1, .text = "a", .at = 64 * MTU));
    post(s, 2, 1, 31);
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = FIRST, .ack_req = true, .text = "a"));
    expect_request(s, 0, 1, 31);
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = FIRST, .syndrome = 0x20 | 1)); /* RNR, 10 us */
    scene_expect_tx(s, later,
                    PACKET(.op = "RC_SEND_ONLY", .psn = FIRST, .ack_req = true, .text = "a"));
    expect_request(s, later, 1, 31);
    answer(s, later, 1, 31);
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    scene_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc_reads__response_lost__no_more_than_the_window_is_requested),
        cmocka_unit_test(rc_reads__further_loss__halves_the_window_and_responses_double_it),
        cmocka_unit_test(rc_reads__part_was_lost__smaller_parts_end_at_the_same_psn),
        cmocka_unit_test(rc_reads__short_reads_after_a_loss__share_the_window),
        cmocka_unit_test(rc_reads__late_response_ends_a_part__the_next_part_is_requested),
        cmocka_unit_test(rc_reads__ack_timeout__starts_the_window),
        cmocka_unit_test(rc_reads__send_before_the_reads_gets_rnr_nak__reads_are_requested_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
