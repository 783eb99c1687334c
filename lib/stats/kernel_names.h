/* SPDX-License-Identifier: BSD-3-Clause */
/* kernel_names.h - the counters of a device under the names that Linux gives them in
 * /sys/class/infiniband/DEVICE/ports/1/.
 *
 *     counters/      the port counters of IBTA ("Performance Management"), as
 *                    Documentation/ABI/stable/sysfs-class-infiniband of Linux names them
 *     hw_counters/   the names of Linux rxe, and those of mlx5 whose meaning is the same
 */
#pragma once

#include "base/counters.h"

#define URO_KERNEL_SOURCES_MAX 4u

struct uro_kernel_counter {
    const char *name; /* "counters/port_rcv_data" */
    uint32_t divisor; /* divisor of the sum; 0: the value is always 0 */
    uint32_t source_count;
    enum uro_counter sources[URO_KERNEL_SOURCES_MAX]; /* counters to add up */
};

extern const struct uro_kernel_counter uro_kernel_counters[];
extern const uint32_t uro_kernel_counter_count;

uint64_t uro_kernel_counter_value(const struct uro_kernel_counter *counter,
                                  const struct uro_counters *counters);

/* The value of hw_counters/lifespan: the interval in ms at which the kernel updates values. */
#define URO_KERNEL_LIFESPAN 10u
