/* SPDX-License-Identifier: BSD-3-Clause */
/* test_member.c - tests membership reports: contents, times, and replies to queries. */
#include <errno.h>
#include <string.h>

#include "base/mark.h"
#include "core/limits.h"
#include "support/check.h"
#include "unit/engine/member_stage.h"

static void member__joins__reports_at_once_and_again_within_a_second(void **state)
{
    struct stage *s = open_stage();
    const uro_time start = URO_MS(5000);

    (void)state;
    uro_mark_clear();
    assert_int_equal(next(s), URO_TIME_NEVER);
    assert_int_equal(listen_to(s, start), 0);
    join(s, "239.1.2.3", start);
    assert_true(next(s) <= start);
    assert_int_equal(listen_to(s, start), 1);
    expect_frame(s, "01005e000016020000000001080046c00028000040000102f9f80a000001e0000016"
                    "940400002200e8f90000000104000000ef010203000000000000");
    const uro_time again = next(s);
    assert_true(again > start && again <= start + URO_MS(1000));
    assert_int_equal(listen_to(s, again - 1), 0);
    assert_int_equal(listen_to(s, again), 1);
    assert_true(reported(s, URO_MEMBERSHIP_TO_EXCLUDE, "239.1.2.3"));
    assert_int_equal(next(s), URO_TIME_NEVER);
    assert_int_equal(counted(s, URO_COUNT_MEMBERSHIP_TX), 2);
    join(s, "239.1.2.3", again); /* sends no report, because the group is already joined */
    assert_int_equal(next(s), URO_TIME_NEVER);
    close_stage(s);
    assert_true(uro_mark_hit("MCAST.JOIN"));
}

static void member__joins_ipv6_group__reported_from_the_link_local_address(void **state)
{
    struct stage *s = open_stage();

    (void)state;
    join(s, "ff0e::1:2", 0);
    assert_int_equal(listen_to(s, 0), 1);
    expect_frame(s, "33330000001602000000000186dd6000000000240001fe80000000000000000000fffe000001"
                    "ff0200000000000000000000000000163a000502000001008f0070fb0000000104000000ff0e"
                    "0000000000000000000000010002");
    close_stage(s);
}

static void member__leaves__reports_twice_and_is_removed(void **state)
{
    struct stage *s = open_with(1500, NULL);

    (void)state;
    uro_mark_clear();
    join(s, "239.1.2.3", 0);
    assert_int_equal(listen_to(s, 0), 1);
    assert_int_equal(listen_to(s, URO_MS(2000)), 1);
    leave(s, "239.1.2.3", URO_MS(3000));
    assert_int_equal(listen_to(s, URO_MS(3000)), 1);
    expect_frame(
        s, "01005e000016020000000001080046c0002800004000010203fa00000000e0000016"
           "940400002200e9f90000000103000000ef010203000000000000"); /* source address 0.0.0.0 */
    const uro_time again = next(s);
    assert_true(again <= URO_MS(4000));
    assert_int_equal(listen_to(s, again), 1);
    assert_true(reported(s, URO_MEMBERSHIP_TO_INCLUDE, "239.1.2.3"));
    assert_int_equal(next(s), URO_TIME_NEVER);
    leave(s, "239.1.2.3", URO_MS(5000));
    assert_int_equal(next(s), URO_TIME_NEVER);
    ask(s, false, NULL, 10, URO_MS(6000));
    assert_int_equal(listen_to(s, URO_MS(8000)), 0);
    close_stage(s);
    assert_true(uro_mark_hit("MCAST.LEAVE"));
}

static void member__left_and_joined_before_the_report__remains_a_member(void **state)
{
    struct stage *s = open_stage();

    (void)state;
    join(s, "239.1.2.3", 0);
    leave(s, "239.1.2.3", 0);
    join(s, "239.1.2.3", 0);
    leave(s, "239.9.9.9", 0); /* never joined */
    assert_int_equal(listen_to(s, 0), 1);
    assert_true(reported(s, URO_MEMBERSHIP_TO_EXCLUDE, "239.1.2.3"));
    leave(s, "239.1.2.3", 1);
    assert_int_equal(listen_to(s, 1), 1);
    assert_true(reported(s, URO_MEMBERSHIP_TO_INCLUDE, "239.1.2.3"));
    join(s, "239.1.2.3", 2);
    assert_int_equal(listen_to(s, URO_MS(1)), 1);
    assert_int_equal(listen_to(s, URO_MS(1001)), 1);
    assert_true(reported(s, URO_MEMBERSHIP_TO_EXCLUDE, "239.1.2.3"));
    assert_int_equal(next(s), URO_TIME_NEVER);
    close_stage(s);
}

