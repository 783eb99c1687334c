/* SPDX-License-Identifier: BSD-3-Clause */
/* record.h - what an engine records about itself, in memory that other processes may read.
 *
 * The driver lends the memory (uro_engine_config.record), or the engine uses its own. Only the
 * engine writes it. A reader in another process sees each 64-bit value whole, but not the values of
 * one moment.
 */
#pragma once

#include "base/counters.h"

struct uro_record {
    struct uro_counters counters;
};
