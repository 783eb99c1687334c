/* SPDX-License-Identifier: BSD-3-Clause */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "support/check.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <zlib.h>

#include "base/crc32.h"
#include "base/crc32_fold.h"
#include "base/rng.h"

#define LENGTH_MAX 4200u
#define MARGIN     64u /* bytes around the copied range, which must not change */

static uint8_t source[LENGTH_MAX + 2 * MARGIN];
static uint8_t target[LENGTH_MAX + 2 * MARGIN];

/* Selects a CRC method. Skips the test, with a message, if this CPU lacks the method. */
static void use_or_skip(void **state)
{
    const char *method = *state;

    if (!uro_crc32_use(method)) {
        print_message("# SKIP this CPU cannot run the method %s\n", method);
        skip();
    }
    assert_string_equal(uro_crc32_method(), method);
}

static int fill_source(void **state)
{
    struct uro_rng rng;

    (void)state;
    uro_rng_init_number(&rng, 1);
    for (size_t i = 0; i < sizeof source; i++)
        source[i] = (uint8_t)uro_rng_u32(&rng);
    return 0;
}

static uint32_t expected(const uint8_t *from, size_t length)
{
    return (uint32_t)crc32(0, from, (uInt)length);
}

static void crc32__every_length_and_alignment__agrees_with_zlib(void **state)
{
    static const size_t alignments[] = { 0, 1, 3, 8, 15, 32, 63 };

    use_or_skip(state);
    for (size_t a = 0; a < URO_ARRAY_LEN(alignments); a++) {
        const uint8_t *from = source + alignments[a];
        for (size_t length = 0; length <= LENGTH_MAX; length++)
            assert_int_equal(uro_crc32_finish(uro_crc32(URO_CRC32_START, from, length)),
                             expected(from, length));
    }
}

static void assert_filled(const uint8_t *from, const uint8_t *end, uint8_t value)
{
    while (from < end)
        assert_int_equal(*from++, value);
}

static void crc32_copy__every_length_and_alignment__copies_exactly_these_bytes(void **state)
{
    static const struct {
        size_t from;
        size_t to;
    } alignments[] = { { 0, 0 }, { 1, 0 }, { 0, 1 }, { 7, 13 }, { 63, 32 } };

    use_or_skip(state);
    for (size_t a = 0; a < URO_ARRAY_LEN(alignments); a++) {
        const uint8_t *from = source + alignments[a].from;
        uint8_t *to = target + alignments[a].to;
        for (size_t length = 0; length <= LENGTH_MAX; length++) {
            memset(target, 0xa5, alignments[a].to + length + MARGIN);
            const uint32_t reg = uro_crc32_copy(URO_CRC32_START, to, from, length);
            assert_int_equal(uro_crc32_finish(reg), expected(from, length));
            assert_memory_equal(to, from, length);
            assert_filled(target, to, 0xa5);
            assert_filled(to + length, to + length + MARGIN - 1, 0xa5);
        }
    }
}

static void crc32__fed_in_pieces__is_the_crc_of_the_whole(void **state)
{
    struct uro_rng rng;

    use_or_skip(state);
    uro_rng_init_number(&rng, 2);
    for (int round = 0; round < 3000; round++) {
        const size_t length = uro_rng_below(&rng, LENGTH_MAX + 1);
        uint32_t reg = URO_CRC32_START;
        for (size_t at = 0; at < length;) {
            uint32_t limit = round % 3 == 0 ? 40 : 2000;
            size_t piece = uro_rng_below(&rng, limit);
            if (piece > length - at)
                piece = length - at;
            if (uro_rng_below(&rng, 2) == 0)
                reg = uro_crc32(reg, source + at, piece);
            else
                reg = uro_crc32_copy(reg, target + at, source + at, piece);
            at += piece;
        }
        assert_int_equal(uro_crc32_finish(reg), expected(source, length));
    }
}

/* Makes a random mask for the head. In the mask, the padding before the head is all ones, and the
 * bytes behind the head are zero. */
static void make_mask(struct uro_crc32_mask *mask, size_t head_length)
{
    struct uro_rng rng;

    uro_rng_init_number(&rng, 3);
    memset(mask, 0, sizeof *mask);
    for (size_t i = 0; i < URO_CRC32_MASK_PAD + head_length; i++) {
        bool before = i < URO_CRC32_MASK_PAD;
        mask->ones[i] = before ? 0xff : (uint8_t)(uro_rng_u32(&rng) & uro_rng_u32(&rng));
        mask->flip[i] = before ? 0xff : (uint8_t)uro_rng_u32(&rng);
    }
}

