/* SPDX-License-Identifier: BSD-3-Clause */
/* defaults.h - the addresses, MAC and MTU of a device that its configuration does not give. They
 * come from the interface or the kernel, and with neither from the name of the device.
 *
 * A link with iface=IF shares the interface with the kernel. It gets the interface's MAC address
 * and MTU and, without ip=, its addresses. Other links get a locally administered MAC, derived from
 * name, link and addresses: it stays the same from run to run, and differs at the two ends of a
 * memif.
 *
 * A link over UDP gets the addresses of ip= (in the entry or among the link options) and of iface=.
 * An ip= that is a net stands for the machine's address in that net. Without any, or with ip=auto,
 * the device gets the addresses that the kernel would send from by default. Without a default route
 * it gets the machine's one global address, or if there is none a loopback address; config.loopback
 * is then set. All destinations are in one subnet, since the kernel has the routes. GID 0 is a copy
 * of GID 1, so that programs can use either.
 */
#pragma once

#include <net/if.h>

#include "host/entry.h"

/* Fills in addresses, MAC, MTU and the link-local GID of an entry without a problem. May store a
 * problem, such as an interface that does not exist. */
void uro_defaults_fill(struct uro_entry *entry);

/* Writes the name of the kernel's interface that the link uses to @name. Returns false if the link
 * uses none. */
bool uro_defaults_interface(const struct uro_device_config *config, char name[static IF_NAMESIZE]);