static void member__general_query__one_report_with_every_group(void **state)
{
    struct stage *s = open_stage();
    uro_time earliest = URO_TIME_NEVER, latest = 0;
    uint32_t asked = 0;

    (void)state;
    uro_mark_clear();
    join(s, "239.1.2.3", 0);
    join(s, "232.1.1.1", 0);
    join(s, "ff0e::7", 0);
    (void)listen_to(s, 0);
    (void)listen_to(s, URO_MS(1000));
    for (uro_time now = URO_MS(2000), due; now < URO_MS(200000); now = due + URO_MS(1000)) {
        ask(s, false, NULL, 20, now); /* code 20: respond within two seconds */
        ask(s, false, NULL, 100, now);
        asked += 2;
        due = next(s);
        assert_true(due >= now && due <= now + URO_MS(2000));
        earliest = due - now < earliest ? due - now : earliest;
        latest = due - now > latest ? due - now : latest;
        assert_int_equal(listen_to(s, due), 2);
        assert_int_equal(s->reports.frames, 1);
        assert_true(reported(s, URO_MEMBERSHIP_IS_EXCLUDE, "239.1.2.3"));
        assert_true(reported(s, URO_MEMBERSHIP_IS_EXCLUDE, "232.1.1.1"));
        assert_int_equal(next(s), URO_TIME_NEVER);
    }
    assert_true(earliest < URO_MS(200) &&
                latest > URO_MS(1000)); /* the engine chooses random times */

    ask(s, true, NULL, 0, URO_MS(300000));
    assert_int_equal(listen_to(s, URO_MS(300000)), 3);
    assert_int_equal(s->reports.frames, 1);
    assert_true(reported(s, URO_MEMBERSHIP_IS_EXCLUDE, "ff0e::7"));
    assert_true(reported(s, URO_MEMBERSHIP_IS_EXCLUDE, "ff02::1:ff00:1"));
    assert_true(reported(s, URO_MEMBERSHIP_IS_EXCLUDE, "ff02::1:ff02:3"));
    assert_int_equal(counted(s, URO_COUNT_MEMBERSHIP_RX), asked + 1);
    close_stage(s);
    assert_true(uro_mark_hit("MCAST.QUERY.ALL"));
}

static void member__group_query__reports_that_group_only(void **state)
{
    struct stage *s = open_stage();

    (void)state;
    uro_mark_clear();
    join(s, "239.1.2.3", 0);
    join(s, "232.1.1.1", 0);
    (void)listen_to(s, 0);
    (void)listen_to(s, URO_MS(1000));
    ask(s, false, "232.1.1.2", 1, URO_MS(2000));
    assert_int_equal(next(s), URO_TIME_NEVER);
    ask(s, false, "232.1.1.1", 1, URO_MS(2000));
    assert_true(next(s) <= URO_MS(2100));
    assert_int_equal(listen_to(s, URO_MS(2100)), 1);
    assert_true(reported(s, URO_MEMBERSHIP_IS_EXCLUDE, "232.1.1.1"));
    ask(s, false, "239.1.2.3", 1, URO_MS(2500));
    assert_int_equal(listen_to(s, URO_MS(2600)), 1);
    assert_true(reported(s, URO_MEMBERSHIP_IS_EXCLUDE, "239.1.2.3"));
    ask(s, true, "ff02::1:ff02:3", 1, URO_MS(3000));
    assert_int_equal(listen_to(s, URO_MS(3001)), 1);
    assert_true(reported(s, URO_MEMBERSHIP_IS_EXCLUDE, "ff02::1:ff02:3"));
    assert_int_equal(next(s), URO_TIME_NEVER);
    close_stage(s);
    assert_true(uro_mark_hit("MCAST.QUERY.GROUP"));
}

static void member__change_and_query_at_once__one_change_report(void **state)
{
    struct stage *s = open_stage();
    struct uro_tx tx;

    (void)state;
    join(s, "232.1.1.1", 0);
    (void)listen_to(s, 0);
    (void)listen_to(s, URO_MS(1000));
    join(s, "239.1.2.3", URO_MS(2000));
    ask(s, false, NULL, 1, URO_MS(1900));
    assert_int_equal(listen_to(s, URO_MS(2000)), 2);
    assert_int_equal(s->reports.frames, 1);
    assert_true(reported(s, URO_MEMBERSHIP_TO_EXCLUDE, "239.1.2.3"));
    assert_true(reported(s, URO_MEMBERSHIP_IS_EXCLUDE, "232.1.1.1"));

    (void)listen_to(s, URO_MS(4000));
    join(s, "ff0e::1", URO_MS(5000));
    assert_int_equal(uro_engine_output(s->engine, &tx, 0, URO_MS(5000)),
                     0); /* a report is due, and the caller has no space for a frame */
    ask(s, true, "ff0e::1", 0, URO_MS(5001));
    assert_int_equal(listen_to(s, URO_MS(5001)), 1);
    assert_true(reported(s, URO_MEMBERSHIP_TO_EXCLUDE, "ff0e::1"));
    close_stage(s);
}

