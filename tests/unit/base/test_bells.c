/* SPDX-License-Identifier: BSD-3-Clause */
/* test_bells.c - who found a bell still ringing is heard all the same: two threads, a bell, and what it is about. */
#include <pthread.h>
#include <sched.h>

#include "base/bells.h"
#include "support/check.h"

#define NEWS     1000000u
#define PATIENCE 1000u /* looks in vain, then the other one may need this processor */

static struct uro_bells bells;
static _Alignas(64) struct uro_bell bell;
static _Alignas(64) atomic_uint news;  /* what the bell is about */
static _Alignas(64) atomic_uint known; /* of that, to the engine */

static void wait_a_little(uint32_t *looks)
{
    if (++*looks % PATIENCE == 0)
        (void)sched_yield();
}

/* Rings for each of its news, and waits for the engine to know the last of a few. */
static void *ringer(void *unused)
{
    uint32_t looks = 0;

    (void)unused;
    for (uint32_t i = 1; i <= NEWS; i++) {
        atomic_store_explicit(&news, i, memory_order_release);
        uro_bell_ring(&bells, &bell);
        while (i % 4 == 0 && atomic_load_explicit(&known, memory_order_relaxed) != i)
            wait_a_little(&looks);
    }
    return NULL;
}

/* One that is missed is waited for until the test runner's patience ends. */
static void bells__rung_while_they_are_heard__nothing_is_missed(void **state)
{
    pthread_t thread;
    uint32_t seen = 0, looks = 0;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, ringer, NULL), 0);
    while (seen < NEWS) {
        struct uro_bell *rung = uro_bells_take(&bells);
        if (rung == NULL) {
            wait_a_little(&looks);
            continue;
        }
        assert_ptr_equal(rung, &bell);
        assert_null(uro_bell_hear(rung));
        uro_bells_heard();
        seen = atomic_load_explicit(&news, memory_order_acquire);
        atomic_store_explicit(&known, seen, memory_order_relaxed);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bells__rung_while_they_are_heard__nothing_is_missed),
    };
    return cmocka_run_group_tests_name("base/bells", tests, NULL, NULL);
}
