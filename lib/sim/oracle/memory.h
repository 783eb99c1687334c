/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.h - tracked memory of one queue pair or shared receive queue. Every byte has known
 * content, so that every stray write is detected.
 *
 * The memory has sections, each a registered range of its own, with unregistered memory between
 * them. A section has slots. A slot holds one message, scattered over pieces. All other bytes of a
 * slot have the canary value. The addresses in work requests come from the seed, not from the
 * addresses of the process. So a run can be repeated byte for byte.
 */
#pragma once

#include <uroce/objects.h>

#include "base/defs.h"
#include "base/rng.h"

#define SIM_MEMORY_CANARY   0xc5u
#define SIM_MEMORY_UNZEROED 0xa5u
#define SIM_MEMORY_GUARD    128u /* unregistered bytes around each section */

enum sim_memory_section {
    SIM_MEMORY_SENDS,   /* local buffers of send queue requests */
    SIM_MEMORY_RECVS,   /* receive buffers */
    SIM_MEMORY_WINDOWS, /* memory for the peer's WRITEs and READs */
    /* Words for the peer's atomics; attacked endpoints: memory that a peer may only read. */
    SIM_MEMORY_WORDS,
    SIM_MEMORY_FILLED,  /* attacked endpoints: memory that a peer may write, but not read */
    SIM_MEMORY_PRIVATE, /* peers have no rights: never accessed */
    SIM_MEMORY_SECTIONS
};

/* The plan of a section. */
struct sim_memory_section_size {
    uint32_t slots;
    uint32_t slot_size; /* bytes of a slot */
    uint32_t access;    /* rights of its region */
};

struct sim_memory {
    uint8_t *memory; /* owned */
    size_t size;
    uint64_t base; /* address of memory[0] in work requests */
    uint32_t offsets[SIM_MEMORY_SECTIONS];
    struct sim_memory_section_size sizes[SIM_MEMORY_SECTIONS];
    struct sim_memory_region {
        struct uroce_mr *mr; /* owned; NULL: not registered */
        struct uroce_pd *pd;
        uint32_t key; /* key of the last registration */
    } regions[SIM_MEMORY_SECTIONS];
    uint8_t *scratch; /* owned; has the size of the largest slot */
};

/* The bytes of one message: pieces inside a slot, in message order. */
struct sim_buffer {
    struct sim_memory *memory;
    enum sim_memory_section section;
    uint32_t slot;
    uint32_t count;
    struct {
        uint32_t offset;
        uint32_t length;
    } pieces[UROCE_SGE_MAX];
};

/* Allocates the memory. No section is registered yet. @base is a multiple of 4096. */
void sim_memory_init(struct sim_memory *memory, const struct sim_memory_section_size *sizes,
                     uint64_t base, struct uro_rng *rng);
void sim_memory_fini(struct sim_memory *memory);

void sim_memory_register(struct sim_memory *memory, enum sim_memory_section section,
                         struct uroce_pd *pd);
/* Registers the section again with another key and the same rights, if it was ever registered. */
void sim_memory_register_again(struct sim_memory *memory, enum sim_memory_section section);
/* Deregisters the section, if it is registered. */
void sim_memory_deregister(struct sim_memory *memory, enum sim_memory_section section);

/* Returns the newest key of the section, even if the section is deregistered. */
static inline uint32_t sim_memory_key(const struct sim_memory *memory,
                                      enum sim_memory_section section)
{
    return memory->regions[section].key;
}

uint8_t *sim_memory_slot(const struct sim_memory *memory, enum sim_memory_section section,
                         uint32_t slot);
uint64_t sim_memory_address(const struct sim_memory *memory, enum sim_memory_section section,
                            uint32_t slot);

/* Returns the size of a slot for a message of @length bytes in at most @pieces pieces. */
uint32_t sim_memory_slot_size(uint32_t length, uint32_t pieces);

/* Returns a buffer without pieces. */
static inline struct sim_buffer sim_buffer_at(struct sim_memory *memory,
                                              enum sim_memory_section section, uint32_t slot)
{
    return (struct sim_buffer){ .memory = memory, .section = section, .slot = slot };
}

/* Divides @length bytes into 1 to @pieces_max pieces; 0 bytes may have no piece. */
void sim_buffer_scatter(struct sim_buffer *buffer, uint32_t length, uint32_t pieces_max,
                        struct uro_rng *rng);
/* Writes the work request elements of the pieces. Returns the number of elements. */
uint32_t sim_buffer_sges(const struct sim_buffer *buffer, struct uroce_sge *sges);
/* Fills the slot with canary bytes, and its pieces with the first @length bytes of message
 * @seed. */
void sim_buffer_fill(const struct sim_buffer *buffer, uint32_t length, uint64_t seed);
/* Returns true when the slot has the content of sim_buffer_fill(). */
bool sim_buffer_check(const struct sim_buffer *buffer, uint32_t length, uint64_t seed);
/* Returns true when all bytes outside the pieces are canary. */
bool sim_buffer_check_around(const struct sim_buffer *buffer);
/* Copies the bytes of all pieces, one piece after the other. */
void sim_buffer_gather(const struct sim_buffer *buffer, uint8_t *out);
/* Returns true when the pieces begin with the message. */
bool sim_buffer_holds(const struct sim_buffer *buffer, uint32_t length, uint64_t seed);

/* Returns true if no byte outside the sections, or in the private section, was ever written.
 * Otherwise writes the offset of the first such byte to @offset. */
bool sim_memory_check_guards(const struct sim_memory *memory, size_t *offset);

/* Writes bytes of message @seed. */
void sim_memory_message(uint8_t *out, uint32_t from, uint32_t length, uint64_t seed);

/* Returns a checksum, to check later that the memory did not change. */
uint32_t sim_memory_sum(const struct sim_memory *memory);
