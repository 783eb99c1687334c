/* SPDX-License-Identifier: BSD-3-Clause */
/* guard.h - the operations of a port whose driver makes system calls, with cancellation turned off
 * around them. */
#pragma once

#include "engine/port.h"

/* Returns port operations that call those of @ops, which must live as long as the port. All ports
 * of the process share one table, so @ops must be the same each time. */
const struct uro_port_ops *uro_guard_ops(const struct uro_port_ops *ops);
