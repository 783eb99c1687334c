/* SPDX-License-Identifier: BSD-3-Clause */
#include "support/check.h"

#include <stdlib.h>

#include "capture/index.h"

#define COUNT 5000u

static bool equal(const void *objects, uint32_t position, const void *key)
{
    return ((const uint32_t *)objects)[position] == *(const uint32_t *)key;
}

static void index__empty__finds_nothing(void **state)
{
    const struct uro_index index = { .slots = NULL };
    const uint32_t key = 1;

    (void)state;
    assert_int_equal(uro_index_find(&index, 1, equal, NULL, &key), URO_INDEX_NONE);
}

/* Many objects with few hash values. */
static void index__many_objects_with_equal_hashes__all_are_found(void **state)
{
    struct uro_index index = { .slots = NULL };
    uint32_t *objects = NULL;
    uint32_t room = 0;

    (void)state;
    for (uint32_t i = 0; i < COUNT; i++) {
        objects = uro_index_grow(objects, i, &room, sizeof *objects);
        assert_non_null(objects);
        objects[i] = i * 7;
        assert_true(uro_index_add(&index, i % 64, i));
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        const uint32_t key = i * 7, other = key + 1;
        assert_int_equal(uro_index_find(&index, i % 64, equal, objects, &key), i);
        assert_int_equal(uro_index_find(&index, i % 64, equal, objects, &other), URO_INDEX_NONE);
    }
    free(objects);
    uro_index_free(&index);
    assert_int_equal(index.used, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(index__empty__finds_nothing),
        cmocka_unit_test(index__many_objects_with_equal_hashes__all_are_found),
    };
    return cmocka_run_group_tests_name("index", tests, NULL, NULL);
}
