/* SPDX-License-Identifier: BSD-3-Clause */
/* nic.h - DPDK's side of a port: found, set up, started, removed. */
#pragma once

#include "io/dpdk/link.h"

/* Brings the device of @link up as dpdk->id with a pool and one queue in each direction; @link
 * comes to hold what the device could do. Returns 0, or -1 with a sentence in @error and nothing
 * left behind. Callers serialise. */
URO_NODISCARD int uro_nic_open(struct uro_dpdk *dpdk, struct uro_link *link, uint32_t memory_mib,
                               char error[static URO_PORT_ERROR_MAX]);

/* Stops frames from moving. */
void uro_nic_stop(struct uro_dpdk *dpdk);
/* Removes the device and its pool. */
void uro_nic_close(struct uro_dpdk *dpdk);
