/* SPDX-License-Identifier: BSD-3-Clause */
/* test_member_filter.c - tests which frames to groups pass the filter. */
#include <errno.h>
#include <string.h>

#include "base/mark.h"
#include "support/check.h"
#include "support/make_frame.h"
#include "unit/engine/member_stage.h"

static bool among(const struct uro_mac *macs, uint32_t count, const uint8_t octets[6])
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < count; i++)
        found += memcmp(&macs[i], octets, 6) == 0;
    return found == 1;
}

static void member_filter__mac_addresses__of_the_port_and_each_group_once(void **state)
{
    static const uint8_t own[][6] = { { 0x33, 0x33, 0, 0, 0, 1 },
                                      { 0x01, 0x00, 0x5e, 0, 0, 1 },
                                      { 0x33, 0x33, 0xff, 0, 0, 1 },
                                      { 0x33, 0x33, 0xff, 2, 0, 3 } };
    static const uint8_t theirs[][6] = { { 0x01, 0x00, 0x5e, 0x01, 2, 3 },
                                         { 0x33, 0x33, 0xab, 0xcd, 2, 3 } };
    struct stage *s = open_stage();
    struct uro_mac macs[16];

    (void)state;
    uro_mark_clear();
    assert_int_equal(uro_engine_multicast_macs(s->engine, macs, 16), 4);
    for (size_t i = 0; i < URO_ARRAY_LEN(own); i++)
        assert_true(among(macs, 4, own[i]));
    const uint32_t before = uro_engine_multicast_version(s->engine);
    join(s, "239.1.2.3", 0);
    assert_int_not_equal(uro_engine_multicast_version(s->engine), before);
    join(s, "224.129.2.3", 0); /* the same 23 bits */
    join(s, "ff0e::1:abcd:203", 0);
    join(s, "224.0.0.1", 0);
    assert_int_equal(uro_engine_multicast_macs(s->engine, macs, 16), 6);
    for (size_t i = 0; i < URO_ARRAY_LEN(own); i++)
        assert_true(among(macs, 6, own[i]));
    assert_true(among(macs, 6, theirs[0]) && among(macs, 6, theirs[1]));
    leave(s, "239.1.2.3", 0);
    assert_int_equal(uro_engine_multicast_macs(s->engine, macs, 16), 6);
    const uint32_t with_one = uro_engine_multicast_version(s->engine);
    leave(s, "224.129.2.3", 0);
    assert_int_not_equal(uro_engine_multicast_version(s->engine), with_one);
    assert_int_equal(uro_engine_multicast_macs(s->engine, macs, 16), 5);
    assert_int_equal(uro_engine_multicast_macs(s->engine, macs, 3), 3);
    close_stage(s);
    assert_true(uro_mark_hit("MCAST.MAC"));
}

/* For a kernel link, the list contains only groups that programs joined, not the groups of the port
 * itself. */
static void member_filter__groups__are_those_that_programs_joined(void **state)
{
    struct stage *s = open_stage();
    struct uro_gid groups[4], wanted;

    (void)state;
    assert_int_equal(uro_engine_groups(s->engine, groups, 4), 0);
    const uint32_t before = uro_engine_multicast_version(s->engine);
    join(s, "224.0.0.1", 0);
    assert_int_not_equal(uro_engine_multicast_version(s->engine), before);
    join(s, "ff0e::1:abcd:203", 0);
    assert_int_equal(uro_engine_groups(s->engine, groups, 1), 1);
    assert_int_equal(uro_engine_groups(s->engine, groups, 4), 2);
    leave(s, "224.0.0.1", 0);
    assert_int_equal(uro_engine_groups(s->engine, groups, 4), 1);
    assert_true(uro_gid_parse("ff0e::1:abcd:203", &wanted));
    assert_true(uro_gid_equal(&groups[0], &wanted));
    close_stage(s);
}

