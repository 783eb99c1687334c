/* SPDX-License-Identifier: BSD-3-Clause */
/* test_copy.c - tests which bytes are copied, and in which order another thread sees them. */
#include "base/copy.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "support/check.h"

static void copy__every_length_and_alignment__copies_exactly_these_bytes(void **state)
{
    uint8_t from[256], to[288];

    (void)state;
    for (uint32_t i = 0; i < sizeof from; i++)
        from[i] = (uint8_t)(i * 7 + 1);
    for (size_t length = 0; length <= 200; length++)
        for (size_t shift = 0; shift < 16; shift++) {
            size_t skew = (shift * 5 + length) % 16;
            memset(to, 0xcc, sizeof to);
            uro_copy_in_order(to + 16 + shift, from + skew, length);
            assert_memory_equal(to + 16 + shift, from + skew, length);
            for (size_t i = 0; i < sizeof to; i++)
                if (i < 16 + shift || i >= 16 + shift + length)
                    assert_int_equal(to[i], 0xcc);
        }
}

#define ROUNDS 100000u
#define WORDS  511u

static _Alignas(64) _Atomic uint64_t shared[WORDS + 1];
static atomic_bool stop;

/* Writes 1 into every word, then 2 into every word, and so on up to ROUNDS. */
static void *write_rounds(void *unused)
{
    static uint64_t from[WORDS];

    for (uint64_t round = 1; round <= ROUNDS; round++) {
        for (uint32_t i = 0; i < WORDS; i++)
            from[i] = round;
        uro_copy_in_order((void *)&shared[1], from, sizeof from);
    }
    atomic_store(&stop, true);
    return unused;
}

/* rule RSP.IN.ORDER */
static void copy__seen_by_another_thread__is_in_ascending_order(void **state)
{
    pthread_t writer;
    uint32_t wrong = 0;

    (void)state; /* rule RSP.IN.ORDER */
    atomic_store(&stop, false);
    assert_int_equal(pthread_create(&writer, NULL, write_rounds, NULL), 0);
    while (!atomic_load(&stop)) {
        uint64_t later = 0;
        for (uint32_t i = WORDS; i > 0; i -= i > 7 ? 7 : i) {
            uint64_t here = atomic_load_explicit(&shared[i], memory_order_acquire);
            wrong += here < later; /* a later word was written before this word */
            later = here;
        }
    }
    assert_int_equal(pthread_join(writer, NULL), 0);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copy__every_length_and_alignment__copies_exactly_these_bytes),
        cmocka_unit_test(copy__seen_by_another_thread__is_in_ascending_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
