/* SPDX-License-Identifier: BSD-3-Clause */
/* rng.c - ChaCha20 blocks handed out word by word; see rng.h.
 *
 * State: four constant words, eight key words, a 64-bit block counter, a nonce of zero. The key
 * is never used for anything else, so no nonce is needed.
 */
#include "base/rng.h"

#include <string.h>

#define WORDS         16u
#define DOUBLE_ROUNDS 10

static uint32_t rotl(uint32_t v, unsigned by)
{
    return v << by | v >> (32 - by);
}

static void quarter(uint32_t x[static WORDS], unsigned a, unsigned b, unsigned c, unsigned d)
{
    x[a] += x[b], x[d] = rotl(x[d] ^ x[a], 16);
    x[c] += x[d], x[b] = rotl(x[b] ^ x[c], 12);
    x[a] += x[b], x[d] = rotl(x[d] ^ x[a], 8);
    x[c] += x[d], x[b] = rotl(x[b] ^ x[c], 7);
}

static void refill(struct uro_rng *rng)
{
    uint32_t start[WORDS] = { 0x61707865, 0x3320646e, 0x79622d32, 0x6b206574 };
    uint32_t x[WORDS];

    memcpy(&start[4], rng->key, sizeof rng->key);
    start[12] = (uint32_t)rng->counter;
    start[13] = (uint32_t)(rng->counter >> 32);
    memcpy(x, start, sizeof x);

    for (int round = 0; round < DOUBLE_ROUNDS; round++) {
        for (unsigned i = 0; i < 4; i++)
            quarter(x, i, 4 + i, 8 + i, 12 + i);
        for (unsigned i = 0; i < 4; i++)
            quarter(x, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4);
    }
    for (unsigned i = 0; i < WORDS; i++)
        rng->block[i] = x[i] + start[i];
    rng->counter++;
    rng->used = 0;
}

void uro_rng_init(struct uro_rng *rng, const uint8_t seed[static URO_RNG_SEED_BYTES])
{
    *rng = (struct uro_rng){ .used = WORDS };
    for (size_t i = 0; i < URO_ARRAY_LEN(rng->key); i++)
        rng->key[i] = (uint32_t)seed[4 * i + 3] << 24 | (uint32_t)seed[4 * i + 2] << 16 |
                      (uint32_t)seed[4 * i + 1] << 8 | seed[4 * i];
}

void uro_rng_init_number(struct uro_rng *rng, uint64_t seed)
{
    uint8_t octets[URO_RNG_SEED_BYTES] = { 0 };

    for (unsigned i = 0; i < 8; i++)
        octets[i] = (uint8_t)(seed >> 8 * i);
    uro_rng_init(rng, octets);
}

uint32_t uro_rng_u32(struct uro_rng *rng)
{
    if (rng->used == WORDS)
        refill(rng);
    return rng->block[rng->used++];
}

uint64_t uro_rng_u64(struct uro_rng *rng)
{
    uint64_t low = uro_rng_u32(rng);
    return (uint64_t)uro_rng_u32(rng) << 32 | low;
}

/* Returns the high word of random * bound. Rejects products whose low word is below 2^32 mod bound,
 * so that every result has the same number of random words. */
uint32_t uro_rng_below(struct uro_rng *rng, uint32_t bound)
{
    URO_ASSERT(bound != 0);
    const uint32_t unfair = (uint32_t)(-bound) % bound;
    uint64_t product;

    do
        product = (uint64_t)uro_rng_u32(rng) * bound;
    while ((uint32_t)product < unfair);
    return (uint32_t)(product >> 32);
}
