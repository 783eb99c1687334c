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
