/* SPDX-License-Identifier: BSD-3-Clause */
/* test_known_bugs.c - tests known bugs of other stacks that do not belong to one operation.
 *
 * docs/PROTOCOL.md, section 4, lists them. The comment above a test names its bug.
 */
#include <string.h>

#include "scene.h"
#include "scene_wire.h"
#include "wire/frame.h"
#include "wire/icrc.h"

#define AT_BTH (14u + 20u + 8u) /* offset of the BTH in a frame over IPv4 */

/* Recomputes the ICRC of a frame over IPv4 whose bytes were changed. */
static void sum_again(uint8_t *frame, uint32_t length)
{
    const uint8_t *network = frame + 14;

    uro_put_le32(frame + length - 4, uro_icrc(network, false, length - 14 - 4));
}

/* bug B02: the headers of the opcode, or the pad bytes, are longer than the packet. */
static void b02__headers_or_pad_longer_than_the_packet__counted_and_dropped(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);
    uint8_t frame[SCENE_FRAME_MAX];
    uint64_t sent = 0;

    scene_post_recv(s, 1, 64);
    for (unsigned opcode = 0; opcode < 256; opcode++) {
        const struct uro_opcode *op = &uro_opcodes[opcode];
        if (op->name == NULL)
            continue;
        uint32_t whole = scene_frame(s, PACKET(.op = op->name, .psn = 100), frame);
        const uint32_t ext = whole - 4 - AT_BTH - URO_BTH_LEN;
        frame[AT_BTH + 1] |= 3 << 4; /* the pad count is 3, but there are no pad bytes */
        sum_again(frame, whole);
        scene_input(s, 0, frame, whole);
        sent++;
        for (uint32_t missing = 4; missing <= ext; missing += 4) {
            struct uro_ip ip = { .hop_limit = 64,
                                 .protocol = URO_IPPROTO_UDP,
                                 .payload_length = (uint16_t)(whole - 34 - missing) };
            uint32_t length = scene_frame(s, PACKET(.op = op->name, .psn = 100), frame) - missing;
            assert_true(uro_gid_parse("10.0.0.2", &ip.source));
            assert_true(uro_gid_parse("10.0.0.1", &ip.dest));
            (void)uro_ip_put(frame + 14, &ip);
            uro_put_be16(frame + 34 + 4, (uint16_t)(length - 34));
            sum_again(frame, length);
            scene_input(s, 0, frame, length);
            sent++;
        }
    }
    assert_true(sent > 150);
    assert_int_equal(scene_counter(s, "drop_length"), sent);
    scene_expect_no_completion(s);
    scene_expect_silence(s, 0);
    scene_close(s);
}

/* bug B05: a duplicate READ whose address plus length wraps, or exceeds the first request. */
static void b05__duplicate_read_that_wraps__gets_no_response(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);
    const uint64_t va = (uintptr_t)s->remote;
    const struct scene_packet wrong[] = {
        { .op = "RC_READ_REQUEST", .psn = 100, .dma = 0xffffffff },
        { .op = "RC_READ_REQUEST", .psn = 100, .dma = 2049 },
        { .op = "RC_READ_REQUEST", .psn = 101, .va = va + 1024, .dma = 1025 },
        { .op = "RC_READ_REQUEST", .psn = 101, .va = va + 1024, .dma = (uint32_t)-1024 },
        { .op = "RC_READ_REQUEST", .psn = 100, .va = UINT64_MAX - 7, .dma = 16 },
        { .op = "RC_READ_REQUEST", .psn = 100, .va = va - 8, .dma = 16 },
    };

    scene_fill(s->remote, 0, 2048);
    scene_rx(s, 0, PACKET(.op = "RC_READ_REQUEST", .psn = 100, .dma = 2048));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_READ_RESPONSE_FIRST", .psn = 100, .length = 1024, .msn = 1));
    scene_expect_tx(
        s, 0,
        PACKET(.op = "RC_READ_RESPONSE_LAST", .psn = 101, .length = 1024, .fill = 1024, .msn = 1));
    for (size_t i = 0; i < URO_ARRAY_LEN(wrong); i++) {
        scene_rx(s, 0, &wrong[i]);
        scene_expect_silence(s, 0);
    }
    assert_int_equal(scene_counter(s, "drop_replay"), URO_ARRAY_LEN(wrong));
    scene_expect_state(s, UROCE_RTS);
    scene_close(s);
}

/* bug B07: the response of an atomic is lost; the second response completes the atomic. */
static void b07__atomic_response_lost__retransmitted_and_completes_once(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10);
    const struct scene_packet *asks = PACKET(.op = "RC_FETCH_ADD", .psn = 10, .va = 0x1000,
                                             .rkey = 2, .swap_add = 5, .ack_req = true);
    uint64_t value;

    scene_post_send(s, SEND(.id = 1, .op = UROCE_FETCH_ADD, .length = 8, .remote_address = 0x1000,
                            .rkey = 2, .compare_add = 5));
    scene_post_send(s, SEND(.id = 2, .text = "behind", .at = 64));
    scene_expect_tx(s, 0, asks);
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_SEND_ONLY", .psn = 11, .text = "behind", .ack_req = true));
    /* The ACK of a later request shows that the response before it was lost. */
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 11, .msn = 2));
    scene_expect_no_completion(s);
    scene_expect_tx(s, 0, asks);
    scene_rx(s, 0, PACKET(.op = "RC_ATOMIC_ACK", .psn = 10, .original = 77, .msn = 1));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_rx(s, 0, PACKET(.op = "RC_ATOMIC_ACK", .psn = 10, .original = 78, .msn = 1));
    memcpy(&value, s->local, 8);
    assert_int_equal(value, 77);
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_SEND_ONLY", .psn = 11, .text = "behind", .ack_req = true));
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 11, .msn = 2));
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    scene_close(s);
}

