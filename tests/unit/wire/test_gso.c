/* SPDX-License-Identifier: BSD-3-Clause */
/* test_gso.c - tests that packets of a flow do not change if they are joined into one frame and
 * segmented again. */
#include "support/check.h"

#include <string.h>

#include "support/make_frame.h"
#include "wire/gso.h"

#define WRITE_MIDDLE 0x07
#define PACKETS      3u
#define EACH         208u /* octets of payload */

static uint8_t data[PACKETS][EACH];
static uint8_t packets[PACKETS][MADE_FRAME_MAX];
static uint32_t lengths[PACKETS];
static uint8_t joined[PACKETS * MADE_FRAME_MAX];

/* Makes a flow of packets, the last one shorter. Returns the length of their headers. */
static uint32_t make_flow(bool v6)
{
    for (uint32_t i = 0; i < PACKETS; i++) {
        memset(data[i], (int)(i + 1), EACH);
        struct uro_frame frame = plain_frame(v6, WRITE_MIDDLE, data[i], i < 2 ? EACH : EACH / 2);
        frame.bth.psn += i;
        frame.ip.identification = v6 ? 0 : (uint16_t)(0xfffe + i); /* wraps */
        lengths[i] = make_frame(&frame, packets[i]);
    }
    return uro_gso_head(packets[0], lengths[0]);
}

/* Joins the payloads behind the headers of the first packet. Returns the frame's length. */
static uint32_t join_flow(uint32_t head)
{
    uint32_t length = head;

    memcpy(joined, packets[0], head);
    for (uint32_t i = 0; i < PACKETS; i++) {
        memcpy(joined + length, packets[i] + head, lengths[i] - head);
        length += lengths[i] - head;
    }
    uro_gso_join(joined, head, length - head);
    return length;
}

static void each_comes_back(bool v6)
{
    const uint32_t head = make_flow(v6);
    uint8_t out[MADE_FRAME_MAX];
    struct uro_frame frame;

    assert_int_equal(head, v6 ? 62 : 42);
    (void)join_flow(head);
    for (uint32_t i = 0; i < PACKETS; i++) {
        uro_gso_cut(joined, head, i, lengths[i] - head, out);
        memcpy(out + head, joined + head + i * (lengths[0] - head), lengths[i] - head);
        assert_memory_equal(out, packets[i], lengths[i]);
        assert_int_equal(uro_frame_network(out, lengths[i], &frame), URO_FRAME_OK);
        assert_int_equal(uro_frame_roce(&frame), URO_FRAME_OK);
    }
}

static void gso__packets_over_ipv4__joined_and_cut_are_the_same(void **state)
{
    (void)state;
    each_comes_back(false);
}

static void gso__packets_over_ipv6__joined_and_cut_are_the_same(void **state)
{
    (void)state;
    each_comes_back(true);
}

/* Checks that the checksum field holds the pseudo header sum: adding the sum of the rest gives the
 * right checksum. */
static void checksum_is_the_pseudo_headers(bool v6)
{
    const uint32_t head = make_flow(v6);
    const uint32_t length = join_flow(head);
    uint8_t *const udp = joined + head - URO_UDP_LEN;
    struct uro_frame frame;

    uro_put_be16(udp + 6, uro_ip_sum_finish(uro_ip_sum(0, udp, length - (head - URO_UDP_LEN))));
    assert_int_not_equal(uro_get_be16(udp + 6), 0);
    assert_int_equal(uro_frame_network(joined, length, &frame), URO_FRAME_OK);
    assert_int_equal(frame.udp.length, length - head + URO_UDP_LEN);
}

static void gso__frame__has_the_checksum_of_the_pseudo_header(void **state)
{
    (void)state;
    checksum_is_the_pseudo_headers(false);
    checksum_is_the_pseudo_headers(true);
}

struct change {
    uint8_t at;  /* octet of the frame */
    bool counts; /* true: a change of the octet makes another flow */
};

