/* SPDX-License-Identifier: BSD-3-Clause */
/* psn.h - packet sequence numbers as the simulator compares them, independently of lib/core. */
#pragma once

#include <stdint.h>

#define SIM_PSN_MASK 0xffffffu

/* Returns the signed distance a - b in packets, in [-2^23, 2^23): negative means a is older. */
static inline int32_t sim_psn_diff(uint32_t a, uint32_t b)
{
    const int32_t delta = (int32_t)((a - b) & SIM_PSN_MASK);

    return delta < 1 << 23 ? delta : delta - (1 << 24);
}
