/* SPDX-License-Identifier: BSD-3-Clause */
/* bound.h - the bounds of a device that no key of the configuration sets: what stderr says when one is reached.
 *
 * Whoever refuses returns the error; here is only the line, once for each device and bound. To add a bound: a line below,
 * and a row in docs/TROUBLESHOOTING.md.
 */
#pragma once

#include "base/defs.h"

struct uro_device;

/* X(enumerator, "text": what ran out, with the bound as PRIu64, and what to do) */
#define URO_BOUNDS(X)                                                                              \
    X(NEXT_HOPS, "%" PRIu64 " next hops, one for each peer address, are in use, and more are "     \
                 "refused (ENOMEM); the program has to destroy address handles, queue pairs or "   \
                 "rdma_cm identifiers")                                                            \
    X(GROUPS, "%" PRIu64 " multicast groups are joined, and more are refused (ENOMEM); the "       \
              "program has to detach from some")                                                   \
    X(MEMBERS, "%" PRIu64 " queue pairs are attached to one multicast group, and more are "        \
               "refused (ENOMEM); the program has to detach some, or to use several processes")    \
    X(SHARED_QPS, "%" PRIu64 " queue pairs exist, and more are refused (ENOMEM), because other "   \
                  "processes use the address, too; the program has to destroy some, or hub=no "    \
                  "gives it the address alone")                                                    \
    X(SERVICES, "%" PRIu64 " services are listened for at one address, and more are refused "      \
                "(ENOMEM); the program has to destroy some, or to use several processes")          \
    X(DEVICE_MEMORY, "more than %" PRIu64 " bytes of device memory are refused (ENOMEM); the "     \
                     "program has to free some, or to register ordinary memory")

enum uro_bound {
#define X(id, text) URO_BOUND_##id,
    URO_BOUNDS(X)
#undef X
        URO_BOUND_COUNT
};

/* Says, the first time, that the device has all of it, which is @most. Thread: any. */
void uro_bound_say(struct uro_device *device, enum uro_bound bound, uint64_t most);

/* Says what the engine refused since, to programs and to peers. The engine lock is held. */
void uro_bound_look(struct uro_device *device);
