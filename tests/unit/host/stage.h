/* SPDX-License-Identifier: BSD-3-Clause */
/* stage.h - one process with one device over the fake port, for tests of which thread runs the
 * engine. */
#pragma once

#include "fake_port.h"
#include "host/host.h"
#include "support/check.h"

#define IP ";ip=10.0.0.1/24"

extern struct uro_device *device;

/* Starts the only device of UROCE_DEVICES=@devices. */
void stage_start(const char *devices);

/* Returns whether the service thread, which opened the port, sent the last frame. */
bool stage_sent_by_service(void);

/* Stops the clock of the device. Only the test advances the clock, so the load of the machine does
 * not change the result. Service threads still sleep in real time. */
void stage_stop_clock(void);
void stage_pass(uro_time ns);

/* Starts a device and stops its clock. The program polls, and the service thread has stopped
 * running the engine. */
void stage_start_polling(bool call_per_send);

/* Injects a frame and polls. Expects that the device has sent @sent frames after that. */
void stage_find(uint32_t sent);

void stage_each_frame_completes_something(void);

/* Returns the only queue pair of the test: RC, in RESET. */
struct uro_qp *stage_make_qp(void);

/* Runs each test in a process of its own. Returns the status for main(). */
int stage_run(const char *name, const struct CMUnitTest *tests, size_t count);
