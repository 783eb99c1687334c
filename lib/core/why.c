/* SPDX-License-Identifier: BSD-3-Clause */
/* why.c - the texts of enum uro_why. */
#include "core/why.h"

static const char *const texts[URO_WHY_COUNT] = {
#define X(id, text) [URO_WHY_##id] = text,
    URO_WHYS(X)
#undef X
};

const char *uro_why_text(enum uro_why why)
{
    return (unsigned)why < URO_WHY_COUNT ? texts[why] : "unknown";
}
