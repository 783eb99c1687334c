/* SPDX-License-Identifier: BSD-3-Clause */
/* guard.h - the operations of a port whose driver makes system calls, with cancellation turned off
 * around them. */
#pragma once

#include "engine/port.h"

/* Port operations that call those of @ops, which lives as long as the port. One table for all ports
 * of the process: @ops is the same each time. */
const struct uro_port_ops *uro_guard_ops(const struct uro_port_ops *ops);
