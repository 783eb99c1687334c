/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_memcpy.c - measures memcpy on one core in GB/s, in the first-level cache and in memory.
 *
 *   bench_memcpy [MS]    MS milliseconds for each number, default 100
 */
#define _POSIX_C_SOURCE 200809L

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/defs.h"

#define SLICES     20 /* number of measurements, of which the best is printed */
#define LARGE      (64u << 20)
#define BATCH_SIZE (1u << 20) /* minimum bytes between two readings of the clock */

/* Returns the processor time of this thread, which does not include other programs. */
static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Returns the bytes per nanosecond when @size bytes are copied in pieces of @length. */
static double measure_slice(uint8_t *to, const uint8_t *from, size_t length, size_t size, double ns)
{
    void *(*volatile copy)(void *, const void *, size_t) =
        memcpy; /* volatile, so that the compiler makes a call */
    const double start = now_ns();
    double copied = 0;
    double elapsed = 0;
    size_t at = 0;

    while (elapsed < ns) {
        for (size_t done = 0; done < BATCH_SIZE; done += length) {
            copy(to + at, from + at, length);
            at = at + length < size ? at + length : 0;
        }
        copied += BATCH_SIZE;
        elapsed = now_ns() - start;
    }
    return copied / elapsed;
}

int main(int argc, char **argv)
{
    const double ns = (argc > 1 ? strtod(argv[1], NULL) : 100) * 1e6;
    const size_t sizes[] = { 4096, LARGE };
    uint8_t *from = malloc(LARGE);
    uint8_t *to = malloc(LARGE);

    if (from == NULL || to == NULL)
        return 1;
    memset(from, 1, LARGE);
    memset(to, 2, LARGE);
    for (size_t i = 0; i < URO_ARRAY_LEN(sizes); i++) {
        double best = 0;
        for (int slice = 0; slice < SLICES; slice++) {
            const double speed = measure_slice(to, from, 4096, sizes[i], ns / SLICES);
            best = speed > best ? speed : best;
        }
        printf("%s %.2f\n", i == 0 ? "cache" : "memory", best);
    }
    free(from);
    free(to);
    return 0;
}