static void send_to(struct stage *s, const char *dest)
{
    static const uint8_t payload[4];
    uint8_t out[MADE_FRAME_MAX];
    const bool v6 = strchr(dest, ':') != NULL;
    struct uro_frame frame = {
        .ether = { .dest = { { 1 } }, .type = v6 ? URO_ETHERTYPE_IPV6 : URO_ETHERTYPE_IPV4 },
        .ip = { .v6 = v6, .hop_limit = 1 },
        .udp = { .source_port = 0xc000, .dest_port = URO_ROCE_PORT },
        .op = &uro_opcodes[0x64],
        .bth = { .opcode = 0x64, .pkey = URO_PKEY_DEFAULT, .dest_qpn = 0xffffff },
        .payload = payload,
        .payload_length = 4
    };
    frame.ip.source = gid(v6 ? "fe80::9" : "10.0.0.9");
    frame.ip.dest = gid(dest);
    const struct uro_pkt pkt = { .octets = out, .length = make_frame(&frame, out) };
    uro_engine_input(s->engine, &pkt, 1, 0);
}

static void member__packets_to_a_group__accepted_while_joined(void **state)
{
    static const char *const groups[] = { "239.1.2.3", "ff0e::1:2" };
    struct stage *s = open_stage();
    uint64_t refused = 0, passed = 0;

    (void)state;
    uro_mark_clear();
    for (int i = 0; i < 2; i++) {
        send_to(s, groups[i]);
        assert_int_equal(counted(s, URO_COUNT_DROP_IP_DEST), ++refused);
        join(s, groups[i], 0);
        send_to(s, groups[i]);
        assert_int_equal(counted(s, URO_COUNT_DROP_IP_DEST), refused);
        assert_int_equal(counted(s, URO_COUNT_DROP_QPN),
                         ++passed); /* no queue pair is a member yet */
        leave(s, groups[i], 0);
        send_to(s, groups[i]);
        assert_int_equal(counted(s, URO_COUNT_DROP_IP_DEST), ++refused);
    }
    send_to(s, "ff02::1:ff00:1"); /* a group of the port itself, which no program joined */
    assert_int_equal(counted(s, URO_COUNT_DROP_IP_DEST), ++refused);
    close_stage(s);
    assert_true(uro_mark_hit("MCAST.DEST"));
}

static void member__not_a_multicast_address__refused(void **state)
{
    static const char *const others[] = { "10.0.0.1", "fe80::1", "::", "240.0.0.1" };
    struct stage *s = open_stage();

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(others); i++) {
        const struct uro_gid group = gid(others[i]);
        assert_int_equal(uro_engine_join(s->engine, &group, 0), -EINVAL);
    }
    close_stage(s);
}

static void member__malformed_message__counted(void **state)
{
    struct stage *s = open_stage();
    static const uint8_t query[] = { 1, 0, 0x5e, 0, 0, 1, 2,    0, 0, 0, 0, 9, 8, 0, 0x45,
                                     0, 0, 28,   0, 1, 0, 0,    1, 2, 0, 0, 0, 0, 0, 0,
                                     0, 9, 224,  0, 0, 1, 0x11, 0, 0, 0, 0, 0, 0, 0 };
    uint8_t frame[sizeof query];
    const struct uro_pkt pkt = { .octets = frame, .length = sizeof frame };

    (void)state;
    memcpy(frame, query, sizeof frame);
    uro_put_be16(frame + 24, uro_ip_sum_finish(uro_ip_sum(0, frame + 14, 20)));
    uro_engine_input(s->engine, &pkt, 1, 0);
    assert_int_equal(counted(s, URO_COUNT_DROP_MEMBERSHIP), 1);
    assert_int_equal(counted(s, URO_COUNT_MEMBERSHIP_RX), 0);
    close_stage(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(member_filter__mac_addresses__of_the_port_and_each_group_once),
        cmocka_unit_test(member_filter__groups__are_those_that_programs_joined),
        cmocka_unit_test(member__packets_to_a_group__accepted_while_joined),
        cmocka_unit_test(member__not_a_multicast_address__refused),
        cmocka_unit_test(member__malformed_message__counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
