/* SPDX-License-Identifier: BSD-3-Clause */
/* impair_page.c - see impair_page.h. */
#include "stats/impair_page.h"

#include <string.h>
#include <time.h>

#define WORDS        (URO_STATS_IMPAIR_MAX / sizeof(unsigned))
#define WRITER_TRIES 1000u
#define NAP_NS       1000000L

static void store_text(struct uro_stats_impair *impair, const char *text)
{
    unsigned words[WORDS] = { 0 };
    const size_t length = strlen(text);

    memcpy(words, text, length < sizeof words ? length : sizeof words - 1);
    for (size_t i = 0; i < WORDS; i++)
        atomic_store_explicit(&impair->text[i], words[i], memory_order_relaxed);
}

void uro_stats_impair_begin(struct uro_stats_impair *impair, const char *text)
{
    store_text(impair, text);
    atomic_store(&impair->applied, 2);
    atomic_store_explicit(&impair->sequence, 2, memory_order_release);
}

bool uro_stats_impair_read(const struct uro_stats_impair *impair, unsigned *seen,
                           char text[static URO_STATS_IMPAIR_MAX])
{
    const unsigned before = atomic_load_explicit(&impair->sequence, memory_order_acquire);

    for (size_t i = 0; i < WORDS; i++) {
        const unsigned word = atomic_load_explicit(&impair->text[i], memory_order_relaxed);
        memcpy(text + i * sizeof word, &word, sizeof word);
    }
    atomic_thread_fence(memory_order_acquire);
    if (before % 2 != 0 || atomic_load_explicit(&impair->sequence, memory_order_relaxed) != before)
        return false;
    text[URO_STATS_IMPAIR_MAX - 1] = '\0';
    *seen = before;
    return true;
}

unsigned uro_stats_impair_write(struct uro_stats_impair *impair, const char *text)
{
    const struct timespec nap = { .tv_nsec = NAP_NS };
    unsigned before = atomic_load(&impair->sequence);
    unsigned writing;

    for (unsigned tries = 0;; tries++) {
        if (before == 0)
            return 0;
        const bool is_free = before % 2 == 0;
        writing = is_free ? before + 1 : before + 2;
        if ((is_free || tries >= WRITER_TRIES) &&
            atomic_compare_exchange_strong(&impair->sequence, &before, writing))
            break;
        if (!is_free) {
            (void)nanosleep(&nap, NULL);
            before = atomic_load(&impair->sequence);
        }
    }
    atomic_thread_fence(memory_order_release);
    store_text(impair, text);
    const unsigned written = writing + 1 != 0 ? writing + 1 : 2;
    atomic_store_explicit(&impair->sequence, written, memory_order_release);
    return written;
}
