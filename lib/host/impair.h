/* SPDX-License-Identifier: BSD-3-Clause */
/* impair.h - impair= and trace= of a device: reads its plan of faults, and writes the fates of its
 * packets. */
#pragma once

#include "impair/plan.h"

struct uro_device;
struct uro_device_config;

/* Puts a port with faults around the port of the device, if its configuration has impair=. Returns
 * 0, or -EINVAL or -ENOMEM with the reason in device->problem. */
URO_NODISCARD int uro_impair_open(struct uro_device *device);

/* Writes the plan for other processes, after the page of the device was made. */
void uro_impair_show(struct uro_device *device);

/* Writes the counters for other processes, and reports a failed write of the trace. Engine lock
 * held. */
void uro_impair_update(struct uro_device *device);
