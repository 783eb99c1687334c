/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the bytes of netlink messages, and attributes that are truncated or too long. */
#include "netlink/msg.h"

#include "support/check.h"

#include <errno.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>

/* Reads the next attribute of a list, which must exist. */
static struct uro_netlink_attr next(const uint8_t **pos, size_t *left)
{
    struct uro_netlink_attr attr;

    assert_int_equal(uro_netlink_next(pos, left, &attr), 1);
    return attr;
}

static void message__built__reads_the_same_values(void **state)
{
    struct uro_netlink_list list = { 0 };
    struct uro_netlink_attr attr;
    struct nlmsghdr header;
    uint32_t number = 0;
    char text[8];

    (void)state;
    uro_netlink_begin(&list, 77, NLM_F_MULTI, 5, 6);
    uro_netlink_put_u8(&list, 1, 200);
    const size_t nest = uro_netlink_nest(&list, 2);
    uro_netlink_put_u32(&list, 3, 0x01020304);
    uro_netlink_put_string(&list, 4, "abcd");
    uro_netlink_nest_end(&list, nest);
    uro_netlink_put_u64(&list, 5, UINT64_MAX);
    uro_netlink_end(&list);

    memcpy(&header, list.bytes, sizeof header);
    assert_int_equal(header.nlmsg_len, list.used);
    assert_int_equal(header.nlmsg_len, 16 + 8 + (4 + 8 + 12) + 12);
    assert_int_equal(header.nlmsg_type, 77);
    assert_int_equal(header.nlmsg_flags, NLM_F_MULTI);
    assert_int_equal(header.nlmsg_seq, 5);
    assert_int_equal(header.nlmsg_pid, 6);

    const uint8_t *pos = list.bytes + sizeof header, *inner;
    size_t left = list.used - sizeof header, inner_left;
    attr = next(&pos, &left);
    assert_int_equal(attr.type, 1);
    assert_int_equal(attr.length, 1);
    assert_int_equal(*attr.value, 200);
    attr = next(&pos, &left);
    assert_int_equal(attr.type, 2);
    inner = attr.value;
    inner_left = attr.length;
    attr = next(&inner, &inner_left);
    assert_true(uro_netlink_get_u32(&attr, &number));
    assert_int_equal(number, 0x01020304);
    attr = next(&inner, &inner_left);
    assert_int_equal(attr.length, 5);
    assert_true(uro_netlink_get_string(&attr, text, sizeof text));
    assert_string_equal(text, "abcd");
    assert_int_equal(uro_netlink_next(&inner, &inner_left, &attr), 0);
    attr = next(&pos, &left);
    assert_int_equal(attr.length, 8);
    assert_int_equal(uro_netlink_next(&pos, &left, &attr), 0);
    free(list.bytes);
}

static void message__second__begins_after_the_first(void **state)
{
    struct uro_netlink_list list = { 0 };
    struct nlmsghdr header;

    (void)state;
    for (uint16_t i = 1; i <= 500; i++) { /* more than the first allocation */
        uro_netlink_begin(&list, i, 0, 0, 0);
        uro_netlink_put_string(&list, 1, "x");
        assert_int_equal(uro_netlink_length(&list), 24);
        uro_netlink_end(&list);
    }
    assert_int_equal(list.used, 500 * 24);
    memcpy(&header, list.bytes + 499 * 24, sizeof header);
    assert_int_equal(header.nlmsg_type, 500);
    assert_int_equal(header.nlmsg_len, 24);
    free(list.bytes);
}

static void list__failed__stays_empty(void **state)
{
    struct uro_netlink_list list = { .failed = true };

    (void)state;
    uro_netlink_begin(&list, 1, 0, 0, 0);
    uro_netlink_put_u32(&list, 1, 1);
    uro_netlink_nest_end(&list, uro_netlink_nest(&list, 2));
    assert_int_equal(uro_netlink_length(&list), 0);
    uro_netlink_end(&list);
    assert_null(list.bytes);
    assert_int_equal(list.used, 0);
}

static void attribute__truncated__is_an_error(void **state)
{
    static const struct {
        uint16_t length; /* length in the attribute's header */
        size_t bytes;    /* bytes that the message has */
        int result;
    } rows[] = {
        { 4, 4, 1 },       { 8, 8, 1 },       { 7, 7, 1 },
        { 8, 7, -EINVAL }, { 3, 8, -EINVAL }, { 0, 8, -EINVAL },
        { 4, 3, -EINVAL }, { 4, 1, -EINVAL }, { UINT16_MAX, 8, -EINVAL },
    };

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(rows); i++) {
        const struct nlattr header = { .nla_len = rows[i].length, .nla_type = 9 };
        uint8_t *bytes = calloc(1, rows[i].bytes); /* of exactly that size, for the sanitizer */
        assert_non_null(bytes);
        memcpy(bytes, &header, rows[i].bytes < sizeof header ? rows[i].bytes : sizeof header);
        const uint8_t *pos = bytes;
        size_t left = rows[i].bytes;
        struct uro_netlink_attr attr;
        assert_int_equal(uro_netlink_next(&pos, &left, &attr), rows[i].result);
        if (rows[i].result == 1)
            assert_int_equal(uro_netlink_next(&pos, &left, &attr), 0);
        free(bytes);
    }
}

static void attribute__type_with_flags__is_read_without_flags(void **state)
{
    const struct nlattr header = { .nla_len = 4, .nla_type = 9 | NLA_F_NESTED };
    const uint8_t *pos = (const uint8_t *)&header;
    size_t left = sizeof header;

    (void)state;
    assert_int_equal(next(&pos, &left).type, 9);
}

static void attribute__number_of_another_size__is_refused(void **state)
{
    static const uint8_t value[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    uint32_t number = 42;

    (void)state;
    for (size_t length = 0; length <= sizeof value; length++) {
        const struct uro_netlink_attr attr = { 1, length, value };
        assert_int_equal(uro_netlink_get_u32(&attr, &number), length == 4);
    }
}

static void attribute__string__fits_and_ends_at_the_first_nul(void **state)
{
    static const struct {
        const char *value;
        size_t length;
        bool good;
    } rows[] = {
        { "abc", 4, true },   { "abc", 3, true },   { "", 0, true },        { "", 1, true },
        { "abcd", 5, false }, { "a\0b", 3, false }, { "ab\0\0", 4, false },
    };
    char text[4];

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(rows); i++) {
        const struct uro_netlink_attr attr = { 1, rows[i].length, (const uint8_t *)rows[i].value };
        assert_int_equal(uro_netlink_get_string(&attr, text, sizeof text), rows[i].good);
        if (rows[i].good)
            assert_string_equal(text, rows[i].value);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(message__built__reads_the_same_values),
        cmocka_unit_test(message__second__begins_after_the_first),
        cmocka_unit_test(list__failed__stays_empty),
        cmocka_unit_test(attribute__truncated__is_an_error),
        cmocka_unit_test(attribute__type_with_flags__is_read_without_flags),
        cmocka_unit_test(attribute__number_of_another_size__is_refused),
        cmocka_unit_test(attribute__string__fits_and_ends_at_the_first_nul),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
