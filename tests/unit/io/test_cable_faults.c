/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cable_faults.c - tests the link options of a cable, and the fate of its frames. */
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

/* The faults of one direction of a cable. */
struct direction {
    struct uro_impair_plan plan;
    struct uro_impair_flow flow;
};

static struct direction begin(uint32_t seed)
{
    struct direction direction;

    faults.seed = seed;
    uro_cable_faults_plan(&faults, &direction.plan);
    uro_cable_faults_flow(&direction.plan, &direction.flow);
    return direction;
}

static struct uro_impair_fate next(struct direction *direction)
{
    struct uro_impair_fate fate;

    uro_impair_fate_draw(&direction->plan, &direction->flow, &fate);
    return fate;
}

static bool same(struct uro_impair_fate a, struct uro_impair_fate b)
{
    return a.lost == b.lost && a.duplicated == b.duplicated && a.overtaken == b.overtaken;
}

static void faults__same_seed__same_fates(void **state)
{
    unsigned differences = 0;

    (void)state;
    assert_int_equal(read_words("cable,loss=0.2,duplicate=0.2,reorder=0.2,delay_us=7"), 0);
    struct direction one = begin(5), again = begin(5), other = begin(6);
    for (uint64_t number = 0; number < 1000; number++) {
        const struct uro_impair_fate fate = next(&one);
        assert_true(same(fate, next(&again)));
        assert_int_equal(fate.delay, fate.lost ? 0 : URO_US(7));
        differences += !same(fate, next(&other));
    }
    assert_in_range(differences, 300, 800);
}

/* The faults of a seed must not change in later versions, because programs may rely on them. */
static void faults__seed_5__as_in_the_first_version(void **state)
{
    char text[41] = "";

    (void)state;
    assert_int_equal(read_words("cable,loss=0.2,duplicate=0.2,reorder=0.2"), 0);
    struct direction one = begin(5);
    for (unsigned i = 0; i < 40; i++) {
        const struct uro_impair_fate fate = next(&one);
        text[i] = fate.lost                           ? 'l'
                  : fate.duplicated && fate.overtaken ? 'b'
                  : fate.duplicated                   ? 'd'
                  : fate.overtaken                    ? 'o'
                                                      : '.';
    }
    assert_string_equal(text, "od..d.....dd.o...lb..l.do.llb.d.ll.d.l..");
}

/* Judges 100000 frames. The expected 10000 lost frames have a standard deviation of 95, and the
 * test allows five standard deviations. */
static void faults__probability__matches_the_options(void **state)
{
    unsigned lost = 0, duplicated = 0, overtaken = 0;

    (void)state;
    assert_int_equal(read_words("cable,loss=0.1,duplicate=0.1,reorder=0.1"), 0);
    struct direction one = begin(3);
    for (uint64_t number = 0; number < 100000; number++) {
        const struct uro_impair_fate fate = next(&one);
        assert_false(fate.lost && (fate.duplicated || fate.overtaken));
        lost += fate.lost;
        duplicated += fate.duplicated;
        overtaken += fate.overtaken;
    }
    assert_in_range(lost, 9525, 10475);
    assert_in_range(duplicated, 8525, 9475); /* 10 % of the frames that are not lost */
    assert_in_range(overtaken, 8525, 9475);
}

static void faults__probability_of_1__every_frame(void **state)
{
    (void)state;
    assert_int_equal(read_words("cable,loss=1"), 0);
    struct direction one = begin(1);
    for (uint64_t number = 0; number < 100; number++)
        assert_true(next(&one).lost);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_read__every_option__accepted),
        cmocka_unit_test(faults_read__wrong_option__refused),
        cmocka_unit_test(faults__same_seed__same_fates),
        cmocka_unit_test(faults__seed_5__as_in_the_first_version),
        cmocka_unit_test(faults__probability__matches_the_options),
        cmocka_unit_test(faults__probability_of_1__every_frame),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
