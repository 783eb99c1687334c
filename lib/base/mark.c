/* SPDX-License-Identifier: BSD-3-Clause */
/* mark.c - records which rules of docs/PROTOCOL.md were marked since the last uro_mark_clear(); see
 * mark.h. */
#include "base/mark.h"

#ifdef URO_MARKS

#include <stdatomic.h>
#include <string.h>

/* Maximum number of rules with a mark. Each rule uses one slot. */
#define MARKS_MAX 1024u

/* Slots fill from 0 on and never empty, so a reader may stop at the first NULL. */
static _Atomic(const char *) rules[MARKS_MAX];
static atomic_bool hits[MARKS_MAX];

void uro_mark(const char *rule)
{
    for (unsigned i = 0; i < MARKS_MAX; i++) {
        const char *known = NULL;
        if (atomic_compare_exchange_strong(&rules[i], &known, rule) || strcmp(known, rule) == 0) {
            atomic_store(&hits[i], true);
            return;
        }
    }
    URO_ASSERT(false); /* more rules than MARKS_MAX */
}

bool uro_mark_hit(const char *rule)
{
    for (unsigned i = 0; i < MARKS_MAX; i++) {
        const char *known = atomic_load(&rules[i]);
        if (known == NULL)
            return false;
        if (strcmp(known, rule) == 0 && atomic_load(&hits[i]))
            return true;
    }
    return false;
}

void uro_mark_clear(void)
{
    for (unsigned i = 0; i < MARKS_MAX; i++)
        atomic_store(&hits[i], false);
}

#else

bool uro_mark_hit(const char *rule)
{
    (void)rule;
    return false;
}

void uro_mark_clear(void)
{
}

#endif
