/* SPDX-License-Identifier: BSD-3-Clause */
/* defaults_udp.h - addresses and MTU of a device over UDP sockets: the kernel's. */
#pragma once

#include "host/entry.h"

/* Addresses: ip= of the entry, ip= among the words of its link, those of its iface=. An ip= that is a net is our address
 * in that net. Without any, or with ip=auto: those the kernel would send from by default; without a default route the
 * one global address of this machine; if it has none, a loopback address, and config.loopback is set. All destinations
 * are one subnet, for the kernel has the routes. GID 0 repeats GID 1, so that both can be used. May find a problem. */
void uro_defaults_udp(struct uro_entry *entry);
