/* SPDX-License-Identifier: BSD-3-Clause */
/* clock.c - the one place where a driver reads real time. */
#include <time.h>

#include "host/host.h"

uro_time uro_device_now(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uro_time)now.tv_sec * 1000000000u + (uro_time)now.tv_nsec;
}
