/* SPDX-License-Identifier: BSD-3-Clause */
/* claim.h - at an address that several processes share, one of them at most listens for a service.
 *
 * The process that listens holds a lock on a file whose name contains network namespace, address
 * and service, in a directory of the user's (meet.h). The kernel frees the lock when the process
 * dies. The broker has no part in it, so that a claim holds while there is none.
 */
#pragma once

#include "engine/engine.h"
#include "engine/port.h"

struct uro_claim {
    int fd;
    struct uro_listened what;
};

/* Of one port; zero: none. */
struct uro_claims {
    struct uro_claim *all;
    uint32_t count;
};

/* What struct uro_port_ops has them for. At an address that is the process' own nothing is
 * claimed. */
URO_NODISCARD int uro_claim_take(struct uro_port *port, const struct uro_listened *what);
void uro_claim_give(struct uro_port *port, const struct uro_listened *what);

/* Gives all of them back; in a forked child it has them no longer, and its parent still does. */
void uro_claim_close(struct uro_claims *claims);