static uint32_t expected_masked(const struct uro_crc32_mask *mask, const uint8_t *head,
                                size_t head_length, const uint8_t *from, size_t length)
{
    uint8_t whole[URO_CRC32_MASK_MAX];

    for (size_t i = 0; i < head_length; i++)
        whole[i] =
            (head[i] | mask->ones[URO_CRC32_MASK_PAD + i]) ^ mask->flip[URO_CRC32_MASK_PAD + i];
    for (size_t i = 0; i < 4; i++)
        whole[i] ^= 0xff; /* zlib starts from ones, and the mask from zero */
    return (uint32_t)crc32(crc32(0, whole, (uInt)head_length), from, (uInt)length);
}

#define PAGE 4096u

/* Returns two pages between two inaccessible pages. */
static uint8_t *guarded(void)
{
    uint8_t *pages = mmap(NULL, 4 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(pages != MAP_FAILED &&
                mprotect(pages + PAGE, 2 * PAGE, PROT_READ | PROT_WRITE) == 0);
    memcpy(pages + PAGE, source, PAGE);
    memcpy(pages + 2 * PAGE, source, PAGE);
    return pages + PAGE;
}

static void unguard(uint8_t *pages)
{
    (void)munmap(pages - PAGE, 4 * PAGE);
}

#define HEAD_MAX   64u
#define MANY_UNTIL 200u

static void crc32_masked__every_length__is_that_of_the_masked_bytes(void **state)
{
    static const size_t more[] = { 256, 257, 319, 320, 1024, 4000 };
    struct uro_crc32_mask mask;

    use_or_skip(state);
    uint8_t *pages = guarded();
    for (size_t head_length = 16; head_length <= HEAD_MAX; head_length += 4) {
        make_mask(&mask, head_length);
        for (size_t i = 0; i < MANY_UNTIL + URO_ARRAY_LEN(more); i++) {
            size_t length = i < MANY_UNTIL ? i : more[i - MANY_UNTIL];
            const uint8_t *heads[] = { pages, pages + 2 * PAGE - head_length - length };
            for (unsigned end = 0; end < 2; end++)
                assert_int_equal(
                    uro_crc32_finish(uro_crc32_masked(&mask, heads[end], head_length, length)),
                    expected_masked(&mask, heads[end], head_length, heads[end] + head_length,
                                    length));
        }
    }
    unguard(pages);
}

/* The bytes to copy begin right behind an inaccessible page, or end right before such a page. So
 * the processor detects reads outside of them. */
static void crc32_masked_copy__every_length__touches_nothing_else(void **state)
{
    struct uro_crc32_mask mask;

    use_or_skip(state);
    uint8_t *pages = guarded(), *heads = guarded();
    for (size_t head_length = 16; head_length <= URO_CRC32_MASK_MAX; head_length += 4) {
        make_mask(&mask, head_length);
        for (size_t length = 0; length <= 300; length++)
            for (unsigned end = 0; end < 2; end++) {
                const uint8_t *from = pages + (end ? 2 * PAGE - length : 0);
                const uint8_t *head = heads + (end ? 2 * PAGE - head_length : 0);
                memset(target, 0xa5, length + MARGIN);
                uint32_t reg =
                    uro_crc32_masked_copy(&mask, head, head_length, target, from, length);
                assert_int_equal(uro_crc32_finish(reg),
                                 expected_masked(&mask, head, head_length, from, length));
                assert_memory_equal(target, from, length);
                assert_filled(target + length, target + length + MARGIN, 0xa5);
            }
    }
    unguard(pages);
    unguard(heads);
}

static _Atomic bool stop;
static _Atomic size_t scribbled; /* number of bytes at the start of `source` that change */

static void *scribble(void *arg)
{
    (void)arg;
    for (uint8_t value = 0; !stop; value++)
        for (size_t i = 0; i < scribbled; i++)
            ((volatile uint8_t *)source)[i] = (uint8_t)(value + i);
    return NULL;
}

/* Copies until the source changed during 200 copies, but at most a million times. Returns false
 * when a CRC did not match its copy. */
static bool copies_agree(size_t shortest, size_t longest)
{
    int changed = 0;

    for (size_t round = 0; changed < 200 && round < 1000000; round++) {
        const size_t length = shortest + round % (longest - shortest);
        const uint8_t before = source[length - 1];
        const uint32_t reg = uro_crc32_copy(URO_CRC32_START, target, source, length);
        changed += source[length - 1] != before;
        if (uro_crc32_finish(reg) != expected(target, length))
            return false;
    }
    return true;
}

/* The application may write to memory while it is copied. The CRC must match the copied bytes. */
/* rule TX.COPY */
static void crc32_copy__source_changes_meanwhile__crc_is_that_of_the_copy(void **state)
{
    static const size_t ranges[][2] = { { 1, 8 }, { 8, 16 }, { 16, 80 }, { 64, LENGTH_MAX } };
    bool right = true;
    pthread_t thread;

    use_or_skip(state);
    stop = false;
    scribbled = ranges[0][1];
    assert_int_equal(pthread_create(&thread, NULL, scribble, NULL), 0);
    for (size_t i = 0; i < URO_ARRAY_LEN(ranges) && right; i++) {
        scribbled = ranges[i][1];
        right = copies_agree(ranges[i][0], ranges[i][1]);
    }
    stop = true;
    pthread_join(thread, NULL);
    fill_source(NULL);
    assert_true(right);
}

/* Computes x^(n+1) from x^n: shifts, and subtracts P when x^32 appears. */
static uint32_t times_x(uint32_t power)
{
    return power >> 1 ^ ((power & 1) != 0 ? 0xedb88320u : 0);
}

static uint32_t power_of_x(unsigned n)
{
    uint32_t power = 0x80000000u;

    while (n-- > 0)
        power = times_x(power);
    return power;
}

static void crc32_fold__powers__follow_from_the_polynomial(void **state)
{
    static const struct {
        unsigned n;
        uint32_t power;
    } powers[] = {
        { 63, URO_CRC32_X63 },     { 95, URO_CRC32_X95 },     { 127, URO_CRC32_X127 },
        { 191, URO_CRC32_X191 },   { 255, URO_CRC32_X255 },   { 319, URO_CRC32_X319 },
        { 383, URO_CRC32_X383 },   { 447, URO_CRC32_X447 },   { 511, URO_CRC32_X511 },
        { 575, URO_CRC32_X575 },   { 1023, URO_CRC32_X1023 }, { 1087, URO_CRC32_X1087 },
        { 1535, URO_CRC32_X1535 }, { 1599, URO_CRC32_X1599 }, { 2047, URO_CRC32_X2047 },
        { 2111, URO_CRC32_X2111 },
    };

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(powers); i++)
        assert_int_equal(powers[i].power, power_of_x(powers[i].n));
}

