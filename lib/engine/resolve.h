/* SPDX-License-Identifier: BSD-3-Clause */
/* resolve.h - requests that wait until a next hop answers, and their deadlines.
 *
 * A LOST next hop is asked again as long as it is in use, so it does not end the wait. Only an
 * answer or the deadline does.
 */
#pragma once

#include "engine/neigh.h"

struct uro_resolver {
    struct uro_neigh *neigh;
    struct uro_list waiting;
    struct uro_list done; /* finished requests for uro_resolver_fetch() */
};

void uro_resolver_init(struct uro_resolver *resolver, struct uro_neigh *neigh);

/* Begin, end and fetch requests, as uro_engine_resolve_begin(), uro_engine_resolve_end() and
 * uro_engine_resolved(). */
URO_NODISCARD int uro_resolver_begin(struct uro_resolver *resolver, struct uro_resolve *resolve,
                                     uint8_t sgid_index, const struct uro_gid *dest,
                                     uro_time deadline, uro_time now);
void uro_resolver_end(struct uro_resolver *resolver, struct uro_resolve *resolve);
struct uro_resolve *uro_resolver_fetch(struct uro_resolver *resolver);

/* Finishes the requests whose next hop is known or whose deadline has passed. */
void uro_resolver_run(struct uro_resolver *resolver, uro_time now);

/* Returns the time of the next uro_resolver_run() if no neighbour answers before. */
uro_time uro_resolver_next(const struct uro_resolver *resolver, uro_time now);
