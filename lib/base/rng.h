/* SPDX-License-Identifier: BSD-3-Clause */
/* rng.h - random numbers from a seed: the same seed gives the same numbers.
 *
 * The generator is ChaCha20 in counter mode. Numbers that a peer has seen (QPNs, keys, PSNs) do not
 * reveal the next numbers.
 */
#pragma once

#include "base/defs.h"

#define URO_RNG_SEED_BYTES 32u

struct uro_rng {
    uint32_t key[8];
    uint64_t counter;
    uint32_t block[16];
    uint32_t used; /* words of `block` that were already returned, 0..16 */
};

void uro_rng_init(struct uro_rng *rng, const uint8_t seed[static URO_RNG_SEED_BYTES]);

/* Seeds the generator with a number. For simulators and tests. */
void uro_rng_init_number(struct uro_rng *rng, uint64_t seed);

uint32_t uro_rng_u32(struct uro_rng *rng);
uint64_t uro_rng_u64(struct uro_rng *rng);

/* Returns a random number 0 .. bound - 1, without bias. @bound is not 0. */
uint32_t uro_rng_below(struct uro_rng *rng, uint32_t bound);
