/* SPDX-License-Identifier: BSD-3-Clause */
/* regions.c - the structs of a context's memory regions. Programs have many, so they lie in blocks,
 * without what each piece of malloc's memory costs and without links: a block has as many places as
 * there are regions already.
 *
 * A place holds a reference to the context: an origin may stay longer than its handle. Under the
 * context lock.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/objects.h"

#define MOST 32u /* places of a block */

/* The address sanitizer finds a use of a region after it was deregistered, as after free(). */
#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1 /* as gcc says it */
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
void __asan_poison_memory_region(const void *at, size_t size);
void __asan_unpoison_memory_region(const void *at, size_t size);
#define FORBID(at, size) __asan_poison_memory_region(at, size)
#define ALLOW(at, size)  __asan_unpoison_memory_region(at, size)
#else
#define FORBID(at, size) (void)(at)
#define ALLOW(at, size)  (void)(at)
#endif

struct block {
    struct uro_link link; /* in uro_ibv_context.blocks, if it has a free place, or in full_blocks */
    struct uro_ibv_context *context;
    struct uro_device *device; /* dead in a forked child, when the block is the parent's */
    uint32_t free;             /* set of places, 1 << i */
    uint32_t all;              /* of them */
    struct uro_ibv_mr places[];
};

/* The one that the region, which was not freed, is in. */
static struct block *block_of(const struct uro_ibv_mr *mr)
{
    const struct uro_ibv_mr *first = mr - mr->place;

    return (struct block *)((uintptr_t)first - offsetof(struct block, places));
}

static struct block *new_block(struct uro_ibv_context *context)
{
    uint32_t count = context->regions == 0 ? 1 : context->regions;

    if (count > MOST)
        count = MOST;
    struct block *block = malloc(sizeof *block + count * sizeof block->places[0]);
    if (block == NULL)
        return NULL;
    *block = (struct block){ .context = context,
                             .device = context->device,
                             .all = UINT32_MAX >> (MOST - count) };
    block->free = block->all;
    FORBID(block->places, count * sizeof block->places[0]);
    uro_list_append(&context->blocks, &block->link);
    return block;
}

static struct uro_ibv_mr *take_place(struct uro_ibv_context *context)
{
    struct block *block = uro_list_empty(&context->blocks)
                              ? new_block(context)
                              : URO_CONTAINER_OF(context->blocks.head.next, struct block, link);

    if (block == NULL)
        return NULL;
    unsigned place = (unsigned)__builtin_ctz(block->free);
    struct uro_ibv_mr *mr = &block->places[place];
    ALLOW(mr, sizeof *mr);
    memset(mr, 0, sizeof *mr);
    mr->place = (uint8_t)place;
    block->free &= ~(1u << place);
    if (block->free == 0) {
        uro_list_remove(&block->link);
        uro_list_append(&context->full_blocks, &block->link);
    }
    context->regions++;
    context->references++;
    return mr;
}

struct uro_ibv_mr *uro_region_new(struct ibv_context *ibv)
{
    struct uro_ibv_context *context = uro_ibv_context(ibv);

    if (uro_device_refusal(context->device) != 0) {
        errno = EIO;
        return NULL;
    }
    uro_ibv_context_lock(context);
    struct uro_ibv_mr *mr = take_place(context);
    uro_ibv_context_unlock(context);
    if (mr == NULL)
        errno = ENOMEM;
    return mr;
}

void uro_region_free(struct uro_ibv_mr *mr)
{
    struct block *block = block_of(mr);
    struct uro_ibv_context *context = block->context;
    const bool dead = uro_region_dead(mr);
    uint32_t place = 1u << mr->place;

    uro_ibv_context_lock(context);
    URO_ASSERT((block->free & place) == 0);
    bool full = block->free == 0;
    block->free |= place;
    FORBID(mr, sizeof *mr);
    if (!dead && (full || block->free == block->all)) /* else the lists may be half changed */
        uro_list_remove(&block->link);
    if (block->free == block->all)
        free(block);
    else if (full && !dead)
        uro_list_append(&context->blocks, &block->link);
    context->regions -= !dead;
    uro_ibv_context_release(context);
}

struct uro_ibv_context *uro_region_context(const struct uro_ibv_mr *mr)
{
    return block_of(mr)->context;
}

struct uro_device *uro_region_device(const struct uro_ibv_mr *mr)
{
    return block_of(mr)->device;
}

bool uro_region_dead(const struct uro_ibv_mr *mr)
{
    return uro_device_dead(uro_region_device(mr));
}

void uro_region_attach(struct uro_ibv_mr *mr)
{
    struct uro_ibv_context *context = uro_region_context(mr);

    uro_ibv_context_lock(context);
    mr->attached = true;
    uro_ibv_context_unlock(context);
}

bool uro_region_detach(struct uro_ibv_mr *mr)
{
    struct uro_ibv_context *context = uro_region_context(mr);

    uro_ibv_context_lock(context);
    URO_ASSERT((block_of(mr)->free & 1u << mr->place) == 0);
    bool here = mr->attached && !uro_region_dead(mr);
    mr->attached = false;
    uro_ibv_context_unlock(context);
    return here;
}

static void detach_all(const struct uro_list *blocks)
{
    for (struct uro_link *at = blocks->head.next; at != &blocks->head; at = at->next) {
        struct block *block = URO_CONTAINER_OF(at, struct block, link);
        for (uint32_t left = block->all & ~block->free; left != 0; left &= left - 1) {
            struct uro_ibv_mr *mr = &block->places[__builtin_ctz(left)];
            if (mr->attached)
                uro_ibv_mr_detach(mr);
            mr->attached = false;
        }
    }
}

void uro_regions_detach(struct uro_ibv_context *context)
{
    detach_all(&context->blocks);
    detach_all(&context->full_blocks);
}
