/* SPDX-License-Identifier: BSD-3-Clause */
/* test_doorbell.c - two threads check that work posted to an object whose doorbell already rings is
 * not missed. */
#include <pthread.h>
#include <sched.h>

#include "base/doorbell.h"
#include "support/check.h"

#define DOORBELLS 3u
#define POSTS     300000u
#define WAITS     16u   /* number of posts between two waits for the engine; coprime to DOORBELLS */
#define PATIENCE  1000u /* empty checks before yielding the processor to the other thread */

struct subject {
    _Alignas(64) struct uro_doorbell doorbell;
    _Alignas(64) atomic_uint posted;
    _Alignas(64) atomic_uint seen; /* the part of @posted that the engine has seen */
};

static struct uro_doorbell_list doorbells;
static struct subject subjects[DOORBELLS];

static void wait_a_little(uint32_t *looks)
{
    if (++*looks % PATIENCE == 0)
        (void)sched_yield();
}

static void *ringer(void *unused)
{
    uint32_t looks = 0;

    (void)unused;
    for (uint32_t i = 1; i <= POSTS; i++) {
        struct subject *subject = &subjects[i % DOORBELLS];
        atomic_store_explicit(&subject->posted, i, memory_order_release);
        uro_doorbell_ring(&doorbells, &subject->doorbell);
        while (i % WAITS == 0 && atomic_load_explicit(&subject->seen, memory_order_relaxed) != i)
            wait_a_little(&looks);
    }
    return NULL;
}

/* A missed entry makes the test wait until the test runner's timeout. */
static void doorbell__rung_during_a_clear__is_not_missed(void **state)
{
    pthread_t thread;
    uint32_t last = 0, looks = 0;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, ringer, NULL), 0);
    while (last < POSTS) {
        struct uro_doorbell *rung = uro_doorbell_list_take(&doorbells);
        struct subject *taken[DOORBELLS];
        uint32_t count = 0;
        if (rung == NULL)
            wait_a_little(&looks);
        while (rung != NULL) {
            assert_true(count < DOORBELLS);
            taken[count++] = URO_CONTAINER_OF(rung, struct subject, doorbell);
            rung = uro_doorbell_clear(rung);
        }
        uro_doorbell_fence();
        for (uint32_t i = 0; i < count; i++) {
            uint32_t posted = atomic_load_explicit(&taken[i]->posted, memory_order_acquire);
            atomic_store_explicit(&taken[i]->seen, posted, memory_order_relaxed);
            last = posted > last ? posted : last;
        }
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(doorbell__rung_during_a_clear__is_not_missed),
    };
    return cmocka_run_group_tests_name("base/doorbell", tests, NULL, NULL);
}
