/* SPDX-License-Identifier: BSD-3-Clause */
/* test_member_older.c - tests that reports have the version of the last query. */
#include "base/mark.h"
#include "support/check.h"
#include "unit/engine/member_stage.h"

#define IGMP_OLD  8u  /* length of IGMPv2, and of IGMPv1 if the response time is 0, bytes */
#define MLD_OLD   24u /* length of MLDv1, bytes */
#define FORGOTTEN URO_MS(260000)

#define REPORT_V1  0x12u
#define REPORT_V2  0x16u
#define MLD_REPORT 131u

static void older__igmp2__a_message_for_each_group_and_for_leaving(void **state)
{
    struct stage *s = open_stage();

    (void)state;
    uro_mark_clear();
    ask_in(s, false, IGMP_OLD, NULL, 10, 0);
    assert_int_equal(listen_to(s, URO_MS(1000)), 0);
    join(s, "239.1.2.3", URO_MS(2000));
    assert_int_equal(listen_to(s, URO_MS(2000)), 1);
    expect_frame(s, "01005e010203020000000001080046c00020000040000102e9120a000001ef010203"
                    "940400001600f8faef0102030000000000000000000000000000");
    assert_int_equal(listen_to(s, URO_MS(3000)), 1);
    join(s, "232.1.1.1", URO_MS(4000));
    (void)listen_to(s, URO_MS(4000));
    (void)listen_to(s, URO_MS(5000));
    ask_in(s, false, IGMP_OLD, NULL, 10, URO_MS(6000));
    assert_int_equal(listen_to(s, URO_MS(7000)), 2);
    assert_int_equal(s->reports.frames, 2);
    assert_true(reported(s, REPORT_V2, "239.1.2.3"));
    assert_true(reported(s, REPORT_V2, "232.1.1.1"));
    leave(s, "239.1.2.3", URO_MS(8000));
    assert_int_equal(listen_to(s, URO_MS(8000)), 1);
    expect_frame(s, "01005e000002020000000001080046c00020000040000102fa140a000001e0000002"
                    "940400001700f7faef0102030000000000000000000000000000");
    close_stage(s);
    assert_true(uro_mark_hit("MCAST.OLDER"));
}

static void older__igmp1__sends_no_leave_message(void **state)
{
    struct stage *s = open_stage();

    (void)state;
    ask_in(s, false, IGMP_OLD, NULL, 10, 0);
    ask_in(s, false, IGMP_OLD, NULL, 0, 0); /* the oldest version applies */
    (void)listen_to(s, URO_MS(10000));
    join(s, "239.1.2.3", URO_MS(20000));
    assert_int_equal(listen_to(s, URO_MS(20000)), 1);
    expect_frame(s, "01005e010203020000000001080046c00020000040000102e9120a000001ef010203"
                    "940400001200fcfaef0102030000000000000000000000000000");
    leave(s, "239.1.2.3", URO_MS(30000));
    assert_int_equal(listen_to(s, URO_MS(30000)), 0);
    assert_int_equal(listen_to(s, URO_MS(31000)), 0);
    assert_int_equal(next(s), URO_TIME_NEVER);
    close_stage(s);
}

static void older__mld1__a_message_for_each_group_and_for_leaving(void **state)
{
    struct stage *s = open_stage();

    (void)state;
    ask_in(s, true, MLD_OLD, NULL, 0, 0);
    assert_int_equal(listen_to(s, 0), 2);
    assert_true(reported(s, MLD_REPORT, "ff02::1:ff00:1"));
    assert_true(reported(s, MLD_REPORT, "ff02::1:ff02:3"));
    join(s, "ff0e::1:2", URO_MS(2000));
    assert_int_equal(listen_to(s, URO_MS(2000)), 1);
    expect_frame(s, "33330001000202000000000186dd6000000000200001fe80000000000000000000fffe000001"
                    "ff0e00000000000000000000000100023a000502000001008300810700000000ff0e00000000"
                    "00000000000000010002");
    leave(s, "ff0e::1:2", URO_MS(8000));
    assert_int_equal(listen_to(s, URO_MS(8000)), 1);
    expect_frame(s, "33330000000202000000000186dd6000000000200001fe80000000000000000000fffe000001"
                    "ff0200000000000000000000000000023a000502000001008400801400000000ff0e00000000"
                    "00000000000000010002");
    join(s, "239.1.2.3", URO_MS(9000)); /* the version of IPv4 reports is independent */
    assert_int_equal(listen_to(s, URO_MS(9500)), 2);
    assert_true(reported(s, URO_MEMBERSHIP_TO_EXCLUDE, "239.1.2.3"));
    close_stage(s);
}

static void older__querier_silent_for_long__returns_to_newest_version_by_steps(void **state)
{
    struct stage *s = open_stage();

    (void)state;
    join(s, "239.1.2.3", 0);
    (void)listen_to(s, 0);
    (void)listen_to(s, URO_MS(1000));
    const uro_time one = URO_MS(2000), two = URO_MS(5000);
    ask_in(s, false, IGMP_OLD, NULL, 0, one);
    ask_in(s, false, IGMP_OLD, NULL, 1, two);
    (void)listen_to(s, two + URO_MS(100));

    ask(s, false, NULL, 0, one + FORGOTTEN - 1);
    assert_int_equal(listen_to(s, one + FORGOTTEN - 1), 1);
    assert_true(reported(s, REPORT_V1, "239.1.2.3"));
    ask(s, false, NULL, 0, one + FORGOTTEN);
    assert_int_equal(listen_to(s, one + FORGOTTEN), 1);
    assert_true(reported(s, REPORT_V2, "239.1.2.3"));
    ask(s, false, NULL, 0, two + FORGOTTEN);
    assert_int_equal(listen_to(s, two + FORGOTTEN), 1);
    assert_true(reported(s, URO_MEMBERSHIP_IS_EXCLUDE, "239.1.2.3"));
    close_stage(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(older__igmp2__a_message_for_each_group_and_for_leaving),
        cmocka_unit_test(older__igmp1__sends_no_leave_message),
        cmocka_unit_test(older__mld1__a_message_for_each_group_and_for_leaving),
        cmocka_unit_test(older__querier_silent_for_long__returns_to_newest_version_by_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
