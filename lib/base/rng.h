/* SPDX-License-Identifier: BSD-3-Clause */
/* rng.h - seeded randomness: the same seed gives the same numbers.
 *
 * ChaCha20 in counter mode: numbers seen on the wire (QPNs, keys, PSNs) do not reveal the next.
 */
#pragma once

#include "base/defs.h"

#define URO_RNG_SEED_OCTETS 32u

struct uro_rng {
    uint32_t key[8];
    uint64_t counter;
    uint32_t block[16];
    uint32_t used; /* words of block already given out, 0..16 */
};

void uro_rng_init(struct uro_rng *rng, const uint8_t seed[static URO_RNG_SEED_OCTETS]);

/* For simulators and tests: the seed is one number. */
void uro_rng_init_number(struct uro_rng *rng, uint64_t seed);

uint32_t uro_rng_u32(struct uro_rng *rng);
uint64_t uro_rng_u64(struct uro_rng *rng);

/* 0 .. bound - 1, without bias. @bound is not 0. */
uint32_t uro_rng_below(struct uro_rng *rng, uint32_t bound);
