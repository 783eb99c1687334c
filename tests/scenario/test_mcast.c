/* SPDX-License-Identifier: BSD-3-Clause */
/* test_mcast.c - tests which queue pairs get a copy of a datagram to a group. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "scene.h"
#include "wire/bth.h"
#include "wire/ether.h"
#include "wire/icrc.h"
#include "wire/ip.h"

#define GROUP "239.1.2.3"
#define ALL   0xffffffu /* destination QPN of all multicast packets */

static const struct scene_packet news = {
    .op = "UD_SEND_ONLY", .text = "news", .to = GROUP, .qpn = ALL
};

static void post_to(struct scene *s, struct uroce_qp *qp, uint64_t id, uint32_t length)
{
    struct uroce_qp *before = s->qp;

    s->qp = qp;
    scene_post_recv(s, id, length);
    s->qp = before;
}

static void attach(struct scene *s, struct uroce_qp *qp, const char *group)
{
    struct uroce_qp *before = s->qp;

    s->qp = qp;
    scene_attach(s, group);
    s->qp = before;
}

static void detach(struct scene *s, struct uroce_qp *qp, const char *group)
{
    struct uroce_qp *before = s->qp;

    s->qp = qp;
    scene_detach(s, group);
    s->qp = before;
}

/* ---- which queue pairs get a copy --------------------------------------- */

static void mcast__several_members__each_gets_a_copy_and_no_other_qp(void **state)
{
    (void)state;
    struct scene *s = scene_ud();
    struct uroce_qp *b = scene_add(s, .type = UROCE_UD), *c = scene_add(s, .type = UROCE_UD);

    attach(s, s->qp, GROUP);
    attach(s, b, GROUP);
    post_to(s, s->qp, 1, 64);
    post_to(s, b, 2, 64);
    post_to(s, c, 3, 64);
    scene_rx(s, 0, &news);
    scene_expect_recv(s, 1, UROCE_SUCCESS, 44);
    assert_int_equal(scene_last()->qpn, uroce_qp_number(s->qp));
    assert_int_equal(scene_last()->source_qpn, SCENE_QPN_PEER);
    scene_expect_recv(s, 2, UROCE_SUCCESS, 44);
    assert_int_equal(scene_last()->qpn, uroce_qp_number(b));
    scene_expect_no_completion(s);
    assert_memory_equal(scene_recv_memory(s, 40), "news", 4);
    assert_memory_equal(scene_recv_memory(s, 64 + 40), "news", 4);
    assert_memory_equal(scene_recv_memory(s, 64 + 36), "\xef\1\2\3",
                        4); /* destination: the group */
    scene_expect_mark(s, "UD.MULTICAST");
    detach(s, s->qp, GROUP);
    detach(s, b, GROUP);
    scene_close(s);
}

static void mcast__over_ipv6__each_member_gets_a_copy(void **state)
{
    (void)state;
    struct scene *s = scene_ud();

    scene_attach(s, "ff0e::1:2");
    scene_post_recv(s, 1, 64);
    scene_rx(s, 0,
             PACKET(.op = "UD_SEND_ONLY_IMM", .text = "v6", .imm = 4, .from = "fe80::2",
                    .to = "ff0e::1:2", .qpn = ALL));
    scene_expect_recv(s, 1, UROCE_SUCCESS, 42);
    assert_int_equal(scene_last()->imm, 4);
    assert_int_equal(scene_last()->service_level, 0x9);
    scene_detach(s, "ff0e::1:2");
    scene_close(s);
}

static void mcast__member_with_wrong_q_key_or_no_receive__other_members_get_a_copy(void **state)
{
    (void)state;
    struct scene *s = scene_ud();
    struct uroce_qp *other_key = scene_add(s, .type = UROCE_UD, .qkey = 0x2222);
    struct uroce_qp *no_receive = scene_add(s, .type = UROCE_UD);
    struct uroce_qp *too_short = scene_add(s, .type = UROCE_UD);

    attach(s, other_key, GROUP);
    attach(s, no_receive, GROUP);
    attach(s, too_short, GROUP);
    attach(s, s->qp, GROUP);
    post_to(s, other_key, 1, 64);
    post_to(s, too_short, 2, 43);
    post_to(s, s->qp, 3, 44);
    scene_rx(s, 0, &news);
    scene_expect_recv(s, 3, UROCE_SUCCESS, 44);
    scene_expect_no_completion(s);
    assert_int_equal(scene_counter(s, "drop_qkey"), 1);
    assert_int_equal(scene_counter(s, "drop_ud_receive"), 1);
    assert_int_equal(scene_counter(s, "drop_ud_length"), 1);
    detach(s, other_key, GROUP);
    detach(s, no_receive, GROUP);
    detach(s, too_short, GROUP);
    detach(s, s->qp, GROUP);
    scene_close(s);
}

