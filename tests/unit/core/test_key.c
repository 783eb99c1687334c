/* SPDX-License-Identifier: BSD-3-Clause */
/* test_key.c - tests the bytes to which a key gives access: range, rights, and key numbers. */
#include "base/mark.h"
#include "core/key.h"

#include <stdlib.h>

#include "core/shard.h"
#include "support/check.h"

static struct uro_shard shard;
static struct uro_record record;
static void *tables;
static uint8_t memory[4096];

static int open_shard(void **state)
{
    const struct uro_shard_config config = { .table_bits = 4, .seed = { 1 } };

    (void)state;
    tables = aligned_alloc(64, (uro_shard_table_size(&config) + 63) & ~(size_t)63);
    uro_shard_init(&shard, &config, tables, &record, 0);
    return 0;
}

static int close_shard(void **state)
{
    (void)state;
    free(tables);
    return 0;
}

static struct uro_key region(uint64_t base, uint64_t length)
{
    return (struct uro_key){
        .pd = 7, .access = URO_ACCESS_REMOTE_READ, .base = base, .length = length, .memory = memory
    };
}

static uint8_t *remote(uint32_t number, uint32_t access, uint64_t address, uint64_t length)
{
    const struct uro_key_claim claim = { .number = number, .pd = 7, .qpn = 1, .access = access };

    return uro_key_remote(&shard, &claim, address, length);
}

static uint8_t *resolve(const struct uro_key *key, uint64_t address, uint64_t length)
{
    return uro_key_local(&shard, uro_key_number(key), 7, URO_ACCESS_REMOTE_READ, address, length);
}

static void keys__of_two_shards__a_key_of_one_is_a_key_of_both(void **state)
{
    const struct uro_shard_config config = { .table_bits = 4, .seed = { 2 }, .keys = shard.keys };
    void *others = aligned_alloc(64, (uro_shard_table_size(&config) + 63) & ~(size_t)63);
    static struct uro_shard other;
    static struct uro_record other_record;
    struct uro_key key = region(0x1000, 100), more = region(0x1000, 100);

    (void)state;
    assert_non_null(others);
    uro_shard_init(&other, &config, others, &other_record, 0);
    uro_key_register(&shard, &key);
    uro_key_register(&other, &more);
    assert_ptr_equal(uro_key_find(&other, uro_key_number(&key)), &key);
    assert_ptr_equal(uro_key_find(&shard, uro_key_number(&more)), &more);
    assert_int_equal(uro_key_deregister(&other, &key), 0);
    assert_null(uro_key_find(&shard, uro_key_number(&key)));
    assert_int_equal(uro_key_deregister(&shard, &more), 0);
    free(others);
}

/* bug B04 */
static void key_resolve__edges_of_the_range__only_bytes_inside_are_accepted(void **state)
{
    struct uro_key key = region(0x1000, 100);

    (void)state;
    uro_mark_clear();
    uro_key_register(&shard, &key);
    assert_ptr_equal(resolve(&key, 0x1000, 100), memory);
    assert_ptr_equal(resolve(&key, 0x1063, 1), memory + 99);
    assert_ptr_equal(resolve(&key, 0x1064, 0), memory + 100);
    assert_null(resolve(&key, 0xfff, 1));
    assert_null(resolve(&key, 0x1000, 101));
    assert_null(resolve(&key, 0x1063, 2));
    assert_null(resolve(&key, 0x1064, 1));
    assert_null(resolve(&key, 0x1001, UINT64_MAX));
    assert_null(resolve(&key, UINT64_MAX, 2));
    assert_null(resolve(&key, 0, 0x1010));
    uro_key_deregister(&shard, &key);
    assert_true(uro_mark_hit("KEY.RANGE"));
}

static void key_resolve__region_at_the_end_of_the_address_space__does_not_wrap(void **state)
{
    struct uro_key key = region(UINT64_MAX - 9, 10);

    (void)state;
    uro_key_register(&shard, &key);
    assert_ptr_equal(resolve(&key, UINT64_MAX - 9, 10), memory);
    assert_null(resolve(&key, UINT64_MAX - 9, 11));
    assert_null(resolve(&key, 0, 1));
    assert_null(resolve(&key, 0, 0));
    uro_key_deregister(&shard, &key);
}