static void member__groups_of_all_nodes_or_this_machine__are_never_reported(void **state)
{
    static const char *const silent[] = { "224.0.0.1",       "ff02::1", "ff01::1",
                                          "ff01:0:2:c985::", "ff00::5", "ff11::2" };
    struct stage *s = open_stage();

    (void)state;
    uro_mark_clear();
    for (size_t i = 0; i < URO_ARRAY_LEN(silent); i++)
        join(s, silent[i], 0);
    assert_int_equal(next(s), URO_TIME_NEVER);
    ask(s, true, "ff01::1", 0, 1);
    ask(s, true, NULL, 0, 1);
    assert_int_equal(listen_to(s, 1), 2); /* the solicited-node groups */
    ask(s, false, NULL, 1, 1);
    assert_int_equal(listen_to(s, URO_MS(200)), 0);
    for (size_t i = 0; i < URO_ARRAY_LEN(silent); i++)
        leave(s, silent[i], URO_MS(300));
    assert_int_equal(next(s), URO_TIME_NEVER);
    close_stage(s);
    assert_true(uro_mark_hit("MCAST.SILENT"));
}

static void member__link_came_up__all_groups_are_reported_again(void **state)
{
    struct stage *s = open_stage();

    (void)state;
    uro_mark_clear();
    join(s, "239.1.2.3", 0);
    (void)listen_to(s, 0);
    (void)listen_to(s, URO_MS(1000));
    uro_engine_link(s->engine, false, URO_MS(2000));
    assert_int_equal(next(s), URO_TIME_NEVER);
    uro_engine_link(s->engine, true, URO_MS(3000));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(listen_to(s, URO_MS(3000) + (uro_time)i * URO_MS(1000)), 3);
        assert_true(reported(s, URO_MEMBERSHIP_TO_EXCLUDE, "239.1.2.3"));
        assert_true(reported(s, URO_MEMBERSHIP_TO_EXCLUDE, "ff02::1:ff00:1"));
        assert_true(reported(s, URO_MEMBERSHIP_TO_EXCLUDE, "ff02::1:ff02:3"));
    }
    assert_int_equal(next(s), URO_TIME_NEVER);
    close_stage(s);
    assert_true(uro_mark_hit("MCAST.LINK"));
}

static struct uro_gid numbered(const char *base, uint32_t i)
{
    struct uro_gid group = gid(base);

    group.octets[14] = (uint8_t)(i >> 8);
    group.octets[15] = (uint8_t)i;
    return group;
}

static void member__most_groups__each_is_reported_once_within_the_mtu(void **state)
{
    static const struct {
        const char *base;
        uint32_t mtu, frame_max, records, own;
    } cases[] = { { "239.1.0.0", 9000, 1514, (1500 - 24 - 8) / 8, 0 },
                  { "239.1.0.0", 576, 590, (576 - 24 - 8) / 8, 0 },
                  { "ff0e::", 1500, 1514, (1500 - 48 - 8) / 20, 2 } };

    (void)state;
    for (size_t c = 0; c < URO_ARRAY_LEN(cases); c++) {
        struct stage *s = open_with(cases[c].mtu, "10.0.0.1");
        static bool seen[URO_MCAST_GROUPS_MAX];

        for (uint32_t i = 0; i < URO_MCAST_GROUPS_MAX; i++) {
            const struct uro_gid group = numbered(cases[c].base, i);
            assert_int_equal(uro_engine_join(s->engine, &group, 0), 0);
        }
        const struct uro_gid more = gid("239.2.0.0");
        assert_int_equal(uro_engine_join(s->engine, &more, 0), -ENOMEM);

        assert_int_equal(listen_to(s, 0), URO_MCAST_GROUPS_MAX);
        (void)listen_to(s, URO_MS(1000));
        ask(s, cases[c].own > 0, NULL, 1, URO_MS(2000));
        memset(seen, 0, sizeof seen);
        assert_int_equal(listen_to(s, URO_MS(2100)), URO_MCAST_GROUPS_MAX + cases[c].own);
        for (uint32_t i = 0; i < s->reports.count; i++) {
            const uint8_t *octets = s->reports.group[i].octets;
            const uint32_t number = (uint32_t)octets[14] << 8 | octets[15];
            if (octets[1] == 2)
                continue; /* a solicited-node group */
            assert_true(number < URO_MCAST_GROUPS_MAX && !seen[number]);
            seen[number] = true;
        }
        assert_true(s->reports.longest <= cases[c].frame_max);
        assert_int_equal(s->reports.frames,
                         (s->reports.count + cases[c].records - 1) / cases[c].records);
        close_stage(s);
    }
    assert_true(uro_mark_hit("MCAST.REPORT.SPLIT"));
}

