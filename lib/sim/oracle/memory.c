/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.c - see memory.h for the contract. */
#include "sim/oracle/memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/crc32.h"

#define ALIGNMENT 64u
#define GAP_MAX   16u /* canary bytes between pieces */
#define SHIFT_MAX 64u /* sections start at any address */

/* Fills the memory around the sections, and the slots that are not filled before each use. */
static void fill_all(struct sim_memory *memory)
{
    uint32_t from = 0;

    for (unsigned i = 0; i < SIM_MEMORY_SECTIONS; i++) {
        uint32_t size = memory->sizes[i].slots * memory->sizes[i].room;
        memset(memory->memory + from, SIM_MEMORY_UNZEROED, memory->at[i] - from);
        from = memory->at[i];
        if (i != SIM_MEMORY_SENDS && i != SIM_MEMORY_RECVS && i != SIM_MEMORY_PRIVATE)
            memset(memory->memory + from, SIM_MEMORY_CANARY, size);
        if (i != SIM_MEMORY_PRIVATE)
            from += size;
    }
    memset(memory->memory + from, SIM_MEMORY_UNZEROED, memory->size - from);
}

void *sim_memory_unzeroed(size_t size)
{
    void *memory = aligned_alloc(ALIGNMENT, (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);

    URO_ASSERT(memory != NULL);
    memset(memory, SIM_MEMORY_UNZEROED, size);
    return memory;
}

void sim_memory_init(struct sim_memory *memory, const struct sim_memory_section_size *sizes,
                     uint64_t base, struct uro_rng *rng)
{
    uint32_t size = SIM_MEMORY_GUARD;
    uint32_t largest = 0;

    memset(memory, 0, sizeof *memory);
    for (unsigned i = 0; i < SIM_MEMORY_SECTIONS; i++) {
        memory->sizes[i] = sizes[i];
        size += uro_rng_below(rng, SHIFT_MAX);
        if (i == SIM_MEMORY_WORDS)
            size = (size + 7) / 8 * 8;
        memory->at[i] = size;
        size += sizes[i].slots * sizes[i].room + SIM_MEMORY_GUARD;
        if (sizes[i].room > largest)
            largest = sizes[i].room;
    }
    memory->size = size;
    memory->base = base;
    memory->memory = aligned_alloc(64, (size + 63) / 64 * 64);
    memory->scratch = malloc(largest);
    URO_ASSERT(memory->memory != NULL && memory->scratch != NULL);
    fill_all(memory);
}

void sim_memory_fini(struct sim_memory *memory)
{
    free(memory->memory);
    free(memory->scratch);
    memory->memory = memory->scratch = NULL;
}

void sim_memory_register(struct sim_memory *memory, struct uro_shard *shard,
                         enum sim_memory_section section, uint32_t pd, uint32_t access)
{
    const struct sim_memory_section_size *size = &memory->sizes[section];

    memory->keys[section] = (struct uro_key){ .pd = pd,
                                              .access = access,
                                              .base = memory->base + memory->at[section],
                                              .length = (uint64_t)size->slots * size->room,
                                              .memory = memory->memory + memory->at[section] };
    uro_key_register(shard, &memory->keys[section]);
    memory->registered[section] = true;
}

void sim_memory_deregister(struct sim_memory *memory, struct uro_shard *shard,
                           enum sim_memory_section section)
{
    if (!memory->registered[section])
        return;
    uro_key_deregister(shard, &memory->keys[section]);
    memory->registered[section] = false;
}

void sim_memory_register_again(struct sim_memory *memory, struct uro_shard *shard,
                               enum sim_memory_section section)
{
    sim_memory_deregister(memory, shard, section);
    sim_memory_register(memory, shard, section, memory->keys[section].pd,
                        memory->keys[section].access);
}

static uint32_t offset(const struct sim_memory *memory, enum sim_memory_section section,
                       uint32_t slot)
{
    URO_ASSERT(slot < memory->sizes[section].slots);
    return memory->at[section] + slot * memory->sizes[section].room;
}

uint8_t *sim_memory_slot(const struct sim_memory *memory, enum sim_memory_section section,
                         uint32_t slot)
{
    return memory->memory + offset(memory, section, slot);
}

uint64_t sim_memory_address(const struct sim_memory *memory, enum sim_memory_section section,
                            uint32_t slot)
{
    return memory->base + offset(memory, section, slot);
}

uint32_t sim_memory_room(uint32_t length, uint32_t pieces)
{
    return (length + (pieces + 1) * GAP_MAX + 7) / 8 * 8;
}

void sim_memory_scatter(struct sim_memory_layout *layout, uint32_t length, uint32_t pieces_max,
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

uint32_t sim_memory_sges(const struct sim_memory *memory, enum sim_memory_section section,
                         uint32_t slot, const struct sim_memory_layout *layout,
                         struct uro_sge *sges)
{
    for (uint32_t i = 0; i < layout->count; i++)
        sges[i] = (struct uro_sge){ .address = sim_memory_address(memory, section, slot) +
                                               layout->pieces[i].at,
                                    .length = layout->pieces[i].length,
                                    .lkey = uro_key_number(&memory->keys[section]) };
    return layout->count;
}

/* Bytes of a message come in eights, each a mix of the seed and its place. */
static uint64_t eight(uint64_t seed, uint32_t place)
{
    uint64_t x = seed + (place + 1) * UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

void sim_memory_message(uint8_t *out, uint32_t from, uint32_t length, uint64_t seed)
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

static void image(uint8_t *out, uint32_t room, const struct sim_memory_layout *layout,
                  uint32_t length, uint64_t seed)
{
    uint32_t from = 0;

    memset(out, SIM_MEMORY_CANARY, room);
    for (uint32_t i = 0; i < layout->count && from < length; i++) {
        uint32_t part = layout->pieces[i].length;
        if (part > length - from)
            part = length - from;
        URO_ASSERT(layout->pieces[i].at + part <= room);
        sim_memory_message(out + layout->pieces[i].at, from, part, seed);
        from += part;
    }
}

void sim_memory_fill(struct sim_memory *memory, enum sim_memory_section section, uint32_t slot,
                     const struct sim_memory_layout *layout, uint32_t length, uint64_t seed)
{
    image(sim_memory_slot(memory, section, slot), memory->sizes[section].room, layout, length,
          seed);
}

static bool same(const uint8_t *a, const uint8_t *b, uint32_t length, uint32_t *at)
{
    if (memcmp(a, b, length) == 0)
        return true;
    for (*at = 0; a[*at] == b[*at]; ++*at)
        ;
    return false;
}

/* Each parameter is a part of the expected content. NOLINTNEXTLINE(readability-function-size) */
bool sim_memory_check(struct sim_memory *memory, enum sim_memory_section section, uint32_t slot,
                      const struct sim_memory_layout *layout, uint32_t length, uint64_t seed,
                      uint32_t *at)
{
    uint32_t room = memory->sizes[section].room;

    image(memory->scratch, room, layout, length, seed);
    return same(sim_memory_slot(memory, section, slot), memory->scratch, room, at);
}

void sim_memory_gather(const struct sim_memory *memory, enum sim_memory_section section,
                       uint32_t slot, const struct sim_memory_layout *layout, uint8_t *out)
{
    const uint8_t *there = sim_memory_slot(memory, section, slot);

    for (uint32_t i = 0; i < layout->count; i++) {
        memcpy(out, there + layout->pieces[i].at, layout->pieces[i].length);
        out += layout->pieces[i].length;
    }
}

bool sim_memory_holds(const struct sim_memory *memory, enum sim_memory_section section,
                      uint32_t slot, const struct sim_memory_layout *layout, uint32_t length,
                      uint64_t seed)
{
    const uint8_t *there = sim_memory_slot(memory, section, slot);
    uint32_t from = 0;
    bool good = true;

    for (uint32_t i = 0; i < layout->count && from < length; i++) {
        uint32_t part = layout->pieces[i].length;
        if (part > length - from)
            part = length - from;
        sim_memory_message(memory->scratch, from, part, seed);
        good &= memcmp(there + layout->pieces[i].at, memory->scratch, part) == 0;
        from += part;
    }
    return good && from == length;
}

bool sim_memory_check_around(struct sim_memory *memory, enum sim_memory_section section,
                             uint32_t slot, const struct sim_memory_layout *layout, uint32_t *at)
{
    uint32_t room = memory->sizes[section].room;
    const uint8_t *there = sim_memory_slot(memory, section, slot);

    memset(memory->scratch, SIM_MEMORY_CANARY, room);
    for (uint32_t i = 0; i < layout->count; i++)
        memcpy(memory->scratch + layout->pieces[i].at, there + layout->pieces[i].at,
               layout->pieces[i].length);
    return same(there, memory->scratch, room, at);
}

static bool untouched(const struct sim_memory *memory, size_t from, size_t to, size_t *at)
{
    const uint8_t *there = memory->memory;

    if (from == to || (there[from] == SIM_MEMORY_UNZEROED &&
                       memcmp(there + from, there + from + 1, to - from - 1) == 0))
        return true;
    for (*at = from; there[*at] == SIM_MEMORY_UNZEROED; ++*at)
        ;
    return false;
}

bool sim_memory_check_guards(const struct sim_memory *memory, size_t *at)
{
    size_t from = 0;

    for (unsigned i = 0; i < SIM_MEMORY_SECTIONS; i++) {
        if (!untouched(memory, from, memory->at[i], at))
            return false;
        from = memory->at[i];
        if (i != SIM_MEMORY_PRIVATE)
            from += memory->sizes[i].slots * memory->sizes[i].room;
    }
    return untouched(memory, from, memory->size, at);
}

uint32_t sim_memory_sum(const struct sim_memory *memory)
{
    return uro_crc32(0, memory->memory, memory->size);
}
