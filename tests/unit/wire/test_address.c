/* SPDX-License-Identifier: BSD-3-Clause */
/* test_address.c - tests GIDs and MAC addresses: kinds, formatting and parsing. */
#include "support/check.h"

#include <string.h>

#include "wire/gid.h"
#include "wire/icmp.h"

static struct uro_gid gid(const char *text)
{
    struct uro_gid parsed;

    assert_true(uro_gid_parse(text, &parsed));
    return parsed;
}

/* The output follows RFC 5952. The left column has other forms that the parser accepts. */
static void gid__any_text_form__is_printed_in_one_form(void **state)
{
    static const char *const pairs[][2] = {
        { "10.0.0.1", "10.0.0.1" },
        { "255.255.255.255", "255.255.255.255" },
        { "::ffff:192.168.0.7", "192.168.0.7" },
        { "::FFFF:c0a8:7", "192.168.0.7" },
        { "::", "::" },
        { "::1", "::1" },
        { "1::", "1::" },
        { "fe80::1", "fe80::1" },
        { "FE80:0000::0001", "fe80::1" },
        { "2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1" },
        { "2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1" },
        { "2001:0:0:1:0:0:0:1", "2001:0:0:1::1" },
        { "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8" },
        { "1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0" },
        { "1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:102:304" },
        { "64:ff9b::1.2.3.4", "64:ff9b::102:304" },
        { "1111:2222:3333:4444:5555:6666:7777:8888", "1111:2222:3333:4444:5555:6666:7777:8888" },
    };

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(pairs); i++) {
        const struct uro_gid in = gid(pairs[i][0]);
        char text[URO_GID_TEXT_MAX];
        assert_string_equal(uro_gid_text(&in, text), pairs[i][1]);
        const struct uro_gid again = gid(text);
        assert_true(uro_gid_equal(&in, &again));
    }
}

static void gid_parse__no_address__is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "10.0.0",
        "10.0.0.1.2",
        "10.0.0.256",
        "10.0.0.01",
        "10.0.0.1 ",
        "1:2:3:4:5:6:7",
        "1:2:3:4:5:6:7:8:9",
        "1::2::3",
        ":::",
        ":1",
        "1:",
        "12345::",
        "g::",
        "::1%eth0",
        "1:2:3:4:5:6:7:1.2.3.4",
        "::1.2.3",
        "1.2.3.4::",
        "1:2:3:4:5:6:7:8::",
        "fe80:: 1",
        "1:2:3:4::5:6:7:8",
    };

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(bad); i++) {
        struct uro_gid parsed;
        if (uro_gid_parse(bad[i], &parsed))
            fail_msg("\"%s\" was taken for an address", bad[i]);
    }
}

static void mac_parse__anything_but_six_pairs__is_refused(void **state)
{
    static const char *const bad[] = { "",
                                       "00:11:22:33:44",
                                       "00:11:22:33:44:5",
                                       "00:11:22:33:44:55:66",
                                       "00-11-22-33-44-55",
                                       "00:11:22:33:44:5g" };
    static const uint8_t expected[6] = { 0x00, 0x1a, 0xBc, 0x33, 0x44, 0xff };
    struct uro_mac mac;

    (void)state;
    assert_true(uro_mac_parse("00:1a:Bc:33:44:FF", &mac));
    assert_memory_equal(mac.octets, expected, 6);
    for (size_t i = 0; i < URO_ARRAY_LEN(bad); i++)
        assert_false(uro_mac_parse(bad[i], &mac));
}

static void gid__predicates__are_right(void **state)
{
    static const struct {
        const char *text;
        bool zero, ipv4, multicast, link_local;
    } known[] = {
        { "::", true, false, false, false },
        { "::1", false, false, false, false },
        { "0.0.0.0", false, true, false, false },
        { "223.255.255.255", false, true, false, false },
        { "224.0.0.1", false, true, true, false },
        { "239.255.255.255", false, true, true, false },
        { "240.0.0.1", false, true, false, false },
        { "ff02::1", false, false, true, false },
        { "fe80::1", false, false, false, true },
        { "febf::1", false, false, false, true },
        { "fec0::1", false, false, false, false },
        { "::fffe:1.2.3.4", false, false, false, false },
    };

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(known); i++) {
        const struct uro_gid in = gid(known[i].text);
        assert_int_equal(uro_gid_is_zero(&in), known[i].zero);
        assert_int_equal(uro_gid_is_ipv4(&in), known[i].ipv4);
        assert_int_equal(uro_gid_is_multicast(&in), known[i].multicast);
        assert_int_equal(uro_gid_is_link_local(&in), known[i].link_local);
    }
}

