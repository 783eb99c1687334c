/* SPDX-License-Identifier: BSD-3-Clause */
/* probe.h - static probes for bpftrace, perf and SystemTap (USDT), provider "uroce".
 *
 * A probe is one `nop` and a note in the ELF file, and costs nothing else while no tool uses it.
 * Without <sys/sdt.h> of SystemTap, probes are left out. docs/MONITORING.md lists the probes and
 * their arguments; tests/system/test_probes.py compares the list with the libraries.
 *
 * Arguments are integers that the code has already, because computing an argument would take time
 * even without a tool.
 */
#pragma once

#include "base/defs.h"

#ifdef URO_HAS_SDT
#include <sys/sdt.h>
#define URO_PROBE1(name, a)       STAP_PROBE1(uroce, name, a)
#define URO_PROBE2(name, a, b)    STAP_PROBE2(uroce, name, a, b)
#define URO_PROBE3(name, a, b, c) STAP_PROBE3(uroce, name, a, b, c)
#else
#define URO_PROBE1(name, a)       ((void)(a))
#define URO_PROBE2(name, a, b)    ((void)(a), (void)(b))
#define URO_PROBE3(name, a, b, c) ((void)(a), (void)(b), (void)(c))
#endif
