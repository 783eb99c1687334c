/* SPDX-License-Identifier: BSD-3-Clause */
/* gather.h - which posts leave with the next call of a program that keeps polling, instead of at once.
 *
 * A post that follows another at once leaves its request to the next call, of a program that keeps polling: so
 * those of a loop leave together. So it does where posts alone go on for long without a pause, as when each of many
 * queue pairs has room for many. A post that is alone leaves at once. Where each send is a system call, a post only
 * transmits. Receiving is left to the next poll.
 */
#pragma once

#include "host/device.h"

/* Whether what was posted waits for the next call. If that does not come soon after all, the service thread
 * looks soon, or is awake and hears the bell. */
URO_NODISCARD bool uro_gather_post(struct uro_device *device, uro_time now);

/* A caller polled, whether it drives or not. */
void uro_gather_polled(struct uro_device *device);

/* ---- the engine lock is held -------------------------------------------- */

/* A caller's round begins: what waited for it leaves. Returns whether there are posts that leave. */
bool uro_gather_leave(struct uro_device *device, bool posted, uro_time now);

/* Whether a caller's round receives. */
URO_NODISCARD bool uro_gather_receives(const struct uro_device *device, bool posted, uro_time now);
