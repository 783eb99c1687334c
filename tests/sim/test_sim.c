/* SPDX-License-Identifier: BSD-3-Clause */
/* test_sim.c - runs simulations: fixed seeds, seeds that once found an error (seeds.txt), and new
 * seeds. UROCE_SIM_SEED is the first new seed, UROCE_SIM_COUNT their number. By default the first
 * new seed comes from the clock, and the test prints it. A failing run is repeated to write a
 * capture to the working directory.
 */
#include "support/check.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim/sim.h"

#define FIXED         50u
#define FRESH_DEFAULT 150u

static uint64_t seed_running;

static void print_line(const char *line)
{
    (void)fprintf(stderr, "# %s\n", line);
}

static void on_abort(int signal_number)
{
    (void)signal(signal_number, SIG_DFL);
    sim_crashed();
    (void)fprintf(stderr, "# seed %" PRIu64 ": an assertion failed; uroce sim --seed %" PRIu64 "\n",
                  seed_running, seed_running);
}

static void capture(uint64_t seed, uint32_t without)
{
    char path[64];
    struct sim_result result;

    snprintf(path, sizeof path, "sim-%" PRIu64 ".pcap", seed);
    const struct sim_options options = { .seed = seed, .without = without, .pcap = path };
    (void)sim_run(&options, &result);
    (void)fprintf(stderr, "# capture: %s\n", path);
}

/* Returns the number of hosts of the run. */
static uint32_t run(uint64_t seed, uint32_t without)
{
    const struct sim_options options = { .seed = seed, .without = without, .print = print_line };
    struct sim_result result;

    seed_running = seed;
    if (sim_run(&options, &result))
        return result.hosts;
    capture(seed, without);
    fail_msg("uroce sim --seed %" PRIu64 "%s: %s (%s)", seed, without ? " --without nodes" : "",
             result.failure, result.setting);
    return 0;
}

/* rule LIVE.BOUND */
static void sim__fixed_seeds__pass(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= FIXED; seed++)
        (void)run(seed, 0);
}

/* A line of seeds.txt has a seed, then the error that it found. Some seeds are older than runs with
 * more than two hosts, so seeds also run with two hosts. */
static void sim__seeds_that_found_bugs__pass(void **state)
{
    (void)state;
    char line[256];
    uint32_t more_hosts = 0;
    uint32_t count = 0;
    const char *path = getenv("UROCE_SIM_SEEDS");

    assert_true(sim_part("nodes", strlen("nodes"), &more_hosts));
    assert_non_null(path);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        char *end;
        uint64_t seed = strtoull(line, &end, 0);
        if (line[0] == '#' || end == line)
            continue;
        if (run(seed, 0) > 2)
            (void)run(seed, more_hosts);
        count++;
    }
    fclose(file);
    assert_true(count > 0);
}

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 0) : otherwise;
}

static void sim__fresh_seeds__pass(void **state)
{
    (void)state;
    struct timespec now;

    timespec_get(&now, TIME_UTC);
    uint64_t first =
        number("UROCE_SIM_SEED", (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u);
    uint64_t count = number("UROCE_SIM_COUNT", FRESH_DEFAULT);
    printf("# fresh seeds %" PRIu64 " .. %" PRIu64 "\n", first, first + count - 1);
    for (uint64_t i = 0; i < count; i++)
        (void)run(first + i, 0);
}

static void sim__same_seed__is_the_same_run(void **state)
{
    (void)state;
    struct sim_result one;
    struct sim_result two;
    uint64_t before = 0;

    for (uint64_t seed = 1; seed <= 20; seed++) {
        const struct sim_options options = { .seed = seed };
        assert_true(sim_run(&options, &one));
        void *shift = malloc(4096 * seed + 8); /* so that later allocations get other addresses */
        assert_true(sim_run(&options, &two));
        free(shift);
        assert_true(one.digest == two.digest);
        assert_int_equal(one.frames, two.frames);
        assert_true(one.digest != before);
        before = one.digest;
    }
}

/* A failing run is reduced by leaving out parts, so a run without any part must work. */
static void sim__seed_with_all_parts_left_out__does_nothing(void **state)
{
    (void)state;
    uint32_t parts = 0;
    struct sim_result result;

    for (size_t i = 0; sim_part_name(i) != NULL; i++)
        assert_true(sim_part(sim_part_name(i), strlen(sim_part_name(i)), &parts));
    assert_false(sim_part("los", 3, &parts));
    for (uint64_t seed = 1; seed <= 20; seed++) {
        const struct sim_options options = { .seed = seed, .without = parts };
        assert_true(sim_run(&options, &result));
        assert_int_equal(result.frames, 0);
    }
}

static void sim__seed_with_less_work__passes(void **state)
{
    (void)state;
    struct sim_result all;
    struct sim_result less;

    for (uint64_t seed = 1; seed <= 20; seed++) {
        assert_true(sim_run(&(const struct sim_options){ .seed = seed }, &all));
        assert_true(sim_run(&(const struct sim_options){ .seed = seed, .less = 2 }, &less));
        assert_true(less.operations < all.operations);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sim__fixed_seeds__pass),
        cmocka_unit_test(sim__seeds_that_found_bugs__pass),
        cmocka_unit_test(sim__same_seed__is_the_same_run),
        cmocka_unit_test(sim__seed_with_all_parts_left_out__does_nothing),
        cmocka_unit_test(sim__seed_with_less_work__passes),
        cmocka_unit_test(sim__fresh_seeds__pass),
    };
    (void)signal(SIGABRT, on_abort);
    return cmocka_run_group_tests_name("sim", tests, NULL, NULL);
}
