/* SPDX-License-Identifier: BSD-3-Clause */
/* test_grh.c - tests the 40 octets before a datagram against those that Linux rxe writes. */
#include "support/check.h"

#include <string.h>

#include "wire/grh.h"

static const uint8_t v4_header[20] = { 0x45, 0x02, 0x00, 0x98, 0x00, 0xab, 0x40, 0x00, 0x40, 0x11,
                                       0x25, 0x91, 0x0a, 0x07, 0x00, 0x09, 0x0a, 0x07, 0x00, 0x01 };
static const uint8_t v6_header[40] = { 0x66, 0x8a, 0xbc, 0xde,     0x00, 0x10,    0x11,
                                       0x07, 0xfe, 0x80, [23] = 1, 0xfd, [39] = 2 };

static void expect(const struct uro_grh *grh, const char *source, const char *dest)
{
    char text[URO_GID_TEXT_MAX];

    assert_string_equal(uro_gid_text(&grh->source, text), source);
    assert_string_equal(uro_gid_text(&grh->dest, text), dest);
}

static void grh__of_an_ipv4_header__is_twenty_zeros_and_the_header(void **state)
{
    static const uint8_t zeros[20];
    uint8_t area[URO_GRH_LEN];
    struct uro_grh grh;

    (void)state;
    memset(area, 0xff, sizeof area);
    uro_grh_encode(area, v4_header, false);
    assert_memory_equal(area, zeros, 20);
    assert_memory_equal(area + 20, v4_header, 20);
    assert_true(uro_grh_decode(area, &grh));
    assert_false(grh.v6);
    assert_int_equal(grh.traffic_class, 2);
    assert_int_equal(grh.hop_limit, 64);
    expect(&grh, "10.7.0.9", "10.7.0.1");
}

static void grh__of_an_ipv6_header__is_the_header(void **state)
{
    uint8_t area[URO_GRH_LEN];
    struct uro_grh grh;

    (void)state;
    uro_grh_encode(area, v6_header, true);
    assert_memory_equal(area, v6_header, 40);
    assert_true(uro_grh_decode(area, &grh));
    assert_true(grh.v6);
    assert_int_equal(grh.traffic_class, 0x68);
    assert_int_equal(grh.flow_label, 0xabcde);
    assert_int_equal(grh.hop_limit, 7);
    expect(&grh, "fe80::1", "fd00::2");
}

/* rule UD.GRH. A stack that does not write the first 20 octets of the GRH may leave a 6 there. */
static void grh__valid_as_ipv4_and_ipv6__is_ipv4_if_the_checksum_is_right(void **state)
{
    uint8_t area[URO_GRH_LEN];
    struct uro_grh grh;

    (void)state;
    uro_grh_encode(area, v4_header, false);
    area[0] = 0x60;
    assert_true(uro_grh_decode(area, &grh));
    assert_false(grh.v6);
    area[31] ^= 1;
    assert_true(uro_grh_decode(area, &grh));
    assert_true(grh.v6);
    area[31] ^= 1;
    area[20] = 0x46; /* IP options, which no RoCE sender uses */
    assert_true(uro_grh_decode(area, &grh));
    assert_true(grh.v6);
}

static void grh__of_neither_version__is_refused(void **state)
{
    uint8_t area[URO_GRH_LEN] = { 0 };
    struct uro_grh grh;

    (void)state;
    assert_false(uro_grh_decode(area, &grh));
    area[0] = 0x40;
    area[20] = 0x50;
    assert_false(uro_grh_decode(area, &grh));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grh__of_an_ipv4_header__is_twenty_zeros_and_the_header),
        cmocka_unit_test(grh__of_an_ipv6_header__is_the_header),
        cmocka_unit_test(grh__valid_as_ipv4_and_ipv6__is_ipv4_if_the_checksum_is_right),
        cmocka_unit_test(grh__of_neither_version__is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
