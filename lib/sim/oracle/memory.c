/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.c - see memory.h for the contract. */
#include "sim/oracle/memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/crc32.h"
#include "wire/bytes.h"

#define GAP_MAX   16u /* canary bytes between pieces */
#define SHIFT_MAX 64u /* largest shift of a section, so that sections start at any address */

/* Fills the memory around the sections, and the slots that are not filled before each use. */
static void fill_all(struct sim_memory *memory)
{
    uint32_t from = 0;

    for (unsigned i = 0; i < SIM_MEMORY_SECTIONS; i++) {
        uint32_t size = memory->sizes[i].slots * memory->sizes[i].slot_size;
        memset(memory->memory + from, SIM_MEMORY_UNZEROED, memory->offsets[i] - from);
        from = memory->offsets[i];
        if (i != SIM_MEMORY_SENDS && i != SIM_MEMORY_RECVS && i != SIM_MEMORY_PRIVATE)
            memset(memory->memory + from, SIM_MEMORY_CANARY, size);
        if (i != SIM_MEMORY_PRIVATE)
            from += size;
    }
    memset(memory->memory + from, SIM_MEMORY_UNZEROED, memory->size - from);
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
        memory->offsets[i] = size;
        size += sizes[i].slots * sizes[i].slot_size + SIM_MEMORY_GUARD;
        if (sizes[i].slot_size > largest)
            largest = sizes[i].slot_size;
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
    for (unsigned i = 0; i < SIM_MEMORY_SECTIONS; i++)
        sim_memory_deregister(memory, i);
    free(memory->memory);
    free(memory->scratch);
    memory->memory = memory->scratch = NULL;
}

void sim_memory_register(struct sim_memory *memory, enum sim_memory_section section,
                         struct uroce_pd *pd, uint32_t access)
{
    const struct sim_memory_section_size *size = &memory->sizes[section];
    struct sim_memory_region *region = &memory->regions[section];
    const uint32_t start = memory->offsets[section];

    *region = (struct sim_memory_region){ .pd = pd, .access = access };
    int result =
        uroce_mr_create_at(pd, memory->memory + start, (size_t)size->slots * size->slot_size,
                           memory->base + start, access, &region->mr);
    URO_ASSERT(result == 0);
    region->key = uroce_mr_key(region->mr);
}

void sim_memory_deregister(struct sim_memory *memory, enum sim_memory_section section)
{
    struct sim_memory_region *region = &memory->regions[section];

    if (region->mr == NULL)
        return;
    int result = uroce_mr_destroy(region->mr);
    URO_ASSERT(result == 0);
    region->mr = NULL;
}

void sim_memory_register_again(struct sim_memory *memory, enum sim_memory_section section)
{
    const struct sim_memory_region *region = &memory->regions[section];

    if (region->pd == NULL)
        return;
    sim_memory_deregister(memory, section);
    sim_memory_register(memory, section, region->pd, region->access);
}

