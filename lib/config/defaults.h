/* SPDX-License-Identifier: BSD-3-Clause */
/* defaults.h - fills in addresses, MAC and MTU that the configuration of a device leaves out. They
 * come from the interface, the kernel or the driver. A MAC address can be derived from the name.
 *
 * A link with iface=IF shares the interface with the kernel. It gets the interface's MAC address
 * and MTU and, without ip=, its addresses. Other links get a locally administered MAC, derived from
 * name, link and addresses. It is the same in each run, and differs at the two ends of a memif.
 *
 * A link over UDP gets the addresses of ip= (in the entry or among the link options), or else of
 * iface=. An ip= that is a net stands for the machine's address in that net. Without ip= and
 * iface=, or with only ip=auto, the device gets the source addresses of the kernel's default
 * routes. Without a default route, it gets the machine's only global address of each IP version.
 * Without a global address, it gets a loopback address, and config.loopback is set. All
 * destinations are in one subnet, because the kernel does the routing. GID 0 is a copy of GID 1, so
 * that programs can use either.
 */
#pragma once

#include <net/if.h>

#include "config/entry_keys.h"

/* Fills in addresses, MAC, MTU and the link-local GID of an entry without a problem. May store a
 * problem, such as an interface that does not exist. */
void uro_defaults_fill(struct uro_entry *entry);

/* Writes the name of the kernel's interface that the link uses to @name. Returns false if the link
 * uses no interface. */
bool uro_defaults_interface(const struct uro_device_config *config, char name[static IF_NAMESIZE]);

#define URO_DEFAULTS_LOOPBACK_MAX 320u
/* Writes the warning for an entry with ->loopback set to @text. Returns @text. */
char *uro_defaults_loopback_text(const struct uro_device_config *entry,
                                 char text[static URO_DEFAULTS_LOOPBACK_MAX]);

#define URO_DEFAULTS_LEFT_OUT_MAX 256u
/* Writes the warning for an entry with ->left_out set to @text. Returns @text. */
char *uro_defaults_left_out_text(const struct uro_device_config *entry,
                                 char text[static URO_DEFAULTS_LEFT_OUT_MAX]);
