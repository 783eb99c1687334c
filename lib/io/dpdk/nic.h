/* SPDX-License-Identifier: BSD-3-Clause */
/* nic.h - finds, configures, starts and removes DPDK's device of a port. */
#pragma once

#include "io/dpdk/link.h"

/* Starts the device of @link as dpdk->id, with a buffer pool and one queue in each direction.
 * Lowers the MTU of @link to what the device supports. Returns 0, or -1 with a sentence in @error
 * and everything undone. Callers must serialise. */
URO_NODISCARD int uro_nic_open(struct uro_dpdk *dpdk, struct uro_link *link, uint32_t memory_mib,
                               char error[static URO_PORT_ERROR_MAX]);

/* Stops the device. */
void uro_nic_stop(struct uro_dpdk *dpdk);
/* Removes the device and its pool. */
void uro_nic_close(struct uro_dpdk *dpdk);