/* Groups with the same last byte share a hash bucket. */
static void mcast__groups_with_the_same_last_byte__are_distinct(void **state)
{
    (void)state;
    struct scene *s = scene_ud();
    struct uroce_qp *b = scene_add(s, .type = UROCE_UD);
    uint8_t group[UROCE_GID_SIZE];

    attach(s, s->qp, "239.1.2.3");
    attach(s, b, "239.9.2.3");
    attach(s, b, "239.1.2.4");
    post_to(s, s->qp, 1, 64);
    post_to(s, b, 2, 64);
    post_to(s, b, 3, 64);
    for (uint64_t id = 1; id <= 3; id++) {
        scene_rx(s, 0,
                 PACKET(.op = "UD_SEND_ONLY", .text = "x", .qpn = ALL,
                        .to = id == 1   ? "239.1.2.3"
                              : id == 2 ? "239.9.2.3"
                                        : "239.1.2.4"));
        scene_expect_recv(s, id, UROCE_SUCCESS, 41);
        scene_expect_no_completion(s);
    }
    assert_int_equal(uroce_gid_parse("239.9.2.3", group), 0);
    assert_int_equal(uroce_qp_detach(s->qp, group, s->now), -EINVAL);
    assert_int_equal(uroce_gid_parse("239.9.2.4", group), 0);
    assert_int_equal(uroce_qp_detach(b, group, s->now), -EINVAL);
    detach(s, s->qp, "239.1.2.3");
    detach(s, b, "239.9.2.3");
    detach(s, b, "239.1.2.4");
    scene_close(s);
}

static void mcast__last_member_detached__packets_are_dropped(void **state)
{
    (void)state;
    struct scene *s = scene_ud();
    struct uroce_qp *b = scene_add(s, .type = UROCE_UD);

    attach(s, s->qp, GROUP);
    attach(s, b, GROUP);
    post_to(s, s->qp, 1, 64);
    post_to(s, b, 2, 64);
    detach(s, s->qp, GROUP);
    scene_rx(s, 0, &news);
    scene_expect_recv(s, 2, UROCE_SUCCESS, 44);
    scene_expect_no_completion(s);
    detach(s, b, GROUP);
    scene_rx(s, 0, &news);
    scene_expect_no_completion(s);
    assert_int_equal(scene_counter(s, "drop_ip_dest"), 1);
    scene_close(s);
}

/* The engine joins a group with the first member, and leaves the group with the last. */
static void mcast__only_the_first_and_the_last_member__are_reported(void **state)
{
    (void)state;
    struct scene *s = scene_ud();
    struct uroce_qp *b = scene_add(s, .type = UROCE_UD);
    uint64_t reports = scene_counter(s, "membership_tx");

    attach(s, s->qp, GROUP);
    attach(s, s->qp, "239.9.2.3");
    assert_true(scene_counter(s, "membership_tx") > reports);
    reports = scene_counter(s, "membership_tx");
    attach(s, b, GROUP);
    detach(s, s->qp, GROUP);
    scene_expect_silence(s, 0);
    assert_int_equal(scene_counter(s, "membership_tx"), reports);
    detach(s, b, GROUP);
    detach(s, s->qp, "239.9.2.3");
    assert_true(scene_counter(s, "membership_tx") > reports);
    scene_close(s);
}

/* ---- sent by the same engine -------------------------------------------- */

static void send_news(struct scene *s, struct uroce_ah *ah, uint32_t psn)
{
    scene_post_send(s, SEND(.id = 10, .text = "news", .ah = ah, .qpn = ALL));
    scene_expect_tx(
        s, 0, PACKET(.op = "UD_SEND_ONLY", .psn = psn, .text = "news", .qpn = ALL, .to = GROUP));
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 10, UROCE_SUCCESS);
}

