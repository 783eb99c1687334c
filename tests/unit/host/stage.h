/* SPDX-License-Identifier: BSD-3-Clause */
/* stage.h - one process, one device over the fake port: for tests of who drives it. */
#pragma once

#include "fake_port.h"
#include "host/host.h"
#include "support/check.h"

#define IP ";ip=10.0.0.1/24"

extern struct uro_device *device;

/* Starts the one device of UROCE_DEVICES=@devices. */
void stage_start(const char *devices);

/* Whether the service thread, which is the one that opened the port, sent the last frame. */
bool stage_sent_by_service(void);

/* From here on the device's clock stands, and moves only as told: what happens within a time then
 * does so on a busy machine, too. Service threads still sleep in real time. */
void stage_stop_clock(void);
void stage_pass(uro_time ns);

/* A program that polls, at a time that passes as the test says, and a service thread that stands
 * back for it. */
void stage_start_polling(bool call_per_send);

/* A frame comes, the program polls, and so many were sent by then. */
void stage_find(uint32_t sent);

void stage_each_frame_completes_something(void);

/* The one queue pair of the test, RC, in RESET. */
struct uro_qp *stage_make_qp(void);

/* Each test in a process of its own; returns main()'s status. */
int stage_run(const char *name, const struct CMUnitTest *tests, size_t count);
