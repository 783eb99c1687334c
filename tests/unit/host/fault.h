/* SPDX-License-Identifier: BSD-3-Clause */
/* fault.h - runs child processes that access unmapped memory, in a round of a device or in their
 * own code. A round accesses the memory in receive() of the port.
 */
#pragma once

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "core/key.h"
#include "fake_port.h"
#include "host/device.h"
#include "support/check.h"
#include "support/must.h"

#define CALLER                                                                                     \
    "one:fake0;ip=10.0.0.1/24;progress=caller" /* the service thread only opens the port */
#define HYBRID "one:fake0;ip=10.0.0.1/24"
#define CAUGHT 7 /* exit status of a child whose handler ran as expected */
#define DIED   (128 + SIGSEGV)

extern struct uro_device *device;
extern struct uro_key key;
extern uint8_t *fault_there; /* start of the region of two pages; the second page is unmapped */
extern size_t fault_page;    /* bytes */

/* Runs @body in a child and returns its exit status, or 128 + signal as a shell does. SIGSEGV has
 * its default action at first. */
int fault_ending(void (*body)(void));

/* Starts the first device of UROCE_DEVICES=@devices, with the region. */
void fault_start(const char *devices);

/* These functions write one byte: at @at, in the first page, in the second page, or near NULL. */
void fault_touch(uint8_t *at);
void fault_touch_first(void);
void fault_touch_second(void);
void fault_touch_null(void);

/* Runs @body in a round that the caller drives. */
void fault_in_round(void (*body)(void));

/* Touches the byte at @offset in a round of the service thread. Returns when that round has
 * continued. */
void fault_in_service(size_t offset);

/* Returns the number of pages that uroce mapped in place of unmapped pages. */
uint64_t fault_pages(void);
