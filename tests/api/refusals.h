/* SPDX-License-Identifier: BSD-3-Clause */
/* refusals.h - the refused calls of this process, as other processes read them. */
#pragma once

#include "api/api.h"
#include "stats/reader.h"

/* The refusal that refusals_expect() read, and the refusal before it. */
extern struct uro_stats_refusal refusals_last, refusals_previous;

/* Checks that the newest refusal is of @call, and contains @wanted. */
void refusals_expect(const char *call, int error, const char *wanted);

/* Runs the tests as api_run() does, but in a child process with its own state directory. */
int refusals_run(const char *name, const struct CMUnitTest *tests, size_t count);
