/* SPDX-License-Identifier: BSD-3-Clause */
/* arena.c - see arena.h for the contract. */
#include "io/sim/arena.h"

#include <stdlib.h>
#include <string.h>

#include "base/crc32.h"

#define GAP_MAX   16u /* canary octets between pieces */
#define SHIFT_MAX 64u /* sections start at any address */

/* Slots that are filled each time before anybody may use them are left out. */
static void fill_all(struct uro_arena *arena)
{
    uint32_t from = 0;

    for (unsigned i = 0; i < URO_ARENA_SECTIONS; i++) {
        if (i != URO_ARENA_SENDS && i != URO_ARENA_RECVS)
            continue;
        memset(arena->memory + from, URO_ARENA_CANARY, arena->at[i] - from);
        from = arena->at[i] + arena->sizes[i].slots * arena->sizes[i].room;
    }
    memset(arena->memory + from, URO_ARENA_CANARY, arena->size - from);
}

void uro_arena_init(struct uro_arena *arena, const struct uro_arena_section_size *sizes,
                    uint64_t base, struct uro_rng *rng)
{
    uint32_t size = URO_ARENA_GUARD;
    uint32_t largest = 0;

    memset(arena, 0, sizeof *arena);
    for (unsigned i = 0; i < URO_ARENA_SECTIONS; i++) {
        arena->sizes[i] = sizes[i];
        size += uro_rng_below(rng, SHIFT_MAX);
        if (i == URO_ARENA_WORDS)
            size = (size + 7) / 8 * 8;
        arena->at[i] = size;
        size += sizes[i].slots * sizes[i].room + URO_ARENA_GUARD;
        if (sizes[i].room > largest)
            largest = sizes[i].room;
    }
    arena->size = size;
    arena->base = base;
    arena->memory = aligned_alloc(64, (size + 63) / 64 * 64);
    arena->scratch = malloc(largest);
    URO_ASSERT(arena->memory != NULL && arena->scratch != NULL);
    fill_all(arena);
}

void uro_arena_fini(struct uro_arena *arena)
{
    free(arena->memory);
    free(arena->scratch);
    arena->memory = arena->scratch = NULL;
}

void uro_arena_register(struct uro_arena *arena, struct uro_shard *shard,
                        enum uro_arena_section section, uint32_t pd, uint32_t access)
{
    const struct uro_arena_section_size *size = &arena->sizes[section];

    arena->keys[section] = (struct uro_key){ .pd = pd,
                                             .access = access,
                                             .base = arena->base + arena->at[section],
                                             .length = (uint64_t)size->slots * size->room,
                                             .memory = arena->memory + arena->at[section] };
    uro_key_register(shard, &arena->keys[section]);
    arena->registered[section] = true;
}

void uro_arena_deregister(struct uro_arena *arena, struct uro_shard *shard,
                          enum uro_arena_section section)
{
    if (!arena->registered[section])
        return;
    uro_key_deregister(shard, &arena->keys[section]);
    arena->registered[section] = false;
}

void uro_arena_register_again(struct uro_arena *arena, struct uro_shard *shard,
                              enum uro_arena_section section)
{
    uro_arena_deregister(arena, shard, section);
    uro_arena_register(arena, shard, section, arena->keys[section].pd, arena->keys[section].access);
}

static uint32_t offset(const struct uro_arena *arena, enum uro_arena_section section, uint32_t slot)
{
    URO_ASSERT(slot < arena->sizes[section].slots);
    return arena->at[section] + slot * arena->sizes[section].room;
}

uint8_t *uro_arena_slot(const struct uro_arena *arena, enum uro_arena_section section,
                        uint32_t slot)
{
    return arena->memory + offset(arena, section, slot);
}

uint64_t uro_arena_address(const struct uro_arena *arena, enum uro_arena_section section,
                           uint32_t slot)
{
    return arena->base + offset(arena, section, slot);
}

uint32_t uro_arena_room(uint32_t length, uint32_t pieces)
{
    return (length + (pieces + 1) * GAP_MAX + 7) / 8 * 8;
}

void uro_arena_scatter(struct uro_arena_layout *layout, uint32_t length, uint32_t pieces_max,
                       struct uro_rng *rng)
{
    uint32_t least = length > 0 ? 1 : 0;
    uint32_t at = 0;

    URO_ASSERT(pieces_max >= least && pieces_max <= URO_SGE_MAX);
    layout->count = least + uro_rng_below(rng, pieces_max - least + 1);
    for (uint32_t i = 0; i < layout->count; i++) {
        uint32_t part = length;
        if (i + 1 < layout->count)
            part = uro_rng_below(rng, length + 1);
        length -= part;
        at += uro_rng_below(rng, GAP_MAX);
        layout->pieces[i].at = at;
        layout->pieces[i].length = part;
        at += part;
    }
}

uint32_t uro_arena_sges(const struct uro_arena *arena, enum uro_arena_section section,
                        uint32_t slot, const struct uro_arena_layout *layout, struct uro_sge *sges)
{
    for (uint32_t i = 0; i < layout->count; i++)
        sges[i] = (struct uro_sge){ .address = uro_arena_address(arena, section, slot) +
                                               layout->pieces[i].at,
                                    .length = layout->pieces[i].length,
                                    .lkey = uro_key_number(&arena->keys[section]) };
    return layout->count;
}

