/* SPDX-License-Identifier: BSD-3-Clause */
/* claim.h - at an address that several processes share, one of them at most listens for a service.
 *
 * Who listens holds an abstract Unix socket whose name says user, address and service. The kernel keeps two
 * from having it, in the network namespace whose port it is, and takes it back from who dies; the broker has
 * no part in it, so that it holds while there is none.
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

/* What struct uro_port_ops has them for. At an address that is the process' own nothing is claimed. */
URO_NODISCARD int uro_claim_take(struct uro_port *port, const struct uro_listened *what);
void uro_claim_give(struct uro_port *port, const struct uro_listened *what);

/* Gives all of them back; in a forked child it has them no longer, and its parent still does. */
void uro_claim_close(struct uro_claims *claims);
