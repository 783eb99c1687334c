/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_host.h - a process with two devices and a cable between them. uroce0 has the addresses
 * 10.0.0.1 and fd00::1, uroce1 has 10.0.0.2 and fd00::2. There are no threads and no real time, so
 * that an input always has the same effect.
 *
 * Linked before lib/host, it replaces clock.c, plugin.c, progress.c, service.c and waiter.c.
 */
#pragma once

#include "host/host.h"

#define FUZZ_DEVICES 2u

/* Returns the devices. The first call configures them. */
struct uro_device *const *fuzz_host_devices(void);

/* Aborts unless @condition. Unlike assert(), it works in every build. */
void fuzz_demand(bool condition);

void fuzz_host_pass(uro_time how_long);

/* Runs the engines until no work is due, or until a limit of rounds. */
void fuzz_host_settle(void);

/* Runs timers until all connections have ended. Fails if there is no further timer, but still a
 * connection. */
void fuzz_host_forget_connections(void);

/* Sets which frames are lost. Bit n of @mask is for frame n of each 32 frames. */
void fuzz_host_lose(uint32_t mask);
void fuzz_host_link(bool up);

/* Removes device @which until fuzz_host_restore() restores all devices. */
void fuzz_host_remove(uint32_t which);
void fuzz_host_restore(void);

/* Sets the function that gets every frame before it is sent, or NULL. */
void fuzz_host_watch(void (*seen)(const uint8_t *octets, uint32_t length));
