/* SPDX-License-Identifier: BSD-3-Clause */
/* unmapped.h - memory that the program unmaps while it is registered: our copy finds an empty page there, as a
 * card would go on with the pages that it has pinned, and nobody dies. docs/decisions/0037 has the reasons.
 */
#pragma once

#include "core/touch.h"

struct uro_device;

/* From now on SIGSEGV and SIGBUS of the process come here first, and go on to who was there before if it is not such a
 * fault. Once per process; later calls do nothing. Thread: any. */
void uro_unmapped_watch(void);

/* The calling thread, which holds the engine lock, touches registered memory of @device from now on; NULL: of none
 * any more. One store: for each round. */
void uro_unmapped_touch(struct uro_device *device);

/* A uro_touch_attempt: on-demand memory that another thread unmaps, protects or cuts off its file meanwhile ends it. */
uro_touch_attempt uro_unmapped_attempt;
