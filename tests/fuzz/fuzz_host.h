/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_host.h - a process with two devices, uroce0 at 10.0.0.1 and fd00::1, uroce1 at 10.0.0.2 and
 * fd00::2, joined by a cable; without threads and without real time, so that an input means the
 * same each time.
 *
 * Linked before lib/host, it replaces clock.c, plugin.c, progress.c and service.c.
 */
#pragma once

#include "host/host.h"

#define FUZZ_DEVICES 2u

/* The devices; the first call configures them. */
struct uro_device *const *fuzz_host_devices(void);

/* Aborts unless @condition: it must hold in every build. */
void fuzz_demand(bool condition);

void fuzz_host_pass(uro_time how_long);

/* Runs the engines until nothing moves, within a bound. */
void fuzz_host_settle(void);

/* Lets time pass, timer by timer, until no connection is left. Fails when that does not happen. */
void fuzz_host_forget_connections(void);

/* Bit n: the n-th frame of each 32 is lost. */
void fuzz_host_lose(uint32_t mask);
void fuzz_host_link(bool up);

/* The device is gone, until fuzz_host_restore() brings all of them back. */
void fuzz_host_remove(uint32_t which);
void fuzz_host_restore(void);

/* Is shown every frame before it is sent; NULL: nobody is. */
void fuzz_host_watch(void (*seen)(const uint8_t *octets, uint32_t length));