static void key_resolve__other_pd_missing_right_or_deregistered__is_refused(void **state)
{
    struct uro_key key = region(0, 10);

    (void)state;
    uro_mark_clear();
    uro_key_register(&shard, &key);
    uint32_t number = uro_key_number(&key);
    assert_non_null(uro_key_local(&shard, number, 7, 0, 0, 1));
    assert_null(uro_key_local(&shard, number, 8, 0, 0, 1));
    assert_null(uro_key_local(&shard, number, 7, URO_ACCESS_REMOTE_WRITE, 0, 1));
    assert_null(
        uro_key_local(&shard, number, 7, URO_ACCESS_REMOTE_READ | URO_ACCESS_REMOTE_WRITE, 0, 1));
    assert_null(uro_key_local(&shard, number ^ 1, 7, 0, 0, 1));
    uro_key_deregister(&shard, &key);
    assert_null(uro_key_local(&shard, number, 7, 0, 0, 1));
    assert_true(uro_mark_hit("KEY.PD"));
}

/* Each bit of a key number is 0 in some keys and 1 in other keys. */
static void key_register__64_keys__numbers_use_all_32_bits(void **state)
{
    struct uro_key keys[64];
    uint32_t all_or = 0, all_and = UINT32_MAX;

    (void)state;
    uro_mark_clear();
    for (int i = 0; i < 64; i++) {
        keys[i] = region(0, 10);
        uro_key_register(&shard, &keys[i]);
        all_or |= uro_key_number(&keys[i]);
        all_and &= uro_key_number(&keys[i]);
    }
    assert_int_equal(all_or, UINT32_MAX);
    assert_int_equal(all_and, 0);
    for (int i = 0; i < 64; i++)
        uro_key_deregister(&shard, &keys[i]);
    assert_int_equal(shard.keys->table.count, 0);
    assert_true(uro_mark_hit("QP.NUMBERS"));
}

/* ---- memory that may fault, and null regions ------------------------------------------------ */

static struct {
    const uint8_t *at;
    uint64_t length;
    bool write;
    int calls;
} asked;
static bool present;

static bool ask(const uint8_t *at, uint64_t length, bool write)
{
    asked.at = at;
    asked.length = length;
    asked.write = write;
    asked.calls++;
    return present;
}

static void key_resolve__memory_that_may_fault__only_touched_bytes_are_checked(void **state)
{
    struct uro_key key = region(0, UINT64_MAX);

    (void)state;
    uro_mark_clear();
    key.memory = NULL; /* all of memory */
    key.access = 0xf;
    key.reachable = ask;
    uro_key_register(&shard, &key);
    uint32_t number = uro_key_number(&key);
    uint64_t address = (uintptr_t)memory;
    present = true;
    asked.calls = 0;
    assert_ptr_equal(uro_key_local(&shard, number, 7, 0, address, 100), memory);
    assert_ptr_equal(asked.at, memory);
    assert_int_equal(asked.length, 100);
    assert_false(asked.write);
    assert_ptr_equal(remote(number, URO_ACCESS_REMOTE_WRITE, address, 1u << 30), memory);
    assert_int_equal(asked.length, 4096);
    assert_true(asked.write);
    assert_int_equal(asked.calls, 2);
    assert_non_null(uro_key_local(&shard, number, 7, 0, address, 0));
    assert_null(uro_key_local(&shard, number, 8, 0, address, 1));
    assert_int_equal(asked.calls, 2);

    present = false;
    assert_null(uro_key_local(&shard, number, 7, URO_ACCESS_LOCAL_WRITE, address, 1));
    assert_true(asked.write);
    assert_null(remote(number, URO_ACCESS_REMOTE_READ, address, 1));
    assert_false(asked.write);
    assert_null(remote(number, URO_ACCESS_REMOTE_ATOMIC, address, 8));
    assert_true(asked.write);
    uro_key_deregister(&shard, &key);
    assert_true(uro_mark_hit("KEY.ABSENT"));
}

static void key_null__read_and_write__use_different_memory(void **state)
{
    static uint8_t nothing[2 * 4096];
    struct uro_key key = { .kind = URO_KEY_NULL,
                           .pd = 7,
                           .access = URO_ACCESS_LOCAL_WRITE,
                           .length = UINT64_MAX,
                           .memory = nothing };

    (void)state;
    uro_key_register(&shard, &key);
    uint32_t number = uro_key_number(&key);
    const uint8_t *from = uro_key_local(&shard, number, 7, 0, 0x123456789abc, 4096);
    const uint8_t *to = uro_key_local(&shard, number, 7, URO_ACCESS_LOCAL_WRITE, 5, 4096);
    assert_ptr_equal(from, nothing);
    assert_ptr_equal(to, nothing + 4096);
    assert_null(remote(number, URO_ACCESS_REMOTE_READ, 0, 1));
    uro_key_deregister(&shard, &key);
}

