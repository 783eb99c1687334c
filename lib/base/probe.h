/* SPDX-License-Identifier: BSD-3-Clause */
/* probe.h - static probes for bpftrace, perf and SystemTap (USDT), provider "uroce".
 *
 * A probe is one `nop` and a note in the ELF file, and costs nothing else while no tool uses it.
 * Without <sys/sdt.h> of SystemTap, probes are left out. docs/MONITORING.md lists the probes and
 * their arguments; tests/system/test_probes.py compares the list with the libraries.
 *
 * Arguments are integers that the code has at hand: computing one would cost time in every run.
 */
#pragma once

#include "base/defs.h"

#ifdef URO_HAS_SDT
#define SDT_USE_VARIADIC
#include <sys/sdt.h>
#define URO_PROBE(name, ...) STAP_PROBEV(uroce, name, __VA_ARGS__)
#else
#define URO_PROBE(name, ...) ((void)0)
#endif
