/* SPDX-License-Identifier: BSD-3-Clause */
#include "support/check.h"

#include <stdio.h>
#include <string.h>

#include "sim/oracle/model.h"

/* The CNP of a ConnectX-4 Lx, from a public capture; the ICRC is the last four bytes. */
static const uint8_t cnp[74] = {
    0xe4, 0x1d, 0x2d, 0xab, 0x2b, 0xc2, 0x7c, 0xfe, 0x90, 0x64, 0x3b, 0x32, 0x08, 0x00, 0x45,
    0xc2, 0x00, 0x3c, 0x71, 0x8c, 0x40, 0x00, 0x40, 0x11, 0x91, 0x61, 0x0a, 0x00, 0x11, 0x01,
    0x0a, 0x00, 0x12, 0x01, 0x00, 0x00, 0x12, 0xb7, 0x00, 0x28, 0x00, 0x00, 0x81, 0x00, 0xff,
    0xff, 0x40, 0x00, 0x01, 0x18, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x82, 0xfd, 0x00, 0x2a,
};

static void codec__frame_of_a_real_nic__has_no_problem(void **state)
{
    (void)state;
    struct sim_codec result;

    assert_true(sim_codec_check(cnp, sizeof cnp, &result));
    assert_string_equal(result.problem, "");
    assert_true(result.roce);
    assert_false(result.rxe_flush);
}

/* A frame with one wrong bit is accepted only if a router may change this bit, or if the bit is in
 * link addresses or tags, which the ICRC does not cover. */
static void codec__any_wrong_bit__is_a_problem_unless_routers_may_change_it(void **state)
{
    (void)state;
    struct sim_codec result;
    uint8_t frame[sizeof cnp];
    unsigned passed = 0;

    for (unsigned bit = 0; bit < sizeof cnp * 8; bit++) {
        unsigned at = bit / 8;
        memcpy(frame, cnp, sizeof cnp);
        frame[at] ^= (uint8_t)(1u << bit % 8);
        if (!sim_codec_check(frame, sizeof frame, &result))
            continue;
        bool link = at < 12;
        bool udp_checksum = at == 40 || at == 41;
        bool congestion = at == 46; /* FECN, BECN */
        if (!link && !udp_checksum && !congestion && result.roce) {
            print_error("byte %u bit %u\n", at, bit % 8);
            fail();
        }
        passed++;
    }
    assert_true(passed >= 96);
}

static void codec__byte_behind_the_frame__is_accepted(void **state)
{
    (void)state;
    struct sim_codec result;
    uint8_t frame[sizeof cnp + 1];

    memcpy(frame, cnp, sizeof cnp);
    frame[sizeof cnp] = 1; /* padding of the link may have any value */
    assert_true(sim_codec_check(frame, sizeof frame, &result));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codec__frame_of_a_real_nic__has_no_problem),
        cmocka_unit_test(codec__any_wrong_bit__is_a_problem_unless_routers_may_change_it),
        cmocka_unit_test(codec__byte_behind_the_frame__is_accepted),
    };
    return cmocka_run_group_tests_name("sim/model", tests, NULL, NULL);
}
