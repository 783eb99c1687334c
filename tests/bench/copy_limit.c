/* SPDX-License-Identifier: BSD-3-Clause */
/* copy_limit.c - measures the rate at which two cores can copy a stream, without any other work.
 *
 *   copy_limit OCTETS SECONDS
 *
 * One core copies packets of 4096 bytes of a message into a ring while it computes their CRC. The
 * other core computes the CRC of the packets in the ring and copies them to its own memory. RoCEv2
 * over shared memory needs at least this work. The ring holds as many packets as a queue pair has
 * in flight. Prints one line of JSON.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/crc32.h"
#include "core/limits.h"

#define PACKET 4096u
#define STRIDE (PACKET + 192u) /* has space for headers, and is not a power of two */
#define RING   URO_WINDOW_DEFAULT

static _Alignas(128) atomic_uint tail;
static _Alignas(128) atomic_uint head;
static _Alignas(128) atomic_bool done;
static uint32_t sums[RING];
static uint8_t ring[RING][STRIDE];
static uint32_t length; /* length of a message */
static cpu_set_t allowed;

static double now(void)
{
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

static void pin(unsigned number)
{
    cpu_set_t one;
    unsigned seen = 0;

    CPU_ZERO(&one);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && seen++ == number)
            CPU_SET(cpu, &one);
    if (CPU_COUNT(&one) == 1)
        (void)sched_setaffinity(0, sizeof one, &one);
}

static uint8_t *message(void)
{
    uint8_t *made = malloc(length);

    if (made == NULL)
        abort();
    memset(made, 7, length);
    return made;
}

static void *send_packets(void *unused)
{
    const uint8_t *from = message();
    uint32_t at = 0;

    pin(1);
    for (uint32_t next = 0; !atomic_load_explicit(&done, memory_order_relaxed);) {
        if (next - atomic_load_explicit(&head, memory_order_acquire) == RING)
            continue;
        sums[next % RING] = uro_crc32_copy(URO_CRC32_START, ring[next % RING], from + at, PACKET);
        at = (at + PACKET) % length;
        atomic_store_explicit(&tail, ++next, memory_order_release);
    }
    return unused;
}

static uint64_t receive_packets(double seconds)
{
    uint8_t *to = message();
    uint64_t packets = 0;
    double end = now() + seconds;
    uint32_t at = 0;

    for (uint32_t next = 0; packets % 1024 != 0 || now() < end;) {
        if (next == atomic_load_explicit(&tail, memory_order_acquire))
            continue;
        const uint8_t *packet = ring[next % RING];
        if (uro_crc32(URO_CRC32_START, packet, PACKET) != sums[next % RING])
            abort();
        memcpy(to + at, packet, PACKET);
        at = (at + PACKET) % length;
        atomic_store_explicit(&head, ++next, memory_order_release);
        packets++;
    }
    return packets;
}

int main(int argc, char **argv)
{
    pthread_t sender;

    length = argc == 3 ? (uint32_t)strtoul(argv[1], NULL, 0) : 0;
    if (length == 0 || length % PACKET != 0) {
        (void)fprintf(stderr, "usage: copy_limit OCTETS SECONDS; OCTETS in units of %u\n", PACKET);
        return 2;
    }
    (void)sched_getaffinity(0, sizeof allowed, &allowed);
    pin(0);
    if (pthread_create(&sender, NULL, send_packets, NULL) != 0)
        return 1;
    double start = now();
    uint64_t packets = receive_packets(strtod(argv[2], NULL));
    double took = now() - start;
    atomic_store(&done, true);
    (void)pthread_join(sender, NULL);
    printf("{\"gb_per_s\": %.3f}\n", (double)packets * PACKET * 1e-9 / took);
    return 0;
}