/* Octets of a message come in eights, each a mix of the seed and its place. */
static uint64_t eight(uint64_t seed, uint32_t place)
{
    uint64_t x = seed + (place + 1) * UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

void uro_arena_message(uint8_t *out, uint32_t from, uint32_t length, uint64_t seed)
{
    for (uint32_t i = 0; i < length;) {
        uint32_t place = from + i;
        uint64_t octets = eight(seed, place / 8) >> place % 8 * 8;
        if (place % 8 == 0 && length - i >= 8) { /* most of them */
            for (uint32_t j = 0; j < 8; j++)
                out[i + j] = (uint8_t)(octets >> 8 * j);
            i += 8;
            continue;
        }
        for (uint32_t j = place % 8; j < 8 && i < length; j++, i++) {
            out[i] = (uint8_t)octets;
            octets >>= 8;
        }
    }
}

static void image(uint8_t *out, uint32_t room, const struct uro_arena_layout *layout,
                  uint32_t length, uint64_t seed)
{
    uint32_t from = 0;

    memset(out, URO_ARENA_CANARY, room);
    for (uint32_t i = 0; i < layout->count && from < length; i++) {
        uint32_t part = layout->pieces[i].length;
        if (part > length - from)
            part = length - from;
        URO_ASSERT(layout->pieces[i].at + part <= room);
        uro_arena_message(out + layout->pieces[i].at, from, part, seed);
        from += part;
    }
}

void uro_arena_fill(struct uro_arena *arena, enum uro_arena_section section, uint32_t slot,
                    const struct uro_arena_layout *layout, uint32_t length, uint64_t seed)
{
    image(uro_arena_slot(arena, section, slot), arena->sizes[section].room, layout, length, seed);
}

static bool same(const uint8_t *a, const uint8_t *b, uint32_t length, uint32_t *at)
{
    if (memcmp(a, b, length) == 0)
        return true;
    for (*at = 0; a[*at] == b[*at]; ++*at)
        ;
    return false;
}

/* What must stand where: each parameter is one of its words. NOLINTNEXTLINE(readability-function-size) */
bool uro_arena_check(struct uro_arena *arena, enum uro_arena_section section, uint32_t slot,
                     const struct uro_arena_layout *layout, uint32_t length, uint64_t seed,
                     uint32_t *at)
{
    uint32_t room = arena->sizes[section].room;

    image(arena->scratch, room, layout, length, seed);
    return same(uro_arena_slot(arena, section, slot), arena->scratch, room, at);
}

void uro_arena_gather(const struct uro_arena *arena, enum uro_arena_section section, uint32_t slot,
                      const struct uro_arena_layout *layout, uint8_t *out)
{
    const uint8_t *there = uro_arena_slot(arena, section, slot);

    for (uint32_t i = 0; i < layout->count; i++) {
        memcpy(out, there + layout->pieces[i].at, layout->pieces[i].length);
        out += layout->pieces[i].length;
    }
}

bool uro_arena_holds(const struct uro_arena *arena, enum uro_arena_section section, uint32_t slot,
                     const struct uro_arena_layout *layout, uint32_t length, uint64_t seed)
{
    const uint8_t *there = uro_arena_slot(arena, section, slot);
    uint32_t from = 0;
    bool good = true;

    for (uint32_t i = 0; i < layout->count && from < length; i++) {
        uint32_t part = layout->pieces[i].length;
        if (part > length - from)
            part = length - from;
        uro_arena_message(arena->scratch, from, part, seed);
        good &= memcmp(there + layout->pieces[i].at, arena->scratch, part) == 0;
        from += part;
    }
    return good && from == length;
}

bool uro_arena_check_around(struct uro_arena *arena, enum uro_arena_section section, uint32_t slot,
                            const struct uro_arena_layout *layout, uint32_t *at)
{
    uint32_t room = arena->sizes[section].room;
    const uint8_t *there = uro_arena_slot(arena, section, slot);

    memset(arena->scratch, URO_ARENA_CANARY, room);
    for (uint32_t i = 0; i < layout->count; i++)
        memcpy(arena->scratch + layout->pieces[i].at, there + layout->pieces[i].at,
               layout->pieces[i].length);
    return same(there, arena->scratch, room, at);
}

static bool canary(const struct uro_arena *arena, size_t from, size_t to, size_t *at)
{
    const uint8_t *there = arena->memory;

    if (from == to || (there[from] == URO_ARENA_CANARY &&
                       memcmp(there + from, there + from + 1, to - from - 1) == 0))
        return true;
    for (*at = from; there[*at] == URO_ARENA_CANARY; ++*at)
        ;
    return false;
}

bool uro_arena_check_guards(const struct uro_arena *arena, size_t *at)
{
    size_t from = 0;

    for (unsigned i = 0; i < URO_ARENA_SECTIONS; i++) {
        if (!canary(arena, from, arena->at[i], at))
            return false;
        from = arena->at[i];
        if (i != URO_ARENA_PRIVATE)
            from += arena->sizes[i].slots * arena->sizes[i].room;
    }
    return canary(arena, from, arena->size, at);
}

uint32_t uro_arena_sum(const struct uro_arena *arena)
{
    return uro_crc32(0, arena->memory, arena->size);
}
