/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cable_faults.c - the link options of a cable, and the fate of its frames. */
#include "support/check.h"

#include <string.h>

#include "io/cable/faults.h"

static struct uro_cable_faults faults;
static char error[URO_PORT_ERROR_MAX];

static int read_words(const char *words)
{
    uro_cable_faults_init(&faults);
    return uro_cable_faults_read(&faults, words, error);
}

static void faults_read__every_option__accepted(void **state)
{
    (void)state;
    assert_int_equal(
        read_words("cable,name=c0,loss=0.01,duplicate=1,reorder=.5,delay_us=50,seed=7,plugged=no"),
        0);
    assert_string_equal(faults.name, "c0");
    assert_int_equal(faults.loss, URO_CABLE_CERTAIN / 100);
    assert_int_equal(faults.duplicate, URO_CABLE_CERTAIN);
    assert_int_equal(faults.reorder, URO_CABLE_CERTAIN / 2);
    assert_int_equal(faults.delay_us, 50);
    assert_int_equal(faults.seed, 7);
    assert_false(faults.plugged);
}

static void faults_read__wrong_option__refused(void **state)
{
    static const char *const wrong[] = {
        "cable,loss=1.1",        "cable,loss=2",     "cable,loss=",
        "cable,loss=.",          "cable,loss=-0.1",  "cable,loss=0.1x",
        "cable,reorder=no",      "cable,delay_us=x", "cable,duplicate=9",
        "cable,plugged=perhaps", "cable,seed=-1",    "cable,name=",
        "cable,loss=10",         "cable,lose=0.1",   "cable,name=12345678901234567890123456789012"
    };

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(wrong); i++) {
        error[0] = '\0';
        assert_int_equal(read_words(wrong[i]), -1);
        assert_non_null(strstr(error, "link cable"));
    }
}

static bool same(struct uro_cable_verdict a, struct uro_cable_verdict b)
{
    return a.lost == b.lost && a.duplicated == b.duplicated && a.overtaken == b.overtaken;
}

static void faults_judge__same_seed__same_verdicts(void **state)
{
    unsigned differences = 0;

    (void)state;
    assert_int_equal(read_words("cable,loss=0.2,duplicate=0.2,reorder=0.2,seed=5"), 0);
    struct uro_cable_faults again = faults, other = faults;
    other.seed = 6;
    for (uint64_t number = 0; number < 1000; number++) {
        struct uro_cable_verdict verdict = uro_cable_faults_judge(&faults, number);
        assert_true(same(verdict, uro_cable_faults_judge(&again, number)));
        differences += !same(verdict, uro_cable_faults_judge(&other, number));
    }
    assert_in_range(differences, 300, 800);
}

/* Judges 100000 frames. Five standard deviations of the number of lost frames are 475. */
static void faults_judge__probability__about_as_many(void **state)
{
    unsigned lost = 0, duplicated = 0, overtaken = 0;

    (void)state;
    assert_int_equal(read_words("cable,loss=0.1,duplicate=0.1,reorder=0.1,seed=3"), 0);
    for (uint64_t number = 0; number < 100000; number++) {
        struct uro_cable_verdict verdict = uro_cable_faults_judge(&faults, number);
        assert_false(verdict.lost && (verdict.duplicated || verdict.overtaken));
        lost += verdict.lost;
        duplicated += verdict.duplicated;
        overtaken += verdict.overtaken;
    }
    assert_in_range(lost, 9525, 10475);
    assert_in_range(duplicated, 8525, 9475); /* 5 % of the frames that are not lost */
    assert_in_range(overtaken, 8525, 9475);
}

static void faults_judge__certain__always(void **state)
{
    (void)state;
    assert_int_equal(read_words("cable,loss=1"), 0);
    for (uint64_t number = 0; number < 100; number++)
        assert_true(uro_cable_faults_judge(&faults, number).lost);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_read__every_option__accepted),
        cmocka_unit_test(faults_read__wrong_option__refused),
        cmocka_unit_test(faults_judge__same_seed__same_verdicts),
        cmocka_unit_test(faults_judge__probability__about_as_many),
        cmocka_unit_test(faults_judge__certain__always),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
