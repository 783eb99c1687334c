/* SPDX-License-Identifier: BSD-3-Clause */
/* test_link_options.c - tests the parser of link options. The test driver has an option of each
 * kind. */
#include "io/common/link_options.h"

#include <string.h>

#include "support/check.h"

struct values {
    char text[8];
    uint32_t number, choice;
    bool yes;
    uint32_t other;
};

static bool read_even(const char *value, void *member)
{
    return uro_link_options_number(value, 0, UINT32_MAX, 2, member);
}

static const struct uro_link_option options[] = {
    { .name = "text",
      .kind = URO_OPTION_TEXT,
      .min = 1,
      .max = 7,
      .member = offsetof(struct values, text),
      .secret = true },
    { .name = "number",
      .kind = URO_OPTION_NUMBER,
      .min = 4,
      .max = 64,
      .grain = 4,
      .member = offsetof(struct values, number) },
    { .name = "choice",
      .kind = URO_OPTION_CHOICE,
      .choices = { "left", "right" },
      .member = offsetof(struct values, choice) },
    { .name = "yes", .kind = URO_OPTION_YES_NO, .member = offsetof(struct values, yes) },
    { .name = "other",
      .kind = URO_OPTION_OTHER,
      .expects = "an even number",
      .read = read_even,
      .member = offsetof(struct values, other) },
    { .name = "many",
      .kind = URO_OPTION_TEXT,
      .max = 9,
      .member = URO_OPTION_NOT_KEPT,
      .repeats = true },
    { .name = "checked", .kind = URO_OPTION_NUMBER, .max = 9, .member = URO_OPTION_NOT_KEPT },
};

static struct uro_port_driver driver = { .prefix = "net_toy",
                                         .flags = URO_DRIVER_NUMBERED,
                                         .option_count = URO_ARRAY_LEN(options),
                                         .options = options };

static void link_options__one_of_each_kind__are_stored_and_reported_as_given(void **state)
{
    struct values values = { .number = 1 };
    char error[URO_PORT_ERROR_MAX];
    uint32_t given = 0;

    (void)state;
    assert_int_equal(uro_link_options_read(&driver,
                                           "net_toy3,text=abcdefg,choice=right,yes=yes,other=6,"
                                           "checked=9",
                                           &values, &given, error),
                     0);
    assert_string_equal(values.text, "abcdefg");
    assert_int_equal(values.choice, 1);
    assert_true(values.yes);
    assert_int_equal(values.other, 6);
    assert_int_equal(values.number, 1); /* option not given: value unchanged */
    assert_int_equal(given, 0x5d);
}

static void link_options__wrong_value__error_names_the_allowed_values(void **state)
{
    static const char *const wrong[][2] = {
        { "net_toy0,number=3", "number=3: must be a number from 4 to 64, a multiple of 4" },
        { "net_toy0,number=68", "number=68: must be" },
        { "net_toy0,number=6", "number=6: must be" },
        { "net_toy0,number= 8", "number= 8: must be" },
        { "net_toy0,choice=up", "choice=up: must be left or right" },
        { "net_toy0,yes=1", "yes=1: must be yes or no" },
        { "net_toy0,other=7", "other=7: must be an even number" },
        { "net_toy0,checked=10", "checked=10: must be" },
        { "net_toy0,text=12345678", "text=...: must be" }, /* a secret is not printed */
        { "net_toy0,yes=no,choice=left,yes=no", "link net_toy0: yes= is given twice" },
        { "net_toy0,yes=no,yes=1", "link net_toy0: yes= is given twice" },
        { "net_toy0,text=ab,text=ab", "link net_toy0: text= is given twice" },
        { "net_toy0,mtu=1", "unknown option \"mtu\"; net_toy knows text=, number=, choice=" },
    };
    char error[URO_PORT_ERROR_MAX];

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(wrong); i++) {
        struct values values;
        assert_int_equal(uro_link_options_read(&driver, wrong[i][0], &values, NULL, error), -1);
        assert_non_null(strstr(error, wrong[i][1]));
        assert_int_equal(uro_link_options_read(&driver, wrong[i][0], NULL, NULL, error), -1);
    }
}

static void link_options__option_that_may_repeat__is_accepted_twice(void **state)
{
    struct values values = { .yes = false };
    char error[URO_PORT_ERROR_MAX];

    (void)state;
    assert_int_equal(uro_link_options_read(&driver, "net_toy0,many=1,many=2", &values, NULL, error),
                     0);
}

static void link_options__driver_without_options__says_that_it_has_none(void **state)
{
    const struct uro_port_driver bare = { .prefix = "net_bare" };
    char error[URO_PORT_ERROR_MAX];

    (void)state;
    assert_int_equal(uro_link_options_read(&bare, "net_bare,mtu=1", NULL, NULL, error), -1);
    assert_non_null(strstr(error, "unknown option \"mtu\"; net_bare has no options"));
}

static void link_options__driver_with_other_options__gets_unknown_options(void **state)
{
    struct values values = { .yes = false };
    char error[URO_PORT_ERROR_MAX];

    (void)state;
    driver.flags |= URO_DRIVER_OTHER_OPTIONS;
    assert_int_equal(uro_link_options_read(&driver, "net_toy0,mtu=1,yes=yes", &values, NULL, error),
                     0);
    assert_true(values.yes);
    driver.flags &= ~(unsigned)URO_DRIVER_OTHER_OPTIONS;
}

static void link_options__name_of_a_link__is_served_only_by_the_right_driver(void **state)
{
    const struct uro_port_driver card = { .prefix = "card", .flags = URO_DRIVER_PCI };

    (void)state;
    assert_true(uro_link_options_serve(&driver, "net_toy"));
    assert_true(uro_link_options_serve(&driver, "net_toy12,yes=no"));
    assert_false(uro_link_options_serve(&driver, "net_toys0"));
    assert_false(uro_link_options_serve(&driver, "net_to"));
    assert_true(uro_link_options_serve(&card, "0000:00:05.0,yes=no"));
    assert_true(uro_link_options_serve(&card, "00:05.0"));
    assert_false(uro_link_options_serve(&card, "00:05.0x"));
    assert_false(uro_link_options_serve(&card, "card"));
}

static void link_options__value_of_one_option__is_copied_if_the_buffer_is_large_enough(void **state)
{
    char value[4];

    (void)state;
    assert_true(uro_link_options_value("net_toy0,a=1,ab=xyz", "ab", value, sizeof value));
    assert_string_equal(value, "xyz");
    assert_false(uro_link_options_value("net_toy0,ab=wxyz", "ab", value, sizeof value));
    assert_false(uro_link_options_value("net_toy0,ab=", "ab", value, sizeof value));
    assert_false(uro_link_options_value("net_toy0,abc=1", "ab", value, sizeof value));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(link_options__one_of_each_kind__are_stored_and_reported_as_given),
        cmocka_unit_test(link_options__wrong_value__error_names_the_allowed_values),
        cmocka_unit_test(link_options__option_that_may_repeat__is_accepted_twice),
        cmocka_unit_test(link_options__driver_without_options__says_that_it_has_none),
        cmocka_unit_test(link_options__driver_with_other_options__gets_unknown_options),
        cmocka_unit_test(link_options__name_of_a_link__is_served_only_by_the_right_driver),
        cmocka_unit_test(
            link_options__value_of_one_option__is_copied_if_the_buffer_is_large_enough),
    };
    return cmocka_run_group_tests_name("io/link_options", tests, NULL, NULL);
}