static void mcast__sent_by_a_member__all_members_get_a_copy(void **state)
{
    (void)state;
    struct scene *s = scene_ud();
    struct uroce_qp *b = scene_add(s, .type = UROCE_UD);

    struct uroce_ah *ah = scene_make_ah(s, GROUP);
    attach(s, s->qp, GROUP);
    attach(s, b, GROUP);
    post_to(s, s->qp, 1, 64);
    post_to(s, b, 2, 64);
    send_news(s, ah, 0);
    scene_expect_recv(s, 1, UROCE_SUCCESS, 44);
    assert_int_equal(scene_last()->source_qpn, uroce_qp_number(s->qp));
    scene_expect_recv(s, 2, UROCE_SUCCESS, 44);
    detach(s, s->qp, GROUP);
    detach(s, b, GROUP);
    assert_int_equal(uroce_ah_destroy(ah), 0);
    scene_close(s);
}

static void mcast__sender_blocks_own_packets__other_members_get_a_copy(void **state)
{
    (void)state;
    struct scene *s = scene_ud(.block_self_multicast = true);
    struct uroce_qp *b = scene_add(s, .type = UROCE_UD, .block_self_multicast = true);

    struct uroce_ah *ah = scene_make_ah(s, GROUP);
    attach(s, s->qp, GROUP);
    attach(s, b, GROUP);
    post_to(s, s->qp, 1, 64);
    post_to(s, b, 2, 64);
    send_news(s, ah, 0);
    scene_expect_recv(s, 2, UROCE_SUCCESS, 44);
    scene_expect_no_completion(s);
    /* A queue pair with the same number on another host is a different queue pair. */
    scene_rx(s, 0,
             PACKET(.op = "UD_SEND_ONLY", .text = "same", .to = GROUP, .qpn = ALL,
                    .source_qpn = uroce_qp_number(s->qp)));
    scene_expect_recv(s, 1, UROCE_SUCCESS, 44);
    detach(s, s->qp, GROUP);
    detach(s, b, GROUP);
    assert_int_equal(uroce_ah_destroy(ah), 0);
    scene_close(s);
}

static void mcast__no_local_member__packet_is_only_sent(void **state)
{
    (void)state;
    struct scene *s = scene_ud();

    struct uroce_ah *ah = scene_make_ah(s, GROUP);
    scene_post_recv(s, 1, 64);
    send_news(s, ah, 0);
    scene_expect_no_completion(s);
    assert_int_equal(uroce_ah_destroy(ah), 0);
    scene_close(s);
}

/* ---- dropped ------------------------------------------------------------ */

static void mcast__packet_other_than_ud_to_a_group__dropped(void **state)
{
    (void)state;
    struct scene *s = scene_ud();
    struct uroce_qp *uc = scene_add(s, .type = UROCE_UC);
    const struct scene_packet wrong[] = {
        { .op = "UC_SEND_ONLY", .text = "x", .to = GROUP, .qpn = ALL },
        { .op = "RC_SEND_ONLY", .text = "x", .to = GROUP, .qpn = ALL },
        { .op = "RC_ACK", .to = GROUP, .qpn = ALL },
        { .op = "UD_SEND_ONLY", .text = "x", .to = "10.0.0.1", .qpn = ALL },
        { .op = "UD_SEND_ONLY", .text = "x", .to = GROUP }, /* destination: one queue pair */
        { .op = "UC_SEND_ONLY", .text = "x", .to = GROUP, .qpn = uroce_qp_number(uc) },
        { .op = "UD_SEND_ONLY", .length = 256, .qkey = 0x80010000, .to = GROUP, .qpn = 1 },
    };

    scene_attach(s, GROUP);
    scene_post_recv(s, 1, 64);
    post_to(s, uc, 2, 64);
    for (size_t i = 0; i < URO_ARRAY_LEN(wrong); i++)
        scene_rx(s, 0, &wrong[i]);
    assert_int_equal(scene_counter(s, "drop_qpn"), 6);
    assert_int_equal(scene_counter(s, "drop_address"), 1); /* wrong source or destination address */
    scene_expect_mark(s, "MCAST.QPN");
    scene_expect_no_completion(s);
    scene_expect_silence(s, 0);
    scene_detach(s, GROUP);
    scene_close(s);
}

