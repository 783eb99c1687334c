/* SPDX-License-Identifier: BSD-3-Clause */
/* impair.h - impair= and trace= of a device: where its plan comes from, and where its fates go. */
#pragma once

#include "impair/plan.h"

struct uro_device;
struct uro_device_config;

/* Checks the values of impair= and trace= as far as this needs no file. Returns NULL, or the
 * problem, which may be in @text. */
const char *uro_impair_check(const char *value, char text[static URO_IMPAIR_ERROR_MAX]);

/* Puts a port with faults around the port of the device, if its configuration has impair=. Returns
 * 0, or -EINVAL or -ENOMEM with the reason in device->problem. */
URO_NODISCARD int uro_impair_open(struct uro_device *device);

/* Shows the plan to other processes, after the page of the device was made. */
void uro_impair_show(struct uro_device *device);

/* Shows the counters, and reports a failed write of the trace. Engine lock held. */
void uro_impair_update(struct uro_device *device);
