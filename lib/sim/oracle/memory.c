/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.c - see memory.h for the contract. */
#include "sim/oracle/memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/crc32.h"
#include "sim/net/world.h"
#include "wire/bytes.h"

#define GAP_MAX   16u /* limit of the canary bytes between two pieces */
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
                         struct uroce_pd *pd)
{
    const struct sim_memory_section_size *size = &memory->sizes[section];
    struct sim_memory_region *region = &memory->regions[section];
    const uint32_t start = memory->offsets[section];

    *region = (struct sim_memory_region){ .pd = pd };
    sim_must(uroce_mr_create_at(pd, memory->memory + start, (size_t)size->slots * size->slot_size,
                                memory->base + start, size->access, &region->mr));
    region->key = uroce_mr_key(region->mr);
}

void sim_memory_deregister(struct sim_memory *memory, enum sim_memory_section section)
{
    struct sim_memory_region *region = &memory->regions[section];

    if (region->mr == NULL)
        return;
    sim_must(uroce_mr_destroy(region->mr));
    region->mr = NULL;
}

void sim_memory_register_again(struct sim_memory *memory, enum sim_memory_section section)
{
    const struct sim_memory_region *region = &memory->regions[section];

    if (region->pd == NULL)
        return;
    sim_memory_deregister(memory, section);
    sim_memory_register(memory, section, region->pd);
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

/* ---- buffers ---- */

void sim_buffer_scatter(struct sim_buffer *buffer, uint32_t length, uint32_t pieces_max,
                        struct uro_rng *rng)
{
    uint32_t least = length > 0 ? 1 : 0;
    uint32_t offset = 0;

    URO_ASSERT(pieces_max >= least && pieces_max <= UROCE_SGE_MAX);
    buffer->count = least + uro_rng_below(rng, pieces_max - least + 1);
    for (uint32_t i = 0; i < buffer->count; i++) {
        uint32_t part = length;
        if (i + 1 < buffer->count)
            part = uro_rng_below(rng, length + 1);
        length -= part;
        offset += uro_rng_below(rng, GAP_MAX);
        buffer->pieces[i].offset = offset;
        buffer->pieces[i].length = part;
        offset += part;
    }
}

uint32_t sim_buffer_sges(const struct sim_buffer *buffer, struct uroce_sge *sges)
{
    uint64_t address = sim_memory_address(buffer->memory, buffer->section, buffer->slot);

    for (uint32_t i = 0; i < buffer->count; i++)
        sges[i] = (struct uroce_sge){ .address = address + buffer->pieces[i].offset,
                                      .length = buffer->pieces[i].length,
                                      .key = sim_memory_key(buffer->memory, buffer->section) };
    return buffer->count;
}

static uint8_t *slot_of(const struct sim_buffer *buffer)
{
    return sim_memory_slot(buffer->memory, buffer->section, buffer->slot);
}

static uint32_t size_of(const struct sim_buffer *buffer)
{
    return buffer->memory->sizes[buffer->section].slot_size;
}

/* Returns how many bytes of piece @index are before byte @length of the message. @from is the index
 * of the piece's first byte in the message. */
static uint32_t part_of(const struct sim_buffer *buffer, uint32_t index, uint32_t from,
                        uint32_t length)
{
    uint32_t part = buffer->pieces[index].length;

    return part < length - from ? part : length - from;
}

static void image(const struct sim_buffer *buffer, uint8_t *out, uint32_t length, uint64_t seed)
{
    uint32_t from = 0;

    memset(out, SIM_MEMORY_CANARY, size_of(buffer));
    for (uint32_t i = 0; i < buffer->count && from < length; i++) {
        uint32_t part = part_of(buffer, i, from, length);
        URO_ASSERT(buffer->pieces[i].offset + part <= size_of(buffer));
        sim_memory_message(out + buffer->pieces[i].offset, from, part, seed);
        from += part;
    }
}

void sim_buffer_fill(const struct sim_buffer *buffer, uint32_t length, uint64_t seed)
{
    image(buffer, slot_of(buffer), length, seed);
}

bool sim_buffer_check(const struct sim_buffer *buffer, uint32_t length, uint64_t seed)
{
    image(buffer, buffer->memory->scratch, length, seed);
    return memcmp(slot_of(buffer), buffer->memory->scratch, size_of(buffer)) == 0;
}

bool sim_buffer_check_around(const struct sim_buffer *buffer)
{
    const uint8_t *there = slot_of(buffer);
    uint8_t *scratch = buffer->memory->scratch;

    memset(scratch, SIM_MEMORY_CANARY, size_of(buffer));
    for (uint32_t i = 0; i < buffer->count; i++)
        memcpy(scratch + buffer->pieces[i].offset, there + buffer->pieces[i].offset,
               buffer->pieces[i].length);
    return memcmp(there, scratch, size_of(buffer)) == 0;
}

void sim_buffer_gather(const struct sim_buffer *buffer, uint8_t *out)
{
    for (uint32_t i = 0; i < buffer->count; i++) {
        memcpy(out, slot_of(buffer) + buffer->pieces[i].offset, buffer->pieces[i].length);
        out += buffer->pieces[i].length;
    }
}

bool sim_buffer_holds(const struct sim_buffer *buffer, uint32_t length, uint64_t seed)
{
    uint8_t *scratch = buffer->memory->scratch;
    uint32_t from = 0;
    bool good = true;

    for (uint32_t i = 0; i < buffer->count && from < length; i++) {
        uint32_t part = part_of(buffer, i, from, length);
        sim_memory_message(scratch, from, part, seed);
        good &= memcmp(slot_of(buffer) + buffer->pieces[i].offset, scratch, part) == 0;
        from += part;
    }
    return good && from == length;
}
