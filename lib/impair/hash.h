/* SPDX-License-Identifier: BSD-3-Clause */
/* hash.h - the random numbers of the fault model: functions of a key and a counter. */
#pragma once

#include "base/defs.h"

/* Mixes the bits of @value: the finalizer of MurmurHash3. */
static inline uint64_t uro_impair_mix(uint64_t value)
{
    value ^= value >> 33;
    value *= UINT64_C(0xff51afd7ed558ccd);
    value ^= value >> 33;
    value *= UINT64_C(0xc4ceb9fe1a85ec53);
    return value ^ value >> 33;
}

/* Returns the random number of the draw @draw for the packet @index of the flow with @key. */
static inline uint64_t uro_impair_draw(uint64_t key, uint64_t draw, uint64_t index)
{
    return uro_impair_mix(uro_impair_mix(key + draw) + index);
}
