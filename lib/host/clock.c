/* SPDX-License-Identifier: BSD-3-Clause */
/* clock.c - the one place where the host reads real time. */
#include <time.h>

#include "host/device.h"

static uint64_t read_clock(clockid_t clock)
{
    struct timespec now;

    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uro_time uro_device_now(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t uro_host_wall_clock(void)
{
    return read_clock(CLOCK_REALTIME);
}

/* The two clocks run at one rate and are apart by a constant until somebody sets one. Reading one
 * between two readings of the other bounds it; the smallest upper bound seen is nearest, and a lower
 * bound above it says that the clock was set. */
uint64_t uro_host_wall_time(uro_time at, uint64_t *offset)
{
    uro_time before = uro_device_now();
    uint64_t wall = uro_host_wall_clock();
    uro_time after = uro_device_now();

    if (*offset < wall - after || *offset > wall - before)
        *offset = wall - before;
    return at + *offset;
}
