/* SPDX-License-Identifier: BSD-3-Clause */
/* test_escape.c - tests text in JSON and in labels of Prometheus. */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include <stdlib.h>

#include "support/check.h"

#include "escape.h"

static void check_written(void (*write)(FILE *out, const char *text), const char *text,
                          const char *wanted)
{
    char *written = NULL;
    size_t length;
    FILE *out = open_memstream(&written, &length);

    assert_non_null(out);
    write(out, text);
    (void)fclose(out);
    assert_string_equal(written, wanted);
    free(written);
}

static void json__special_characters__are_escaped(void **state)
{
    (void)state;
    check_written(uro_escape_json, "", "\"\"");
    check_written(uro_escape_json, "a \"b\" \\ c", "\"a \\\"b\\\" \\\\ c\"");
    check_written(uro_escape_json, "\n\033[2J\x7f", "\"\\u000a\\u001b[2J\\u007f\"");
    check_written(uro_escape_json, "\xc2\x9b", "\"\\u009b\"");
}

static void json__markup__cannot_end_or_begin_a_script(void **state)
{
    (void)state;
    check_written(uro_escape_json, "</script><!--<script>",
                  "\"\\u003c/script>\\u003c!--\\u003cscript>\"");
}

static void json__utf8__valid_text_stays_and_other_bytes_are_replaced(void **state)
{
    (void)state;
    check_written(uro_escape_json, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
                  "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
    check_written(uro_escape_json, "\xff\xc0\x80", "\"\\ufffd\\ufffd\\ufffd\"");
    check_written(uro_escape_json, "\xe2\x82", "\"\\ufffd\\ufffd\"");            /* cut */
    check_written(uro_escape_json, "\xe0\x80\x80", "\"\\ufffd\\ufffd\\ufffd\""); /* too long */
    check_written(uro_escape_json, "\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\""); /* surrogate */
    check_written(uro_escape_json, "\xf4\x90\x80\x80x", "\"\\ufffd\\ufffd\\ufffd\\ufffdx\"");
}

static void label__special_characters__are_escaped(void **state)
{
    (void)state;
    check_written(uro_escape_label, "a\"} 1\nb\\\xc3\xa9\xff", "\"a\\\"} 1?b\\\\\xc3\xa9?\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json__special_characters__are_escaped),
        cmocka_unit_test(json__markup__cannot_end_or_begin_a_script),
        cmocka_unit_test(json__utf8__valid_text_stays_and_other_bytes_are_replaced),
        cmocka_unit_test(label__special_characters__are_escaped),
    };
    return cmocka_run_group_tests_name("app/escape", tests, NULL, NULL);
}
