/* SPDX-License-Identifier: BSD-3-Clause */
/* defaults.h - what a device's interface or name says about it when the configuration does not. */
#pragma once

#include <net/if.h>

#include "host/entry.h"

/* Fills in addresses, MAC, MTU and the link-local GID of an entry without a problem. May find one:
 * an interface that does not exist. */
void uro_defaults_fill(struct uro_entry *entry);

/* The interface of the kernel that a link uses: the value of iface=, or remote= as net_tap calls it;
 * false when it uses none. */
bool uro_defaults_interface(const char *link, char name[static IF_NAMESIZE]);