static uint32_t offset(const struct sim_memory *memory, enum sim_memory_section section,
                       uint32_t slot)
{
    URO_ASSERT(slot < memory->sizes[section].slots);
    return memory->offsets[section] + slot * memory->sizes[section].slot_size;
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

uint32_t sim_memory_slot_size(uint32_t length, uint32_t pieces)
{
    return (length + (pieces + 1) * GAP_MAX + 7) / 8 * 8;
}

void sim_memory_scatter(struct sim_memory_layout *layout, uint32_t length, uint32_t pieces_max,
                        struct uro_rng *rng)
{
    uint32_t least = length > 0 ? 1 : 0;
    uint32_t offset = 0;

    URO_ASSERT(pieces_max >= least && pieces_max <= UROCE_SGE_MAX);
    layout->count = least + uro_rng_below(rng, pieces_max - least + 1);
    for (uint32_t i = 0; i < layout->count; i++) {
        uint32_t part = length;
        if (i + 1 < layout->count)
            part = uro_rng_below(rng, length + 1);
        length -= part;
        offset += uro_rng_below(rng, GAP_MAX);
        layout->pieces[i].offset = offset;
        layout->pieces[i].length = part;
        offset += part;
    }
}

uint32_t sim_memory_sges(const struct sim_memory *memory, enum sim_memory_section section,
                         uint32_t slot, const struct sim_memory_layout *layout,
                         struct uroce_sge *sges)
{
    for (uint32_t i = 0; i < layout->count; i++)
        sges[i] = (struct uroce_sge){ .address = sim_memory_address(memory, section, slot) +
                                                 layout->pieces[i].offset,
                                      .length = layout->pieces[i].length,
                                      .key = sim_memory_key(memory, section) };
    return layout->count;
}

/* Returns 8 bytes of a message, computed from the seed and from the index of the 8 bytes. */
static uint64_t eight(uint64_t seed, uint32_t offset)
{
    uint64_t x = seed + (offset + 1) * UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

void sim_memory_message(uint8_t *out, uint32_t from, uint32_t length, uint64_t seed)
{
    for (uint32_t i = 0; i < length;) {
        uint32_t offset = from + i;
        uint64_t bytes = eight(seed, offset / 8) >> offset % 8 * 8;
        if (offset % 8 == 0 && length - i >= 8) { /* the usual case */
            uro_put_le32(out + i, (uint32_t)bytes);
            uro_put_le32(out + i + 4, (uint32_t)(bytes >> 32));
            i += 8;
            continue;
        }
        for (uint32_t j = offset % 8; j < 8 && i < length; j++, i++) {
            out[i] = (uint8_t)bytes;
            bytes >>= 8;
        }
    }
}

static void image(uint8_t *out, uint32_t size, const struct sim_memory_layout *layout,
                  uint32_t length, uint64_t seed)
{
    uint32_t from = 0;

    memset(out, SIM_MEMORY_CANARY, size);
    for (uint32_t i = 0; i < layout->count && from < length; i++) {
        uint32_t part = layout->pieces[i].length;
        if (part > length - from)
            part = length - from;
        URO_ASSERT(layout->pieces[i].offset + part <= size);
        sim_memory_message(out + layout->pieces[i].offset, from, part, seed);
        from += part;
    }
}

void sim_memory_fill(struct sim_memory *memory, enum sim_memory_section section, uint32_t slot,
                     const struct sim_memory_layout *layout, uint32_t length, uint64_t seed)
{
    image(sim_memory_slot(memory, section, slot), memory->sizes[section].slot_size, layout, length,
          seed);
}

bool sim_memory_check(struct sim_memory *memory, enum sim_memory_section section, uint32_t slot,
                      const struct sim_memory_layout *layout, uint32_t length, uint64_t seed)
{
    uint32_t size = memory->sizes[section].slot_size;

    image(memory->scratch, size, layout, length, seed);
    return memcmp(sim_memory_slot(memory, section, slot), memory->scratch, size) == 0;
}

void sim_memory_gather(const struct sim_memory *memory, enum sim_memory_section section,
                       uint32_t slot, const struct sim_memory_layout *layout, uint8_t *out)
{
    const uint8_t *there = sim_memory_slot(memory, section, slot);

    for (uint32_t i = 0; i < layout->count; i++) {
        memcpy(out, there + layout->pieces[i].offset, layout->pieces[i].length);
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
        good &= memcmp(there + layout->pieces[i].offset, memory->scratch, part) == 0;
        from += part;
    }
    return good && from == length;
}

bool sim_memory_check_around(struct sim_memory *memory, enum sim_memory_section section,
                             uint32_t slot, const struct sim_memory_layout *layout)
{
    uint32_t size = memory->sizes[section].slot_size;
    const uint8_t *there = sim_memory_slot(memory, section, slot);

    memset(memory->scratch, SIM_MEMORY_CANARY, size);
    for (uint32_t i = 0; i < layout->count; i++)
        memcpy(memory->scratch + layout->pieces[i].offset, there + layout->pieces[i].offset,
               layout->pieces[i].length);
    return memcmp(there, memory->scratch, size) == 0;
}

static bool untouched(const struct sim_memory *memory, size_t from, size_t to, size_t *offset)
{
    const uint8_t *there = memory->memory;

    if (from == to || (there[from] == SIM_MEMORY_UNZEROED &&
                       memcmp(there + from, there + from + 1, to - from - 1) == 0))
        return true;
    for (*offset = from; there[*offset] == SIM_MEMORY_UNZEROED; ++*offset)
        ;
    return false;
}

bool sim_memory_check_guards(const struct sim_memory *memory, size_t *offset)
{
    size_t from = 0;

    for (unsigned i = 0; i < SIM_MEMORY_SECTIONS; i++) {
        if (!untouched(memory, from, memory->offsets[i], offset))
            return false;
        from = memory->offsets[i];
        if (i != SIM_MEMORY_PRIVATE)
            from += memory->sizes[i].slots * memory->sizes[i].slot_size;
    }
    return untouched(memory, from, memory->size, offset);
}

uint32_t sim_memory_sum(const struct sim_memory *memory)
{
    return uro_crc32(0, memory->memory, memory->size);
}
