/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the hash table against a plain list of its entries. */
#include "support/check.h"

#include "base/rng.h"
#include "base/table.h"

#define NODES   64u
#define BUCKETS 4u /* few, so that many numbers collide */

struct fixture {
    struct uro_table_bucket buckets[BUCKETS];
    struct uro_table table;
    struct uro_table_node nodes[NODES]; /* node i has the number i + 1 */
    bool inside[NODES];
};

static struct fixture *make(uint32_t buckets)
{
    static struct fixture f;

    f = (struct fixture){ .table = { .buckets = f.buckets, .mask = buckets - 1 } };
    for (uint32_t i = 0; i < NODES; i++)
        f.nodes[i].number = i + 1;
    return &f;
}

static void toggle(struct fixture *f, uint32_t i)
{
    if (f->inside[i])
        uro_table_remove(&f->table, &f->nodes[i]);
    else
        uro_table_insert(&f->table, &f->nodes[i]);
    f->inside[i] = !f->inside[i];
}

static void same(const struct fixture *f)
{
    uint32_t seen[NODES] = { 0 }, count = 0;
    const struct uro_table_node *node = uro_table_first(&f->table);

    for (; node != NULL; node = uro_table_next(&f->table, node))
        seen[node - f->nodes]++;
    for (uint32_t i = 0; i < NODES; i++) {
        assert_int_equal(seen[i], f->inside[i]);
        assert_ptr_equal(uro_table_find(&f->table, f->nodes[i].number),
                         f->inside[i] ? &f->nodes[i] : NULL);
        count += f->inside[i];
    }
    assert_int_equal(f->table.count, count);
}

static void table__inserts_and_removes_in_any_order__present_nodes_are_found(void **state)
{
    static const uint8_t seed[URO_RNG_SEED_BYTES] = { 7 };
    struct uro_rng rng;

    (void)state;
    uro_rng_init(&rng, seed);
    for (uint32_t buckets = 1; buckets <= BUCKETS; buckets *= 2) {
        struct fixture *f = make(buckets);
        for (unsigned step = 0; step < 5000; step++) {
            toggle(f, uro_rng_u32(&rng) % NODES);
            same(f);
        }
    }
}

/* A slot that never had a node has the number 0. */
static void table__number_0__is_found_only_after_insert(void **state)
{
    struct fixture *f = make(1);

    (void)state;
    f->nodes[0].number = 0;
    same(f);
    toggle(f, 0);
    same(f);
    toggle(f, 0);
    same(f);
}

/* A removed node leaves its number in the slot, but a search does not find the node. */
static void table__removed_number__is_not_found(void **state)
{
    struct fixture *f = make(1);

    (void)state;
    toggle(f, 0);
    toggle(f, 1);
    toggle(f, 0);
    assert_null(uro_table_find(&f->table, f->nodes[0].number));
    same(f);
}

static void table__bucket_overflows__freed_slot_is_filled(void **state)
{
    struct fixture *f = make(1);

    (void)state;
    for (uint32_t i = 0; i < URO_TABLE_SLOTS + 2; i++)
        toggle(f, i);
    same(f);
    toggle(f, 1);
    same(f);
    assert_ptr_equal(f->buckets[0].nodes[1], &f->nodes[URO_TABLE_SLOTS + 1]);
    assert_null(f->nodes[URO_TABLE_SLOTS + 1].next);
    toggle(f, URO_TABLE_SLOTS);
    assert_null(f->buckets[0].more);
    same(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table__inserts_and_removes_in_any_order__present_nodes_are_found),
        cmocka_unit_test(table__number_0__is_found_only_after_insert),
        cmocka_unit_test(table__removed_number__is_not_found),
        cmocka_unit_test(table__bucket_overflows__freed_slot_is_filled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