/* Delivers a packet with @length bytes after its UDP header, for QPN 0xffffff, with opcode 0xff. */
static void input_unknown(struct scene *s, const char *to, uint32_t length, bool icrc)
{
    uint8_t frame[256] = { 0 };
    struct uro_ip ip = { .hop_limit = 64,
                         .protocol = URO_IPPROTO_UDP,
                         .payload_length = (uint16_t)(URO_UDP_LEN + length) };
    const struct uro_ether ether = { .dest = { { 1, 0, 0x5e, 1, 2, 3 } },
                                     .type = URO_ETHERTYPE_IPV4 };

    assert_true(uro_gid_parse("10.0.0.2", &ip.source) && uro_gid_parse(to, &ip.dest));
    uint8_t *network = frame + uro_ether_put(frame, &ether);
    uint8_t *udp = network + uro_ip_put(network, &ip);
    uro_udp_encode(udp, &(const struct uro_udp){ 50000, 4791, ip.payload_length, 0 });
    uint8_t *end = udp + URO_UDP_LEN + length;
    static const uint8_t bth[12] = { 0xff, 0x00, 0xff, 0xff, 0x00, 0xff, 0xff, 0xff };
    memcpy(udp + URO_UDP_LEN, bth, length < sizeof bth ? length : sizeof bth);
    if (icrc && length >= URO_BTH_LEN + 4)
        uro_put_le32(end - 4, uro_icrc(network, false, (size_t)(end - 4 - network)));
    /* The buffer has exactly the size of the packet, so that a sanitizer detects reads beyond
     * it. */
    uint8_t *exact = malloc((size_t)(end - frame));
    assert_non_null(exact);
    memcpy(exact, frame, (size_t)(end - frame));
    scene_input(s, 0, exact, (uint32_t)(end - frame));
    free(exact);
}

/* bug B01: one packet of 48 bytes like this stopped hosts. */
static void mcast__one_small_packet_of_an_unknown_opcode__counted_and_dropped(void **state)
{
    (void)state;
    struct scene *s = scene_ud();

    scene_attach(s, GROUP);
    scene_post_recv(s, 1, 64);
    input_unknown(s, GROUP, 48, true);
    assert_int_equal(scene_counter(s, "drop_opcode"), 1);
    for (uint32_t length = 0; length < 128; length++)
        for (int icrc = 0; icrc < 2; icrc++) {
            input_unknown(s, GROUP, length, icrc);
            input_unknown(s, "10.0.0.1", length, icrc);
        }
    assert_int_equal(scene_counter(s, "drop_opcode") + scene_counter(s, "drop_icrc") +
                         scene_counter(s, "drop_length"),
                     1 + 4 * 128);
    scene_expect_no_completion(s);
    scene_expect_silence(s, 0);
    scene_rx(s, 0, &news);
    scene_expect_recv(s, 1, UROCE_SUCCESS, 44);
    scene_detach(s, GROUP);
    scene_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mcast__several_members__each_gets_a_copy_and_no_other_qp),
        cmocka_unit_test(mcast__over_ipv6__each_member_gets_a_copy),
        cmocka_unit_test(mcast__member_with_wrong_q_key_or_no_receive__other_members_get_a_copy),
        cmocka_unit_test(mcast__groups_with_the_same_last_byte__are_distinct),
        cmocka_unit_test(mcast__last_member_detached__packets_are_dropped),
        cmocka_unit_test(mcast__only_the_first_and_the_last_member__are_reported),
        cmocka_unit_test(mcast__sent_by_a_member__all_members_get_a_copy),
        cmocka_unit_test(mcast__sender_blocks_own_packets__other_members_get_a_copy),
        cmocka_unit_test(mcast__no_local_member__packet_is_only_sent),
        cmocka_unit_test(mcast__packet_other_than_ud_to_a_group__dropped),
        cmocka_unit_test(mcast__one_small_packet_of_an_unknown_opcode__counted_and_dropped),
    };
    return cmocka_run_group_tests_name("scenario/mcast", tests, NULL, NULL);
}
