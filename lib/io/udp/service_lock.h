/* SPDX-License-Identifier: BSD-3-Clause */
/* service_lock.h - ensures that at most one of the processes that share an address listens for a
 * service.
 *
 * The process that listens holds a lock on a file whose name contains network namespace, address
 * and service, in a directory of the user (hub_directory.h). The kernel releases the lock when the
 * process dies. The broker is not involved, so a lock holds even while there is no broker.
 */
#pragma once

#include "engine/engine.h"
#include "engine/port.h"

struct uro_service_lock {
    int fd;
    struct uro_listened what;
};

/* The locks of one port. Zero-initialised: none. */
struct uro_service_locks {
    struct uro_service_lock *all;
    uint32_t count;
};

/* Implement claim and unclaim of struct uro_port_ops. They do nothing at an address that is not
 * shared. */
URO_NODISCARD int uro_service_lock_take(struct uro_port *port, const struct uro_listened *what);
void uro_service_lock_release(struct uro_port *port, const struct uro_listened *what);

/* Closes all descriptors. This releases the locks, except in a forked child, whose parent keeps
 * them. */
void uro_service_lock_close(struct uro_service_locks *claims);