static void gid_is_loopback__127_and_1__nothing_else(void **state)
{
    static const char *const yes[] = { "127.0.0.1", "127.255.0.9", "::1" };
    static const char *const no[] = { "10.0.0.127", "::2", "fe80::1", "128.0.0.1" };
    struct uro_gid gid;

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(yes); i++)
        assert_true(uro_gid_parse(yes[i], &gid) && uro_gid_is_loopback(&gid));
    for (size_t i = 0; i < URO_ARRAY_LEN(no); i++)
        assert_true(uro_gid_parse(no[i], &gid) && !uro_gid_is_loopback(&gid));
}

static void gid__made_from_a_mac_or_an_address__has_the_right_bytes(void **state)
{
    const struct uro_mac mac = { { 0x52, 0x54, 0x00, 0x12, 0x34, 0x56 } };
    const struct uro_gid made = uro_gid_link_local(&mac);
    const struct uro_gid expected = gid("fe80::5054:ff:fe12:3456");

    (void)state;
    assert_true(uro_gid_equal(&made, &expected));
    assert_true(uro_guid_from_mac(&mac) == 0x505400fffe123456);
}

static void gid_same_subnet__any_prefix__compares_only_these_bits(void **state)
{
    (void)state;
    const struct uro_gid a = gid("10.0.0.1"), b = gid("10.0.0.254"), c = gid("10.0.1.1");

    for (unsigned prefix = 0; prefix <= 120; prefix++)
        assert_true(uro_gid_same_subnet(&a, &b, prefix));
    for (unsigned prefix = 121; prefix <= 128; prefix++)
        assert_false(uro_gid_same_subnet(&a, &b, prefix));
    assert_true(uro_gid_same_subnet(&a, &c, 119));
    assert_false(uro_gid_same_subnet(&a, &c, 120));
    assert_true(uro_gid_same_subnet(&a, &a, 128));
}

static void multicast__ipv4_and_ipv6_groups__have_the_mac_of_the_standards(void **state)
{
    static const struct {
        const char *group;
        const char *mac;
    } known[] = {
        { "224.0.0.1", "01:00:5e:00:00:01" },
        { "239.129.2.3", "01:00:5e:01:02:03" }, /* 23 bits, not 24 */
        { "ff02::1", "33:33:00:00:00:01" },
        { "ff02::1:ff12:3456", "33:33:ff:12:34:56" },
    };
    struct uro_mac expected;

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(known); i++) {
        const struct uro_gid group = gid(known[i].group);
        const struct uro_mac mac = uro_mac_multicast(&group);
        assert_true(uro_mac_parse(known[i].mac, &expected));
        assert_memory_equal(&mac, &expected, sizeof mac);
    }
    const struct uro_gid target = gid("fd00::12:3456");
    const struct uro_gid node = uro_gid_solicited_node(&target);
    const struct uro_gid solicited = gid("ff02::1:ff12:3456");
    assert_true(uro_gid_equal(&node, &solicited));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gid__any_text_form__is_printed_in_one_form),
        cmocka_unit_test(gid_parse__no_address__is_refused),
        cmocka_unit_test(mac_parse__anything_but_six_pairs__is_refused),
        cmocka_unit_test(gid__predicates__are_right),
        cmocka_unit_test(gid_is_loopback__127_and_1__nothing_else),
        cmocka_unit_test(gid__made_from_a_mac_or_an_address__has_the_right_bytes),
        cmocka_unit_test(gid_same_subnet__any_prefix__compares_only_these_bits),
        cmocka_unit_test(multicast__ipv4_and_ipv6_groups__have_the_mac_of_the_standards),
    };
    return cmocka_run_group_tests_name("wire/address", tests, NULL, NULL);
}
