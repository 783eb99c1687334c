/* SPDX-License-Identifier: BSD-3-Clause */
/* test_bells.c - a queue pair that was already in the list of new work is not missed: two threads,
 * some queue pairs, and the work that each has. */
#include <pthread.h>
#include <sched.h>

#include "base/bells.h"
#include "support/check.h"

#define BELLS    3u
#define NEWS     1000000u
#define WAITS    4u    /* wait for the engine after this number; coprime to BELLS */
#define PATIENCE 1000u /* looks in vain, then the other one may need this processor */

struct subject {
    _Alignas(64) struct uro_bell bell;
    _Alignas(64) atomic_uint news;
    _Alignas(64) atomic_uint known; /* of that, to the engine */
};

static struct uro_bells bells;
static struct subject subjects[BELLS];

static void wait_a_little(uint32_t *looks)
{
    if (++*looks % PATIENCE == 0)
        (void)sched_yield();
}

static void *ringer(void *unused)
{
    uint32_t looks = 0;

    (void)unused;
    for (uint32_t i = 1; i <= NEWS; i++) {
        struct subject *about = &subjects[i % BELLS];
        atomic_store_explicit(&about->news, i, memory_order_release);
        uro_bell_ring(&bells, &about->bell);
        while (i % WAITS == 0 && atomic_load_explicit(&about->known, memory_order_relaxed) != i)
            wait_a_little(&looks);
    }
    return NULL;
}

/* A missed entry makes the test wait until the test runner's timeout. */
static void bells__rung_while_they_are_heard__nothing_is_missed(void **state)
{
    pthread_t thread;
    uint32_t last = 0, looks = 0;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, ringer, NULL), 0);
    while (last < NEWS) {
        struct uro_bell *rung = uro_bells_take(&bells);
        struct subject *heard[BELLS];
        uint32_t count = 0;
        if (rung == NULL)
            wait_a_little(&looks);
        while (rung != NULL) {
            assert_true(count < BELLS);
            heard[count++] = URO_CONTAINER_OF(rung, struct subject, bell);
            rung = uro_bell_hear(rung);
        }
        uro_bells_heard();
        for (uint32_t i = 0; i < count; i++) {
            uint32_t news = atomic_load_explicit(&heard[i]->news, memory_order_acquire);
            atomic_store_explicit(&heard[i]->known, news, memory_order_relaxed);
            last = news > last ? news : last;
        }
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
