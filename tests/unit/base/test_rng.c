/* SPDX-License-Identifier: BSD-3-Clause */
#include "support/check.h"

#include <string.h>

#include "base/rng.h"

/* The key stream of ChaCha20 for a key and nonce of zero, as published with the cipher. */
static void rng__zero_seed__gives_the_published_key_stream(void **state)
{
    static const uint8_t published[64] = {
        0x76, 0xb8, 0xe0, 0xad, 0xa0, 0xf1, 0x3d, 0x90, 0x40, 0x5d, 0x6a, 0xe5, 0x53,
        0x86, 0xbd, 0x28, 0xbd, 0xd2, 0x19, 0xb8, 0xa0, 0x8d, 0xed, 0x1a, 0xa8, 0x36,
        0xef, 0xcc, 0x8b, 0x77, 0x0d, 0xc7, 0xda, 0x41, 0x59, 0x7c, 0x51, 0x57, 0x48,
        0x8d, 0x77, 0x24, 0xe0, 0x3f, 0xb8, 0xd8, 0x4a, 0x37, 0x6a, 0x43, 0xb8, 0xf4,
        0x15, 0x18, 0xa1, 0x1c, 0xc3, 0x87, 0xb6, 0x69, 0xb2, 0xee, 0x65, 0x86,
    };
    static const uint8_t seed[URO_RNG_SEED_BYTES];
    struct uro_rng rng;

    (void)state;
    uro_rng_init(&rng, seed);
    for (size_t i = 0; i < sizeof published; i += 4) {
        const uint32_t word = uro_rng_u32(&rng);
        for (size_t j = 0; j < 4; j++)
            assert_int_equal((uint8_t)(word >> 8 * j), published[i + j]);
    }
    /* The second block follows: the counter has advanced. */
    assert_int_equal(uro_rng_u32(&rng), 0xbee7079f);
}

static void rng__block_counter_passes_32_bits__does_not_repeat(void **state)
{
    struct uro_rng rng;

    (void)state;
    uro_rng_init_number(&rng, 5);
    const uint32_t first = uro_rng_u32(&rng);
    rng.counter = UINT64_C(1) << 32;
    rng.used = URO_ARRAY_LEN(rng.block);
    assert_int_not_equal(uro_rng_u32(&rng), first);
}

static void rng__same_seed__same_numbers(void **state)
{
    struct uro_rng a, b, other;
    unsigned different = 0;

    (void)state;
    uro_rng_init_number(&a, 42);
    uro_rng_init_number(&b, 42);
    uro_rng_init_number(&other, UINT64_C(42) << 32);
    for (int i = 0; i < 1000; i++) {
        const uint64_t number = uro_rng_u64(&a);
        assert_true(number == uro_rng_u64(&b));
        different += number != uro_rng_u64(&other);
    }
    assert_int_equal(different, 1000);
}

static void rng_u64__after_init__is_two_words_with_the_low_word_first(void **state)
{
    struct uro_rng a, b;

    (void)state;
    uro_rng_init_number(&a, 7);
    uro_rng_init_number(&b, 7);
    for (int i = 0; i < 100; i++) {
        const uint64_t low = uro_rng_u32(&a);
        const uint64_t high = uro_rng_u32(&a);
        assert_true(uro_rng_u64(&b) == (high << 32 | low));
    }
}

/* 2^32 is 4/3 of this bound. Without rejection, one result in three would be twice as frequent as
 * the others. If the function multiplied, these results would be the multiples of three. */
static void rng_below__awkward_bound__every_residue_is_as_likely(void **state)
{
    enum { DRAWS = 300000 };
    const uint32_t bound = UINT32_C(3) << 30;
    struct uro_rng rng;
    int count[3] = { 0 };

    (void)state;
    uro_rng_init_number(&rng, 3);
    for (int i = 0; i < DRAWS; i++) {
        const uint32_t number = uro_rng_below(&rng, bound);
        assert_true(number < bound);
        count[number % 3]++;
    }
    for (int i = 0; i < 3; i++)
        assert_in_range(count[i], DRAWS / 3 - 2000, DRAWS / 3 + 2000);
}

static void rng_below__one__is_always_zero(void **state)
{
    struct uro_rng rng;

    (void)state;
    uro_rng_init_number(&rng, 4);
    for (int i = 0; i < 100; i++)
        assert_int_equal(uro_rng_below(&rng, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rng__zero_seed__gives_the_published_key_stream),
        cmocka_unit_test(rng__block_counter_passes_32_bits__does_not_repeat),
        cmocka_unit_test(rng__same_seed__same_numbers),
        cmocka_unit_test(rng_u64__after_init__is_two_words_with_the_low_word_first),
        cmocka_unit_test(rng_below__awkward_bound__every_residue_is_as_likely),
        cmocka_unit_test(rng_below__one__is_always_zero),
    };
    return cmocka_run_group_tests_name("base/rng", tests, NULL, NULL);
}
