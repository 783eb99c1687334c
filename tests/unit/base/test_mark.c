/* SPDX-License-Identifier: BSD-3-Clause */
/* test_mark.c - tests marks in a program that is compiled with -DURO_MARKS. */
#include "support/check.h"

#include "base/mark.h"

static void mark__set_and_cleared__is_hit_until_cleared(void **state)
{
    (void)state;
    char same_text[] = "RSP.DUP.SEND"; /* another address than the literal */

    uro_mark_clear();
    assert_false(uro_mark_hit("RSP.DUP.SEND"));
    URO_MARK("RSP.DUP.SEND");
    URO_MARK("RSP.DUP.READ");
    assert_true(uro_mark_hit(same_text));
    assert_true(uro_mark_hit("RSP.DUP.READ"));
    assert_false(uro_mark_hit("RSP.DUP"));

    uro_mark_clear();
    assert_false(uro_mark_hit("RSP.DUP.SEND"));
    URO_MARK("RSP.DUP.SEND");
    assert_true(uro_mark_hit("RSP.DUP.SEND"));
    assert_false(uro_mark_hit("RSP.DUP.READ"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mark__set_and_cleared__is_hit_until_cleared),
    };
    return cmocka_run_group_tests_name("base/mark", tests, NULL, NULL);
}
