/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the growing hash table against a plain list of its nodes. */
#include "support/check.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/rng.h"

#define NODES   1000u
#define LONGEST 8u /* maximum nodes in one bucket, for 20 000 random nodes in 20 000 buckets */

struct fixture {
    struct uro_hash hash;
    void *memory;
    struct uro_hash_node nodes[NODES];
    bool inside[NODES];
};

static struct fixture *make(uint32_t buckets_max)
{
    struct fixture *f = calloc(1, sizeof *f);

    assert_non_null(f);
    f->memory = malloc(uro_hash_size(buckets_max));
    assert_non_null(f->memory);
    memset(f->memory, 0xee, uro_hash_size(buckets_max));
    uro_hash_init(&f->hash, f->memory, buckets_max);
    return f;
}

static void drop(struct fixture *f)
{
    free(f->memory);
    free(f);
}

static void toggle(struct fixture *f, uint32_t i)
{
    if (f->inside[i])
        uro_hash_remove(&f->hash, &f->nodes[i]);
    else
        uro_hash_insert(&f->hash, &f->nodes[i]);
    f->inside[i] = !f->inside[i];
}

/* Returns whether a look-up by the number of node @i finds node @i among the nodes of the same
 * number. */
static bool found(const struct fixture *f, uint32_t i)
{
    const struct uro_hash_node *node = uro_hash_find(&f->hash, f->nodes[i].number);

    while (node != NULL && node != &f->nodes[i])
        node = uro_hash_next(node);
    return node != NULL;
}

static void same(const struct fixture *f)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < NODES; i++) {
        assert_int_equal(found(f, i), f->inside[i]);
        count += f->inside[i];
    }
    assert_int_equal(f->hash.count, count);
}

static void hash__inserts_and_removes_in_any_order__present_nodes_are_found(void **state)
{
    static const uint8_t seed[URO_RNG_SEED_BYTES] = { 7 };
    static const uint32_t sizes[] = { 1, 2, 3, 64, 100, NODES };
    struct uro_rng rng;

    (void)state;
    uro_rng_init(&rng, seed);
    for (uint32_t s = 0; s < URO_ARRAY_LEN(sizes); s++) {
        struct fixture *f = make(sizes[s]);
        for (uint32_t i = 0; i < NODES; i++)
            f->nodes[i].number =
                uro_rng_below(&rng, NODES); /* some numbers occur twice or more often */
        for (uint32_t step = 0; step < 5000; step++) {
            toggle(f, uro_rng_below(&rng, NODES));
            if (step % 500 == 0)
                same(f);
        }
        same(f);
        assert_in_range(f->hash.used, 1, sizes[s]);
        drop(f);
    }
}

static void hash__nodes_of_one_number__newest_first_also_after_growth(void **state)
{
    struct fixture *f = make(NODES);

    (void)state;
    for (uint32_t i = 0; i < NODES; i++)
        f->nodes[i].number = i % 7 == 0 ? 12345 : i;
    for (uint32_t i = 0; i < NODES; i++)
        toggle(f, i);
    uint32_t expected = (NODES - 1) / 7 * 7;
    for (const struct uro_hash_node *node = uro_hash_find(&f->hash, 12345); node != NULL;
         node = uro_hash_next(node)) {
        assert_ptr_equal(node, &f->nodes[expected]);
        expected -= 7;
    }
    assert_int_equal(expected, (uint32_t)-7);
    drop(f);
}

static void hash__node_outside_any_table__can_be_removed(void **state)
{
    struct fixture *f = make(4);

    (void)state;
    uro_hash_remove(&f->hash, &f->nodes[0]);
    assert_int_equal(f->hash.count, 0);
    toggle(f, 0);
    toggle(f, 0);
    uro_hash_remove(&f->hash, &f->nodes[0]);
    assert_int_equal(f->hash.count, 0);
    assert_null(uro_hash_find(&f->hash, 0));
    drop(f);
}

static uint32_t longest(const struct uro_hash *hash)
{
    uint32_t longest = 0;

    for (uint32_t i = 0; i < hash->used; i++) {
        uint32_t length = 0;
        for (const struct uro_hash_node *node = hash->buckets[i]; node != NULL; node = node->next)
            length++;
        longest = length > longest ? length : longest;
    }
    return longest;
}

static void hash__many_nodes__no_bucket_has_more_than_a_few(void **state)
{
    static const uint8_t seed[URO_RNG_SEED_BYTES] = { 9 };
    const uint32_t many = 20000;
    struct uro_hash_node *nodes = calloc(many, sizeof *nodes);
    void *memory = malloc(uro_hash_size(many));
    struct uro_hash hash;
    struct uro_rng rng;

    (void)state;
    assert_true(nodes != NULL && memory != NULL);
    uro_rng_init(&rng, seed);
    uro_hash_init(&hash, memory, many);
    for (uint32_t i = 0; i < many; i++) {
        nodes[i].number = uro_rng_u32(&rng);
        uro_hash_insert(&hash, &nodes[i]);
        assert_true(hash.used >= hash.count);
    }
    assert_in_range(longest(&hash), 1, LONGEST);
    free(memory);
    free(nodes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hash__inserts_and_removes_in_any_order__present_nodes_are_found),
        cmocka_unit_test(hash__nodes_of_one_number__newest_first_also_after_growth),
        cmocka_unit_test(hash__node_outside_any_table__can_be_removed),
        cmocka_unit_test(hash__many_nodes__no_bucket_has_more_than_a_few),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
