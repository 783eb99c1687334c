/* SPDX-License-Identifier: BSD-3-Clause */
/* defaults.h - what a device's interface or name says about it when the configuration does not. */
#pragma once

#include "host/entry.h"

/* Fills in addresses, MAC, MTU and the link-local GID of an entry without a problem. May find one:
 * an interface that does not exist. */
void uro_defaults_fill(struct uro_entry *entry);