static void flow_is_the_same(bool v6, const struct change *changes, size_t count)
{
    const uint32_t head = make_flow(v6);

    assert_true(uro_gso_same_flow(packets[0], packets[2], head));
    for (size_t i = 0; i < count; i++) {
        packets[2][changes[i].at] ^= 1;
        assert_int_equal(uro_gso_same_flow(packets[0], packets[2], head), !changes[i].counts);
        packets[2][changes[i].at] ^= 1;
    }
}

static void gso__other_header__is_another_flow_except_length_id_checksum(void **state)
{
    static const struct change v4[] = {
        { 0, true },   { 11, true },  { 13, true },  { 14, true },  { 15, true },  { 16, false },
        { 17, false }, { 18, false }, { 19, false }, { 20, true },  { 22, true },  { 23, true },
        { 24, false }, { 25, false }, { 26, true },  { 33, true },  { 34, true },  { 35, true },
        { 36, true },  { 37, true },  { 38, false }, { 39, false }, { 40, false }, { 41, false },
    };
    static const struct change v6[] = {
        { 0, true },  { 14, true },  { 17, true },  { 18, false }, { 19, false },
        { 20, true }, { 21, true },  { 22, true },  { 53, true },  { 54, true },
        { 57, true }, { 58, false }, { 59, false }, { 60, false }, { 61, false },
    };

    (void)state;
    flow_is_the_same(false, v4, URO_ARRAY_LEN(v4));
    flow_is_the_same(true, v6, URO_ARRAY_LEN(v6));
}

static void gso__options_fragments_other_protocols_and_tags__are_not_packets_of_udp(void **state)
{
    static const struct {
        uint8_t at, value;
    } changes[] = { { 12, 0x86 }, { 13, 0x06 }, { 14, 0x46 }, { 14, 0x65 },
                    { 20, 0x20 }, { 21, 1 },    { 23, 6 } };

    (void)state;
    (void)make_flow(false);
    for (size_t i = 0; i < URO_ARRAY_LEN(changes); i++) {
        const uint8_t before = packets[0][changes[i].at];
        packets[0][changes[i].at] = changes[i].value;
        assert_int_equal(uro_gso_head(packets[0], lengths[0]), 0);
        packets[0][changes[i].at] = before;
    }
    assert_int_equal(uro_gso_head(packets[0], 41), 0);
    assert_int_equal(uro_gso_head(packets[0], 42), 42);
    (void)make_flow(true);
    assert_int_equal(uro_gso_head(packets[0], 61), 0);
    assert_int_equal(uro_gso_head(packets[0], 62), 62);
    packets[0][20] = 44;
    assert_int_equal(uro_gso_head(packets[0], lengths[0]), 0);
}

static void gso__partial_udp_checksum__is_cleared(void **state)
{
    struct uro_frame frame;

    (void)state;
    for (int v6 = 0; v6 < 2; v6++) {
        const uint32_t head = make_flow(v6);
        uro_put_be16(packets[0] + head - 2, 0x1234);
        assert_int_equal(uro_frame_network(packets[0], lengths[0], &frame), URO_FRAME_UDP_CHECKSUM);
        uro_gso_forget_checksum(packets[0], lengths[0]);
        assert_int_equal(uro_frame_network(packets[0], lengths[0], &frame), URO_FRAME_OK);
    }
    packets[0][20] = 58; /* protocol other than UDP: unchanged */
    uro_put_be16(packets[0] + 60, 0x1234);
    uro_gso_forget_checksum(packets[0], lengths[0]);
    assert_int_equal(uro_get_be16(packets[0] + 60), 0x1234);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gso__packets_over_ipv4__joined_and_cut_are_the_same),
        cmocka_unit_test(gso__packets_over_ipv6__joined_and_cut_are_the_same),
        cmocka_unit_test(gso__frame__has_the_checksum_of_the_pseudo_header),
        cmocka_unit_test(gso__other_header__is_another_flow_except_length_id_checksum),
        cmocka_unit_test(gso__options_fragments_other_protocols_and_tags__are_not_packets_of_udp),
        cmocka_unit_test(gso__partial_udp_checksum__is_cleared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
