/* SPDX-License-Identifier: BSD-3-Clause */
/* resolve.h - who waits for a next hop to answer, and until when.
 *
 * A lost neighbour is asked again for as long as somebody holds it: only the deadline ends the wait.
 */
#pragma once

#include "engine/neigh.h"

struct uro_resolver {
    struct uro_neigh *neigh;
    struct uro_list waiting;
    struct uro_list done; /* to be fetched */
};

void uro_resolver_init(struct uro_resolver *resolver, struct uro_neigh *neigh);

/* As uro_engine_resolve_begin() and its kin. */
URO_NODISCARD int uro_resolver_begin(struct uro_resolver *resolver, struct uro_resolve *resolve,
                                     uint8_t sgid_index, const struct uro_gid *dest,
                                     uro_time deadline, uro_time now);
void uro_resolver_end(struct uro_resolver *resolver, struct uro_resolve *resolve);
struct uro_resolve *uro_resolver_fetch(struct uro_resolver *resolver);

/* Looks at what neighbours said since, and at the time. */
void uro_resolver_run(struct uro_resolver *resolver, uro_time now);

/* When to run although no neighbour says anything. */
uro_time uro_resolver_next(const struct uro_resolver *resolver, uro_time now);
