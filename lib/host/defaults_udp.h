/* SPDX-License-Identifier: BSD-3-Clause */
/* defaults_udp.h - addresses and MTU of a device over UDP sockets: the kernel's. */
#pragma once

#include "host/entry.h"

/* Addresses: ip= of the entry, ip= among the words of its link, those the kernel would send from (auto).
 * All destinations are one subnet, for the kernel has the routes. GID 0 repeats GID 1, so that both
 * can be used. May find a problem. */
void uro_defaults_udp(struct uro_entry *entry);

/* Whether the machine has a default route, so that ip=auto finds an address. */
bool uro_defaults_udp_routed(void);
