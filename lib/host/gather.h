/* SPDX-License-Identifier: BSD-3-Clause */
/* gather.h - what leaves with the next call of a program that keeps polling, instead of at once.
 *
 * A post that follows a send at once leaves its request to the next call, of a program that keeps polling: so
 * those of a loop leave together. So it does where posts alone go on for long without a pause, as when each of many
 * queue pairs has room for many. One that is alone leaves at once. Likewise a poll that finds something
 * gives it to the program first: what the program answers leaves together with the acknowledgement, at the
 * next post, or at a poll a little later. The service thread does the same for a program that spins on its memory
 * and posts from time to time: a peer that polls gets answer and acknowledgement at once, and is not away,
 * looking at its own memory, when the answer comes. A program that then did something else is not given
 * things first for a while.
 */
#pragma once

#include "host/device.h"

/* Whether what was posted waits for the next call. If that does not come soon after all, the service thread
 * looks soon, or is awake and hears the bell. */
URO_NODISCARD bool uro_gather_post(struct uro_device *device, uro_time now);

/* A caller polled, whether it drives or not. */
void uro_gather_polled(struct uro_device *device);

/* ---- the engine lock is held -------------------------------------------- */

/* A caller's round begins: what waited for it leaves. */
void uro_gather_leave(struct uro_device *device, bool posted, uro_time now);

/* What a caller's round is to do. */
enum uro_round_part uro_gather_part(struct uro_device *device, bool posted, uro_time now);

/* A caller's round brought something. */
void uro_gather_found(struct uro_device *device);

/* For so long the service thread leaves what it has to answer to a program that comes back soon. */
#define URO_GATHER_HOLD URO_US(20)

/* What a round of the service thread is to do. */
enum uro_round_part uro_gather_thread_part(struct uro_device *device, uro_time now);
