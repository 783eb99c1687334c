/* SPDX-License-Identifier: BSD-3-Clause */
/* counters.c - the names and meanings of counters.h, by number. */
#include "base/counters.h"

#define X(id, name, text) [URO_COUNT_##id] = (name),
static const char *const names[URO_COUNTER_COUNT] = { URO_COUNTERS(X) };
#undef X

#define X(id, name, text) [URO_COUNT_##id] = (text),
static const char *const texts[URO_COUNTER_COUNT] = { URO_COUNTERS(X) };
#undef X

const char *uro_counter_name(enum uro_counter counter)
{
    URO_ASSERT(counter < URO_COUNTER_COUNT);
    return names[counter];
}

const char *uro_counter_text(enum uro_counter counter)
{
    URO_ASSERT(counter < URO_COUNTER_COUNT);
    return texts[counter];
}