/* bug B11: the ICRC covers the pad bytes. Sends and receives every size up to the MTU. */
static void b11__every_length_up_to_the_mtu__icrc_covers_the_pad(void **state)
{
    (void)state;
    struct scene *s = scene_uc(.rq_psn = 0);

    for (uint32_t length = 0; length <= 1024; length++) {
        scene_fill(s->local, length, length);
        scene_post_send(s, SEND(.id = 1, .length = length));
        scene_expect_tx(
            s, 0, PACKET(.op = "UC_SEND_ONLY", .psn = length, .length = length, .fill = length));
        s->recv_used = 0;
        scene_post_recv(s, 2, 1024);
        scene_rx(s, 0,
                 PACKET(.op = "UC_SEND_ONLY", .psn = length, .length = length, .fill = length));
        scene_expect_sent(s, 1, UROCE_SUCCESS);
        scene_expect_recv(s, 2, UROCE_SUCCESS, length);
        scene_assert_filled(scene_recv_memory(s, 0), length, length);
    }
    assert_int_equal(scene_counter(s, "drop_icrc"), 0);
    scene_close(s);
}

/* bug B12: stacks disagree about MigReq. uroce accepts both values, and sends 1 as adapters do. */
static void b12__mig_req_0_or_1__accepted_and_1_is_sent(void **state)
{
    (void)state;
    struct scene *s = scene_uc();
    uint8_t frame[SCENE_FRAME_MAX];

    for (uint32_t bit = 0; bit < 2; bit++) {
        scene_post_recv(s, bit, 64);
        uint32_t length =
            scene_frame(s, PACKET(.op = "UC_SEND_ONLY", .psn = bit, .text = "x"), frame);
        frame[AT_BTH + 1] = (uint8_t)((frame[AT_BTH + 1] & 0xbfu) | bit << 6);
        sum_again(frame, length);
        scene_input(s, 0, frame, length);
        scene_expect_recv(s, bit, UROCE_SUCCESS, 1);
    }
    scene_post_send(s, SEND(.id = 5, .text = "y"));
    assert_int_not_equal(scene_output(s, 0, frame), 0);
    assert_int_equal(frame[AT_BTH + 1] & 0x40, 0x40);
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 5, UROCE_SUCCESS);
    scene_close(s);
}

/* bug B15: the requester fails with an error completion; other stacks reported success. */
static void b15__reserved_syndrome_or_last_without_first__error_completion(void **state)
{
    (void)state;
    const struct scene_packet wrong[] = {
        { .op = "RC_ACK", .psn = 10, .syndrome = 0x40 },
        { .op = "RC_ACK", .psn = 10, .syndrome = 0x5f },
        { .op = "RC_ACK", .psn = 10, .syndrome = 0x64 }, /* a NAK code that does not exist */
        { .op = "RC_READ_RESPONSE_LAST", .psn = 10, .length = 1024 },
        { .op = "RC_READ_RESPONSE_MIDDLE", .psn = 10, .length = 1024 },
        { .op = "RC_READ_RESPONSE_FIRST", .psn = 10, .length = 1024, .syndrome = 0x20 },
        { .op = "RC_ATOMIC_ACK", .psn = 10 },
    };

    for (size_t i = 0; i < URO_ARRAY_LEN(wrong); i++) {
        struct scene *s = scene_rc(.sq_psn = 10);

        scene_post_send(s, SEND(.id = 1, .op = UROCE_RDMA_READ, .length = 2048,
                                .remote_address = 0x1000, .rkey = 2));
        scene_expect_tx(s, 0,
                        PACKET(.op = "RC_READ_REQUEST", .psn = 10, .va = 0x1000, .rkey = 2,
                               .dma = 2048, .ack_req = true));
        scene_rx(s, 0, &wrong[i]);
        scene_expect_sent(s, 1, UROCE_BAD_RESP_ERR);
        scene_expect_state(s, UROCE_ERR);
        scene_close(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(b02__headers_or_pad_longer_than_the_packet__counted_and_dropped),
        cmocka_unit_test(b05__duplicate_read_that_wraps__gets_no_response),
        cmocka_unit_test(b07__atomic_response_lost__retransmitted_and_completes_once),
        cmocka_unit_test(b11__every_length_up_to_the_mtu__icrc_covers_the_pad),
        cmocka_unit_test(b12__mig_req_0_or_1__accepted_and_1_is_sent),
        cmocka_unit_test(b15__reserved_syndrome_or_last_without_first__error_completion),
    };
    return cmocka_run_group_tests_name("scenario/known_bugs", tests, NULL, NULL);
}