/* Groups whose leave reports are still pending do not keep slots from new groups. */
static void member__groups_left_but_unreported__are_replaced(void **state)
{
    struct stage *s = open_stage();

    (void)state;
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < URO_MCAST_GROUPS_MAX; i++) {
            const struct uro_gid group = numbered(round & 1 ? "ff0e::" : "239.1.0.0", i);
            assert_int_equal(uro_engine_join(s->engine, &group, 0), 0);
        }
        for (uint32_t i = 0; round < 2 && i < URO_MCAST_GROUPS_MAX; i++) {
            const struct uro_gid group = numbered(round & 1 ? "ff0e::" : "239.1.0.0", i);
            uro_engine_leave(s->engine, &group, 0);
        }
    }
    for (int i = 0; i < 2; i++) {
        (void)listen_to(s, URO_MS(1000) * (uro_time)i);
        uint32_t members = 0;
        for (uint32_t n = 0; n < s->reports.count; n++)
            members += s->reports.type[n] == URO_MEMBERSHIP_TO_EXCLUDE;
        assert_int_equal(members, URO_MCAST_GROUPS_MAX);
    }
    assert_int_equal(next(s), URO_TIME_NEVER);
    close_stage(s);
}

/* When the table is full, groups that were left and fully reported are dropped first. Groups that
 * are joined are never dropped. */
static void member__table_full__reported_groups_are_replaced_first(void **state)
{
    struct stage *s = open_stage();

    (void)state;
    for (uint32_t i = 0; i < URO_MCAST_GROUPS_MAX; i++) {
        const struct uro_gid group = numbered("239.1.0.0", i);
        assert_int_equal(uro_engine_join(s->engine, &group, 0), 0);
    }
    for (uint32_t i = 4000; i < 4010; i++) {
        const struct uro_gid group = numbered("239.1.0.0", i);
        uro_engine_leave(s->engine, &group, 0);
    }
    (void)listen_to(s, 0);
    (void)listen_to(s, URO_MS(1000));
    for (uint32_t i = 0; i < 10; i++) {
        const struct uro_gid group = numbered("239.1.0.0", i);
        uro_engine_leave(s->engine, &group, URO_MS(2000));
    }
    for (uint32_t i = 0; i < 20; i++) {
        const struct uro_gid group = numbered("ff0e::", i);
        assert_int_equal(uro_engine_join(s->engine, &group, URO_MS(2000)), 0);
    }
    assert_int_equal(listen_to(s, URO_MS(2000)), 30);
    assert_true(reported(s, URO_MEMBERSHIP_TO_INCLUDE, "239.1.0.0"));
    assert_true(reported(s, URO_MEMBERSHIP_TO_INCLUDE, "239.1.0.9"));
    ask(s, true, "ff02::1:ff00:1", 0, URO_MS(2500));
    (void)listen_to(s, URO_MS(2500));
    assert_true(reported(s, URO_MEMBERSHIP_IS_EXCLUDE, "ff02::1:ff00:1"));
    close_stage(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(member__joins__reports_at_once_and_again_within_a_second),
        cmocka_unit_test(member__joins_ipv6_group__reported_from_the_link_local_address),
        cmocka_unit_test(member__leaves__reports_twice_and_is_removed),
        cmocka_unit_test(member__left_and_joined_before_the_report__remains_a_member),
        cmocka_unit_test(member__general_query__one_report_with_every_group),
        cmocka_unit_test(member__group_query__reports_that_group_only),
        cmocka_unit_test(member__change_and_query_at_once__one_change_report),
        cmocka_unit_test(member__groups_of_all_nodes_or_this_machine__are_never_reported),
        cmocka_unit_test(member__link_came_up__all_groups_are_reported_again),
        cmocka_unit_test(member__most_groups__each_is_reported_once_within_the_mtu),
        cmocka_unit_test(member__groups_left_but_unreported__are_replaced),
        cmocka_unit_test(member__table_full__reported_groups_are_replaced_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
