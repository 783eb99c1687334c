/* SPDX-License-Identifier: BSD-3-Clause */
/* test_impair_trace.c - tests trace files: a run writes a trace and sorts it at its end, and a
 * replay reads it. */
#include "support/check.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/impair/trace_file.h"

static const struct uro_impair_trace_header header = { .version = URO_IMPAIR_TRACE_VERSION,
                                                       .program = "test",
                                                       .device = "uroce0" };
static char directory[64], path[128], error[URO_IMPAIR_FILE_ERROR_MAX];
static struct uro_impair_trace trace;

static int start(void **state)
{
    (void)state;
    (void)snprintf(directory, sizeof directory, "/tmp/uroce-trace-XXXXXX");
    assert_non_null(mkdtemp(directory));
    (void)snprintf(path, sizeof path, "%s/t", directory);
    return 0;
}

static int stop(void **state)
{
    char other[400];
    DIR *list = opendir(directory);

    (void)state;
    uro_impair_trace_free(&trace);
    for (const struct dirent *entry = readdir(list); entry != NULL; entry = readdir(list)) {
        (void)snprintf(other, sizeof other, "%s/%s", directory, entry->d_name);
        (void)unlink(other);
    }
    (void)closedir(list);
    return rmdir(directory);
}

static void put(struct uro_impair_trace_file *file, enum uro_impair_direction direction,
                uint32_t number, uint64_t packet)
{
    const struct uro_impair_trace_line line = {
        .direction = direction, .number = number, .packet = packet, .fate = { .lost = true }
    };

    uro_impair_trace_write(file, &line);
}

static const char *content(const char *of)
{
    static char text[4096];
    FILE *file = fopen(of, "re");

    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    (void)fclose(file);
    return text;
}

static void store_text(const char *text)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    (void)fclose(file);
}

static void file__closed__is_sorted_by_flow(void **state)
{
    (void)state;
    struct uro_impair_trace_file *file = uro_impair_trace_create(path, &header, error);
    assert_non_null(file);
    put(file, URO_IMPAIR_RX, 0, 2);
    put(file, URO_IMPAIR_TX, 1, 10);
    put(file, URO_IMPAIR_TX, 0, 3);
    put(file, URO_IMPAIR_TX, 1, 9);
    uro_impair_trace_flush(file);
    assert_string_equal(content(path),
                        "uroce-trace 1 program=test device=uroce0\nrx request 0 2 lose\n"
                        "tx request 1 10 lose\ntx request 0 3 lose\ntx request 1 9 lose\n");
    uro_impair_trace_close(file);
    assert_string_equal(content(path),
                        "uroce-trace 1 program=test device=uroce0\ntx request 0 3 lose\n"
                        "tx request 1 9 lose\ntx request 1 10 lose\nrx request 0 2 lose\n");
}

static void file__in_use__another_name(void **state)
{
    char other[200];

    (void)state;
    struct uro_impair_trace_file *one = uro_impair_trace_create(path, &header, error);
    struct uro_impair_trace_file *two = uro_impair_trace_create(path, &header, error);
    assert_non_null(one);
    assert_non_null(two);
    put(two, URO_IMPAIR_TX, 0, 1);
    uro_impair_trace_close(two);
    (void)snprintf(other, sizeof other, "%s.uroce0.%d", path, (int)getpid());
    assert_non_null(strstr(content(other), "tx request 0 1 lose"));
    assert_null(strstr(content(path), "lose"));
    uro_impair_trace_close(one);
}

static void file__cannot_be_created__error_has_the_reason(void **state)
{
    (void)state;
    assert_null(uro_impair_trace_create("/nowhere/t", &header, error));
    assert_non_null(strstr(error, "/nowhere/t: No such file"));
}

/* /dev/full has no space. */
static void file__disk_full__the_error_is_reported_once(void **state)
{
    (void)state;
    struct uro_impair_trace_file *file = uro_impair_trace_create("/dev/full", &header, error);
    if (file == NULL)
        return; /* a device cannot be truncated here */
    put(file, URO_IMPAIR_TX, 0, 1);
    uro_impair_trace_flush(file);
    assert_int_equal(uro_impair_trace_error(file), ENOSPC);
    assert_int_equal(uro_impair_trace_error(file), 0);
    uro_impair_trace_close(file);
}

static void file__by_hand__comments_and_split_lines(void **state)
{
    (void)state;
    store_text("uroce-trace 1 program=a device=b\n# mine\n\ntx ack 0 2 dup\ntx ack 0 1 lose\n"
               "tx ack 0 2 delay=7");
    assert_int_equal(uro_impair_trace_load(&trace, path, error), 0);
    assert_int_equal(trace.count, 2);
    assert_true(trace.lines[0].fate.lost);
    assert_true(trace.lines[1].fate.duplicated && trace.lines[1].fate.delay == 7);
    assert_int_equal(uro_impair_trace_store(&trace, path), 0);
    assert_string_equal(content(path), "uroce-trace 1 program=a device=b\ntx ack 0 1 lose\n"
                                       "tx ack 0 2 dup delay=7\n");
}

#define TEN " dup dup dup dup dup dup dup dup dup dup"

static void file__wrong__line_and_reason(void **state)
{
    static const struct {
        const char *text, *word;
    } cases[] = {
        { "", "is not a trace" },
        { "#!/bin/sh\n", "is not a trace" },
        { "uroce-trace 2 program=a device=b\n", "another version" },
        { "uroce-trace 1 program=a device=b\n\ntx ack 0 1 lost\n",
          "line 3: must end with effects" },
        { "uroce-trace 1 program=a device=b\ntx ack 0 1 lose" TEN TEN TEN TEN "\n",
          "line 2: is too long" },
    };

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(cases); i++) {
        store_text(cases[i].text);
        assert_int_equal(uro_impair_trace_load(&trace, path, error), -EINVAL);
        if (strstr(error, cases[i].word) == NULL || strstr(error, path) == NULL)
            fail_msg("%s", error);
    }
    assert_int_equal(uro_impair_trace_load(&trace, "/nowhere", error), -ENOENT);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
    const struct CMUnitTest tests[] = {
        TEST(file__closed__is_sorted_by_flow),
        TEST(file__in_use__another_name),
        TEST(file__cannot_be_created__error_has_the_reason),
        TEST(file__disk_full__the_error_is_reported_once),
        TEST(file__by_hand__comments_and_split_lines),
        TEST(file__wrong__line_and_reason),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
