/* SPDX-License-Identifier: BSD-3-Clause */
/* test_impair_page.c - tests that other processes can change the plan of a device. */
#include "support/check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "stats/impair_page.h"

#define CHANGES 5000u
#define WRITERS 3u

static struct uro_stats_impair page;
static char text[URO_STATS_IMPAIR_MAX];

static int start(void **state)
{
    (void)state;
    memset(&page, 0, sizeof page);
    return 0;
}

static void page__without_impair__is_not_changed(void **state)
{
    (void)state;
    assert_int_equal(uro_stats_impair_write(&page, "loss:1%"), 0);
    assert_false(uro_stats_impair_changed(&page, 0));
}

static void page__changed__is_read_once(void **state)
{
    unsigned seen = 0;

    (void)state;
    uro_stats_impair_begin(&page, "off");
    assert_true(uro_stats_impair_read(&page, &seen, text));
    assert_string_equal(text, "off");
    assert_false(uro_stats_impair_changed(&page, seen));
    const unsigned written = uro_stats_impair_write(&page, "loss:1%");
    assert_true(uro_stats_impair_changed(&page, seen));
    assert_true(uro_stats_impair_read(&page, &seen, text));
    assert_string_equal(text, "loss:1%");
    assert_int_equal(seen, written);
    assert_false(uro_stats_impair_changed(&page, seen));
}

static void page__longest_text__ends(void **state)
{
    static char longest[URO_STATS_IMPAIR_MAX + 10];
    unsigned seen = 0;

    (void)state;
    memset(longest, 'x', sizeof longest - 1);
    uro_stats_impair_begin(&page, longest);
    assert_true(uro_stats_impair_read(&page, &seen, text));
    assert_int_equal(strlen(text), URO_STATS_IMPAIR_MAX - 1);
}

/* A process may be killed while it writes. */
static void page__writer_was_killed__next_writer_continues(void **state)
{
    unsigned seen = 0;

    (void)state;
    uro_stats_impair_begin(&page, "off");
    atomic_store(&page.sequence, 3);
    assert_false(uro_stats_impair_read(&page, &seen, text));
    assert_int_equal(uro_stats_impair_write(&page, "loss:1%"), 6);
    assert_true(uro_stats_impair_read(&page, &seen, text));
    assert_string_equal(text, "loss:1%");
}

static atomic_uint done;

/* Writes a text again and again. The text repeats the letter *@argument. */
static void *write_often(void *argument)
{
    char own[URO_STATS_IMPAIR_MAX];

    memset(own, *(const char *)argument, sizeof own);
    own[sizeof own - 1] = '\0';
    for (unsigned i = 0; i < CHANGES; i++)
        if (uro_stats_impair_write(&page, own) == 0)
            break;
    atomic_fetch_add(&done, 1);
    return NULL;
}

static void page__many_writers__each_text_that_is_read_is_whole(void **state)
{
    static const char letters[WRITERS + 1] = "abc";
    pthread_t threads[WRITERS];
    unsigned seen = 0, reads = 0;

    (void)state;
    uro_stats_impair_begin(&page, "off");
    for (unsigned i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_often, (void *)&letters[i]), 0);
    while (atomic_load(&done) < WRITERS || uro_stats_impair_changed(&page, seen)) {
        if (!uro_stats_impair_changed(&page, seen) || !uro_stats_impair_read(&page, &seen, text))
            continue;
        reads++;
        const size_t same = strspn(text, (char[]){ text[0], '\0' });
        assert_true(strcmp(text, "off") == 0 || same == URO_STATS_IMPAIR_MAX - 1);
    }
    for (unsigned i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_true(reads > 0);
    assert_int_equal(seen, 2 + 2 * WRITERS * CHANGES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(page__without_impair__is_not_changed, start),
        cmocka_unit_test_setup(page__changed__is_read_once, start),
        cmocka_unit_test_setup(page__longest_text__ends, start),
        cmocka_unit_test_setup(page__writer_was_killed__next_writer_continues, start),
        cmocka_unit_test_setup(page__many_writers__each_text_that_is_read_is_whole, start),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
