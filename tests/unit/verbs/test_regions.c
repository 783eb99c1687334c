/* SPDX-License-Identifier: BSD-3-Clause */
/* test_regions.c - tests the allocation of the structs of memory regions. */
#include "support/check.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/objects.h"

#define MANY 100
#define FULL 64 /* number of slots of the blocks */

static struct uro_ibv_context *new_context(void)
{
    struct uro_ibv_context *context = calloc(1, sizeof *context);

    assert_non_null(context);
    assert_int_equal(setenv("UROCE_DEVICES", "one:net_null0;ip=10.0.0.1/24", 1), 0);
    context->device = uro_host_devices()[0]; /* a device that is never started */
    assert_non_null(context->device);
    pthread_mutex_init(&context->lock, NULL);
    pthread_mutex_init(&context->verbs.context.mutex, NULL);
    uro_list_init(&context->objects);
    uro_list_init(&context->blocks);
    uro_list_init(&context->full_blocks);
    context->references = 1;
    return context;
}

static void close_context(struct uro_ibv_context *context)
{
    uro_ibv_context_lock(context);
    uro_ibv_context_release(context);
}

static struct uro_ibv_mr *new_region(struct uro_ibv_context *context, unsigned i)
{
    static const struct uro_ibv_mr fresh;
    struct uro_ibv_mr *mr = uro_region_new(&context->verbs.context);

    assert_non_null(mr);
    assert_memory_equal(&mr->ibv, &fresh.ibv, sizeof fresh.ibv);
    assert_memory_equal(&mr->key, &fresh.key, sizeof fresh.key);
    assert_false(mr->attached || mr->handles != 0 || mr->dm != 0);
    assert_ptr_equal(uro_region_context(mr), context);
    memset(&mr->ibv, (int)i + 1, sizeof mr->ibv);
    memset(&mr->key, (int)i + 1, sizeof mr->key);
    return mr;
}

static void expect_kept(const struct uro_ibv_mr *mr, unsigned i)
{
    const uint8_t *octets = (const uint8_t *)mr;

    for (size_t at = 0; at < sizeof mr->ibv + sizeof mr->key; at++)
        assert_int_equal(octets[at], i + 1);
}

static void regions__allocated_and_freed__are_zeroed_and_do_not_overlap(void **state)
{
    struct uro_ibv_context *context = new_context();
    struct uro_ibv_mr *regions[MANY];

    (void)state;
    for (unsigned i = 0; i < MANY; i++)
        regions[i] = new_region(context, i);
    for (unsigned step = 2; step < 8; step++) {
        for (unsigned i = step; i < MANY; i += step)
            uro_region_free(regions[i]);
        for (unsigned i = step; i < MANY; i += step)
            regions[i] = new_region(context, i);
        for (unsigned i = 0; i < MANY; i++)
            expect_kept(regions[i], i);
    }
    assert_int_equal(context->regions, MANY);
    for (unsigned i = 0; i < MANY; i++)
        uro_region_free(regions[i]);
    assert_true(uro_list_empty(&context->blocks) && uro_list_empty(&context->full_blocks));
    assert_int_equal(context->references, 1);
    close_context(context);
}

static void region__freed_among_others__slot_is_reused(void **state)
{
    struct uro_ibv_context *context = new_context();
    struct uro_ibv_mr *regions[FULL];

    (void)state;
    for (unsigned i = 0; i < FULL; i++)
        regions[i] = new_region(context, i);
    assert_true(uro_list_empty(&context->blocks));
    uro_region_free(regions[FULL - 1]);
    assert_ptr_equal(new_region(context, 1), regions[FULL - 1]);
    assert_true(uro_list_empty(&context->blocks));
    for (unsigned i = 0; i < FULL; i++)
        uro_region_free(regions[i]);
    close_context(context);
}

static void region__attached__is_detached_once(void **state)
{
    struct uro_ibv_context *context = new_context();
    struct uro_ibv_mr *mr = new_region(context, 0);

    (void)state;
    assert_false(uro_region_detach(mr));
    uro_region_attach(mr);
    assert_true(uro_region_detach(mr));
    assert_false(uro_region_detach(mr));
    uro_region_free(mr);
    close_context(context);
}

/* An imported handle may need the region after its context was closed. */
static void region__of_a_closed_context__remains_valid(void **state)
{
    struct uro_ibv_context *context = new_context();
    struct uro_ibv_mr *mr = new_region(context, 5);

    (void)state;
    close_context(context);
    expect_kept(mr, 5);
    assert_ptr_equal(uro_region_context(mr), context);
    uro_region_free(mr);
}

static void region__in_a_block__takes_less_memory_than_malloc(void **state)
{
    struct uro_ibv_context *context = new_context();

    (void)state;
    struct uro_ibv_mr *mr = new_region(context, 0);
    const struct uro_link *block = context->full_blocks.head.next;
    assert_true(uro_list_empty(&context->blocks)); /* no further slots are free */
    assert_true(malloc_usable_size((void *)(uintptr_t)block) <= 200);
    uro_region_free(mr);
    close_context(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regions__allocated_and_freed__are_zeroed_and_do_not_overlap),
        cmocka_unit_test(region__freed_among_others__slot_is_reused),
        cmocka_unit_test(region__attached__is_detached_once),
        cmocka_unit_test(region__of_a_closed_context__remains_valid),
        cmocka_unit_test(region__in_a_block__takes_less_memory_than_malloc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
