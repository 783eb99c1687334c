/* SPDX-License-Identifier: BSD-3-Clause */
/* arena.h - the memory of one queue pair: known content everywhere, so that any stray octet shows.
 *
 * An arena is cut into sections, each its own registered range, with unregistered memory between
 * them. A section is cut into slots; a slot holds one message, scattered over pieces. All that is
 * not a piece is canary. The addresses that go into work requests are not those of the process:
 * they come from the seed, so that a run is the same octet for octet.
 */
#pragma once

#include "base/rng.h"
#include "core/key.h"
#include "core/limits.h"
#include "core/work.h"

#define URO_ARENA_CANARY 0xc5u
#define URO_ARENA_GUARD  128u /* unregistered octets around each section */

enum uro_arena_section {
    URO_ARENA_SENDS,   /* what is sent, where READs and atomics return to */
    URO_ARENA_RECVS,   /* receive buffers */
    URO_ARENA_WINDOWS, /* the peer's WRITEs and READs */
    URO_ARENA_WORDS,   /* the peer's atomics */
    URO_ARENA_PRIVATE, /* no remote rights: nobody may touch it */
    URO_ARENA_SECTIONS
};

struct uro_arena_section_size {
    uint32_t slots;
    uint32_t room; /* octets of a slot */
};

struct uro_arena {
    uint8_t *memory; /* owned */
    size_t size;
    uint64_t base; /* the address that work requests use for memory[0] */
    uint32_t at[URO_ARENA_SECTIONS];
    struct uro_arena_section_size sizes[URO_ARENA_SECTIONS];
    struct uro_key keys[URO_ARENA_SECTIONS];
    bool registered[URO_ARENA_SECTIONS];
    uint8_t *scratch; /* owned; the largest slot */
};

/* The pieces of a message inside its slot, in message order. */
struct uro_arena_layout {
    uint32_t count;
    struct {
        uint32_t at;
        uint32_t length;
    } pieces[URO_SGE_MAX];
};

/* All canary, nothing registered. @base is a multiple of 4096. */
void uro_arena_init(struct uro_arena *arena, const struct uro_arena_section_size *sizes,
                    uint64_t base, struct uro_rng *rng);
void uro_arena_fini(struct uro_arena *arena);

void uro_arena_register(struct uro_arena *arena, struct uro_shard *shard,
                        enum uro_arena_section section, uint32_t pd, uint32_t access);
/* With another key, for the same as before. */
void uro_arena_register_again(struct uro_arena *arena, struct uro_shard *shard,
                              enum uro_arena_section section);
/* Harmless when not registered. */
void uro_arena_deregister(struct uro_arena *arena, struct uro_shard *shard,
                          enum uro_arena_section section);

uint8_t *uro_arena_slot(const struct uro_arena *arena, enum uro_arena_section section,
                        uint32_t slot);
uint64_t uro_arena_address(const struct uro_arena *arena, enum uro_arena_section section,
                           uint32_t slot);

/* Octets a slot needs for a message of @length in at most @pieces pieces. */
uint32_t uro_arena_room(uint32_t length, uint32_t pieces);

/* Spreads @length octets over 1 .. @pieces_max pieces (0 octets: over 0 .. @pieces_max). */
void uro_arena_scatter(struct uro_arena_layout *layout, uint32_t length, uint32_t pieces_max,
                       struct uro_rng *rng);

/* Work request elements for the layout; returns how many. */
uint32_t uro_arena_sges(const struct uro_arena *arena, enum uro_arena_section section,
                        uint32_t slot, const struct uro_arena_layout *layout, struct uro_sge *sges);

/* Fills the slot: canary, and in the pieces the first @length octets of the message @seed. */
void uro_arena_fill(struct uro_arena *arena, enum uro_arena_section section, uint32_t slot,
                    const struct uro_arena_layout *layout, uint32_t length, uint64_t seed);

/* True when the slot is as uro_arena_fill() would make it; else @at is the first wrong octet. */
bool uro_arena_check(struct uro_arena *arena, enum uro_arena_section section, uint32_t slot,
                     const struct uro_arena_layout *layout, uint32_t length, uint64_t seed,
                     uint32_t *at);

/* The octets of all pieces, one after the other. */
void uro_arena_gather(const struct uro_arena *arena, enum uro_arena_section section, uint32_t slot,
                      const struct uro_arena_layout *layout, uint8_t *out);

/* True when the pieces hold the message, whatever is behind it in them. */
bool uro_arena_holds(const struct uro_arena *arena, enum uro_arena_section section, uint32_t slot,
                     const struct uro_arena_layout *layout, uint32_t length, uint64_t seed);

/* True when all but the pieces is canary. */
bool uro_arena_check_around(struct uro_arena *arena, enum uro_arena_section section, uint32_t slot,
                            const struct uro_arena_layout *layout, uint32_t *at);

/* True when no octet outside the sections, and none of the private section, was ever written. */
bool uro_arena_check_guards(const struct uro_arena *arena, size_t *at);

/* The octets of message @seed. */
void uro_arena_message(uint8_t *out, uint32_t from, uint32_t length, uint64_t seed);

/* For "nothing wrote here since". */
uint32_t uro_arena_sum(const struct uro_arena *arena);
