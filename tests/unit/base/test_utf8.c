/* SPDX-License-Identifier: BSD-3-Clause */
/* test_utf8.c - tests that text has no effect in a terminal. */
#include <stdio.h>

#include "support/check.h"

#include "base/utf8.h"

static void check_terminal(const char *text, const char *wanted)
{
    char copy[64];

    (void)snprintf(copy, sizeof copy, "%s", text);
    assert_ptr_equal(uro_utf8_mask(copy), copy);
    assert_string_equal(copy, wanted);
}

static void mask__control_characters__are_replaced(void **state)
{
    (void)state;
    check_terminal("plain \xc3\xa9", "plain \xc3\xa9");
    check_terminal("\033]0;x\007\r\n\x7f", "?]0;x????");
    check_terminal("\xc2\x9b[2J\x9b", "??[2J?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mask__control_characters__are_replaced),
    };
    return cmocka_run_group_tests_name("base/utf8", tests, NULL, NULL);
}