static uint64_t mirrored_33(uint64_t value)
{
    uint64_t mirrored = 0;

    for (unsigned i = 0; i < 33; i++)
        mirrored |= (value >> i & 1) << (32 - i);
    return mirrored;
}

/* Schoolbook division of x^64 by P, highest power first. */
static void crc32_fold__quotient__is_x64_divided_by_the_polynomial(void **state)
{
    const uint64_t p = 0x104c11db7u;
    uint64_t rest = 1; /* the upper 33 bits of the remainder */
    uint64_t quotient = 0;

    (void)state;
    for (int digit = 0; digit <= 64; digit++) {
        if (digit > 0)
            rest <<= 1;
        quotient <<= 1;
        if (rest >> 32 & 1) {
            rest ^= p;
            quotient |= 1;
        }
    }
    assert_true(mirrored_33(p) == URO_CRC32_POLYNOMIAL);
    assert_true(mirrored_33(quotient) == URO_CRC32_QUOTIENT);
}

static void crc32_use__unknown_method__changes_nothing(void **state)
{
    (void)state;
    const char *method = uro_crc32_method();

    assert_false(uro_crc32_use("slide rule"));
    assert_ptr_equal(uro_crc32_method(), method);
}

/* clang-format off */
#define ON(method, test) { #test "__" method, test, NULL, NULL, (void *)(uintptr_t)method }
/* clang-format on */
#if defined(__x86_64__)
#define EACH_METHOD(test) ON("vpclmulqdq", test), ON("pclmulqdq", test), ON("table", test)
#elif defined(__aarch64__)
#define EACH_METHOD(test) ON("pmull", test), ON("armv8-crc32", test), ON("table", test)
#else
#define EACH_METHOD(test) ON("table", test)
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc32_fold__powers__follow_from_the_polynomial),
        cmocka_unit_test(crc32_fold__quotient__is_x64_divided_by_the_polynomial),
        cmocka_unit_test(crc32_use__unknown_method__changes_nothing),
        EACH_METHOD(crc32__every_length_and_alignment__agrees_with_zlib),
        EACH_METHOD(crc32_copy__every_length_and_alignment__copies_exactly_these_bytes),
        EACH_METHOD(crc32__fed_in_pieces__is_the_crc_of_the_whole),
        EACH_METHOD(crc32_copy__source_changes_meanwhile__crc_is_that_of_the_copy),
        EACH_METHOD(crc32_masked__every_length__is_that_of_the_masked_bytes),
        EACH_METHOD(crc32_masked_copy__every_length__touches_nothing_else),
    };
    return cmocka_run_group_tests_name("base/crc32", tests, fill_source, NULL);
}
