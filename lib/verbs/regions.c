/* SPDX-License-Identifier: BSD-3-Clause */
/* regions.c - allocates the structs of a context's memory regions.
 *
 * Programs have many regions. They are allocated in blocks, so that a region needs no list pointers
 * and no malloc() header. A new block has as many slots as the context has regions already, but
 * at least 1 and at most SLOTS_MAX.
 *
 * A slot in use holds a reference to the context: a registered region may be deregistered while
 * imported handles still use its struct. The context lock protects the blocks.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/objects.h"

#define SLOTS_MAX 32u /* slots of a block */

/* Lets the address sanitizer find uses of a freed region, as after free(). */
#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1 /* gcc defines this itself */
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
void __asan_poison_memory_region(const void *start, size_t size);
void __asan_unpoison_memory_region(const void *start, size_t size);
#define FORBID(start, size) __asan_poison_memory_region(start, size)
#define ALLOW(start, size)  __asan_unpoison_memory_region(start, size)
#else
#define FORBID(start, size) (void)(start)
#define ALLOW(start, size)  (void)(start)
#endif

struct block {
    struct uro_link link; /* in uro_ibv_context.blocks or full_blocks */
    struct uro_ibv_context *context;
    struct uro_device *device; /* dead in a forked child, if the block is the parent's */
    uint32_t free;             /* set of free slots: 1 << i */
    uint32_t all;              /* set of all slots */
    struct uro_ibv_mr slots[];
};

/* Returns the block of the region. The region must be in use. */
static struct block *block_of(const struct uro_ibv_mr *mr)
{
    const struct uro_ibv_mr *first = mr - mr->slot;

    return (struct block *)((uintptr_t)first - offsetof(struct block, slots));
}

static struct block *new_block(struct uro_ibv_context *context)
{
    uint32_t count = context->regions == 0 ? 1 : context->regions;

    if (count > SLOTS_MAX)
        count = SLOTS_MAX;
    struct block *block = malloc(sizeof *block + count * sizeof block->slots[0]);
    if (block == NULL)
        return NULL;
    *block = (struct block){ .context = context,
                             .device = context->device,
                             .all = UINT32_MAX >> (SLOTS_MAX - count) };
    block->free = block->all;
    FORBID(block->slots, count * sizeof block->slots[0]);
    uro_list_append(&context->blocks, &block->link);
    return block;
}

static struct uro_ibv_mr *take_slot(struct uro_ibv_context *context)
{
    struct block *block = uro_list_empty(&context->blocks)
                              ? new_block(context)
                              : URO_CONTAINER_OF(context->blocks.head.next, struct block, link);

    if (block == NULL)
        return NULL;
    unsigned slot = (unsigned)__builtin_ctz(block->free);
    struct uro_ibv_mr *mr = &block->slots[slot];
    ALLOW(mr, sizeof *mr);
    memset(mr, 0, sizeof *mr);
    mr->slot = (uint8_t)slot;
    block->free &= ~(1u << slot);
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
    struct uro_ibv_mr *mr = take_slot(context);
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
    uint32_t bit = 1u << mr->slot;

    uro_ibv_context_lock(context);
    URO_ASSERT((block->free & bit) == 0);
    bool full = block->free == 0;
    block->free |= bit;
    FORBID(mr, sizeof *mr);
    if (!dead &&
        (full || block->free == block->all)) /* the lists of a dead context may be inconsistent */
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
    URO_ASSERT((block_of(mr)->free & 1u << mr->slot) == 0);
    bool here = mr->attached && !uro_region_dead(mr);
    mr->attached = false;
    uro_ibv_context_unlock(context);
    return here;
}

static void detach_all(const struct uro_list *blocks)
{
    for (struct uro_link *link = blocks->head.next; link != &blocks->head; link = link->next) {
        struct block *block = URO_CONTAINER_OF(link, struct block, link);
        for (uint32_t left = block->all & ~block->free; left != 0; left &= left - 1) {
            struct uro_ibv_mr *mr = &block->slots[__builtin_ctz(left)];
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
