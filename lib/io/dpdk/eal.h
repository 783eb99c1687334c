/* SPDX-License-Identifier: BSD-3-Clause */
/* eal.h - starts DPDK at most once per process, without side effects on the program.
 *
 * DPDK is linked statically. A shared DPDK loads drivers that load libibverbs, which is uroce
 * itself. */
#pragma once

#include "engine/port.h"

/* Starts DPDK in the calling thread, which keeps its CPU affinity. Later calls return at once.
 * Returns 0, or -1 with a sentence in @error. Callers must serialise. */
URO_NODISCARD int uro_eal_start(const struct uro_port_config *config, bool pci,
                                char error[static URO_PORT_ERROR_MAX]);
