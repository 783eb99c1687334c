/* SPDX-License-Identifier: BSD-3-Clause */
/* clock.c - the only file of lib/host that reads a clock, so that tests can replace it. */
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

/* The difference of the two clocks is constant until a clock is set. A reading of one clock
 * between two readings of the other gives bounds of the difference. The smallest upper bound so far
 * is the best estimate. A lower bound above the estimate shows that the clock was set. */
uint64_t uro_host_wall_time(uro_time now, uint64_t *offset)
{
    uro_time before = uro_device_now();
    uint64_t wall = uro_host_wall_clock();
    uro_time after = uro_device_now();

    if (*offset < wall - after || *offset > wall - before)
        *offset = wall - before;
    return now + *offset;
}
