/* SPDX-License-Identifier: BSD-3-Clause */
/* mark.h - ties a rule of docs/PROTOCOL.md to the code that implements it.
 *
 * URO_MARK("RSP.DUP.SEND") does nothing in release builds. With -DURO_MARKS (the test build) it
 * records that the line ran. A test reads the record with uro_mark_hit(). tools/conformance
 * compares the ids in code, tests and PROTOCOL.md.
 */
#pragma once

#include "base/defs.h"

#ifdef URO_MARKS
void uro_mark(const char *rule);
#define URO_MARK(rule) uro_mark(rule)
#else
#define URO_MARK(rule) ((void)0)
#endif

/* Returns whether URO_MARK(@rule) ran since the last uro_mark_clear(). Always false without
 * marks. */
bool uro_mark_hit(const char *rule);
void uro_mark_clear(void);
