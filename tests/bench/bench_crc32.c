/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_crc32.c - measures the CRC in GB/s, by method and size, alone and while copying.
 *
 *   bench_crc32 [MS]     MS milliseconds for each number, default 100
 *
 * The data stay in the first-level cache, so the program measures the computation, not the memory.
 */
#define _POSIX_C_SOURCE 200809L

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/crc32.h"

#define SLICES 20  /* number of measurements, of which the best is printed */
#define BATCH  256 /* calls between two readings of the clock */

static _Alignas(64) uint8_t source[4096];
static _Alignas(64) uint8_t target[4096];
static volatile uint32_t sink; /* stops the compiler from removing the calls */

/* Returns the processor time of this thread, which does not include other programs. */
static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Returns the bytes per nanosecond of one slice. Each call continues the CRC of the previous
 * call. */
static double measure_slice(size_t length, bool copy, double ns)
{
    const double start = now_ns();
    double elapsed = 0;
    double calls = 0;
    uint32_t reg = URO_CRC32_START;

    while (elapsed < ns) {
        for (int i = 0; i < BATCH; i++)
            reg =
                copy ? uro_crc32_copy(reg, target, source, length) : uro_crc32(reg, source, length);
        calls += BATCH;
        elapsed = now_ns() - start;
    }
    sink = reg;
    return calls * (double)length / elapsed;
}

static double measure(size_t length, bool copy, double ns)
{
    double best = 0;

    for (int i = 0; i < SLICES; i++) {
        const double speed = measure_slice(length, copy, ns / SLICES);
        if (speed > best)
            best = speed;
    }
    return best;
}

int main(int argc, char **argv)
{
    static const char *const methods[] = { "vpclmulqdq", "pclmulqdq", "pmull", "armv8-crc32",
                                           "table" };
    static const size_t lengths[] = { 4, 20, 40, 64, 256, 1024, 4096 };
    const double ns = (argc > 1 ? strtod(argv[1], NULL) : 100) * 1e6;

    for (size_t i = 0; i < sizeof source; i++)
        source[i] = (uint8_t)(i * 7);
    printf("%-12s %-5s", "GB/s", "");
    for (size_t l = 0; l < URO_ARRAY_LEN(lengths); l++)
        printf(" %8zu", lengths[l]);
    printf("\n");
    for (size_t m = 0; m < URO_ARRAY_LEN(methods); m++) {
        if (!uro_crc32_use(methods[m])) {
            printf("%-12s not on this CPU\n", methods[m]);
            continue;
        }
        for (int copy = 0; copy <= 1; copy++) {
            printf("%-12s %-5s", methods[m], copy ? "copy" : "sum");
            for (size_t l = 0; l < URO_ARRAY_LEN(lengths); l++)
                printf(" %8.1f", measure(lengths[l], copy, ns));
            printf("\n");
        }
    }
    return 0;
}