static bool never_faults(ptrdiff_t from, uintptr_t length)
{
    return uro_key_never_faults(&shard, (uintptr_t)memory + (uintptr_t)from, length);
}

static void key_never_faults__range_overlaps_a_region__is_true(void **state)
{
    struct uro_key key = region(0x1000, 100), others[64];

    (void)state;
    for (int i = 0; i < 64; i++) { /* each bucket has entries */
        others[i] = region(0, 1);
        others[i].memory = memory + 4000;
        uro_key_register(&shard, &others[i]);
    }
    assert_false(never_faults(0, 4000));
    key.memory = memory + 1000;
    uro_key_register(&shard, &key);
    assert_true(never_faults(0, 1001));
    assert_false(never_faults(0, 1000));
    assert_true(never_faults(1099, 1));
    assert_false(never_faults(1100, 2900));
    assert_true(never_faults(1050, 1));
    assert_true(never_faults(0, 4000));
    uro_key_deregister(&shard, &key);
    assert_false(never_faults(0, 4000));
    for (int i = 0; i < 64; i++)
        uro_key_deregister(&shard, &others[i]);
}

static void key_never_faults__region_at_the_end_of_the_address_space__does_not_wrap(void **state)
{
    struct uro_key key = region(0, 10);

    (void)state;
    key.memory = (uint8_t *)(UINTPTR_MAX - 9);
    uro_key_register(&shard, &key);
    assert_true(uro_key_never_faults(&shard, UINTPTR_MAX - 4095, 4096));
    assert_false(uro_key_never_faults(&shard, UINTPTR_MAX - 8191, 4096));
    assert_false(uro_key_never_faults(&shard, 0, 4096));
    uro_key_deregister(&shard, &key);
}

static void key_never_faults__on_demand_empty_or_window__is_false(void **state)
{
    struct uro_key keys[] = { region(0, 0), region(0, 100), region(0, UINT64_MAX), region(0, 100) };

    (void)state;
    keys[1].reachable = ask;
    keys[2].kind = URO_KEY_NULL;
    keys[3].kind = URO_KEY_WINDOW_1; /* only the keys of regions count */
    for (size_t i = 0; i < URO_ARRAY_LEN(keys); i++) {
        uro_key_register(&shard, &keys[i]);
        assert_false(never_faults(0, sizeof memory));
        uro_key_deregister(&shard, &keys[i]);
    }
}

static void key_may_fault__window__is_that_of_the_region(void **state)
{
    struct uro_key ordinary = region(0, 100), on_demand = region(0, 100), window = region(0, 100);

    (void)state;
    on_demand.reachable = ask;
    window.kind = URO_KEY_WINDOW_1;
    uro_key_register(&shard, &ordinary);
    uro_key_register(&shard, &on_demand);
    uro_key_register(&shard, &window);
    assert_false(uro_key_may_fault(&shard, uro_key_number(&ordinary)));
    assert_true(uro_key_may_fault(&shard, uro_key_number(&on_demand)));
    window.region = &ordinary;
    assert_false(uro_key_may_fault(&shard, uro_key_number(&window)));
    window.region = &on_demand;
    assert_true(uro_key_may_fault(&shard, uro_key_number(&window)));
    window.region = NULL; /* bound to nothing */
    assert_false(uro_key_may_fault(&shard, uro_key_number(&window)));
    uro_key_deregister(&shard, &window);
    uro_key_deregister(&shard, &on_demand);
    uro_key_deregister(&shard, &ordinary);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(key_resolve__edges_of_the_range__only_bytes_inside_are_accepted),
        cmocka_unit_test(key_resolve__region_at_the_end_of_the_address_space__does_not_wrap),
        cmocka_unit_test(key_resolve__other_pd_missing_right_or_deregistered__is_refused),
        cmocka_unit_test(key_register__64_keys__numbers_use_all_32_bits),
        cmocka_unit_test(key_resolve__memory_that_may_fault__only_touched_bytes_are_checked),
        cmocka_unit_test(key_never_faults__range_overlaps_a_region__is_true),
        cmocka_unit_test(key_never_faults__region_at_the_end_of_the_address_space__does_not_wrap),
        cmocka_unit_test(key_may_fault__window__is_that_of_the_region),
        cmocka_unit_test(keys__of_two_shards__a_key_of_one_is_a_key_of_both),
        cmocka_unit_test(key_never_faults__on_demand_empty_or_window__is_false),
        cmocka_unit_test(key_null__read_and_write__use_different_memory),
    };
    return cmocka_run_group_tests(tests, open_shard, close_shard);
}
