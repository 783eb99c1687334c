/* SPDX-License-Identifier: BSD-3-Clause */
/* netdev.h - which interface of the kernel an address of a device is on. */
#pragma once

#include <net/if.h>

#include "host/host.h"

/* Writes the name of the interface for GID @index to @name: the one that the link is over, or with UDP the one that
 * has the address now. Returns false when there is none: other links have no interface, and an address may be gone. */
bool uro_netdev_name(const struct uro_device_config *config, uint32_t index,
                     char name[static IF_NAMESIZE]);

/* The number of this interface, or 0. */
uint32_t uro_netdev_index(const struct uro_device_config *config, uint32_t index);
