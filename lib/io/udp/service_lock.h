/* SPDX-License-Identifier: BSD-3-Clause */
/* service_lock.h - at an address that several processes share, one of them at most listens for a
 * service.
 *
 * The process that listens holds a lock on a file whose name contains network namespace, address
 * and service, in a directory of the user's (hub_directory.h). The kernel frees the lock when the
 * process dies. The broker has no part in it, so that a claim holds while there is none.
 */
#pragma once

#include "engine/engine.h"
#include "engine/port.h"

struct uro_service_lock {
    int fd;
    struct uro_listened what;
};

/* Of one port; zero: none. */
struct uro_service_locks {
    struct uro_service_lock *all;
    uint32_t count;
};

/* What struct uro_port_ops has them for. At an address that is the process' own nothing is
 * claimed. */
URO_NODISCARD int uro_service_lock_take(struct uro_port *port, const struct uro_listened *what);
void uro_service_lock_release(struct uro_port *port, const struct uro_listened *what);

/* Gives all of them back; in a forked child it has them no longer, and its parent still does. */
void uro_service_lock_close(struct uro_service_locks *claims);
