/* SPDX-License-Identifier: BSD-3-Clause */
/* bound.h - the messages on stderr when a device reaches a bound that no key of the configuration sets.
 *
 * The function that refuses a request returns the error. This file prints each message once for each device. To add a bound,
 * add a line below and a row in docs/TROUBLESHOOTING.md.
 */
#pragma once

#include "base/defs.h"

struct uro_device;

/* X(enumerator, "text"): the text says which bound was reached, with its value as PRIu64, and what to do */
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

/* Prints the message of @bound, whose value is @most, unless this device printed it before. Thread: any. */
void uro_bound_say(struct uro_device *device, enum uro_bound bound, uint64_t most);

/* Prints the messages of the bounds that made the engine refuse a request of a program or a peer. Engine lock held. */
void uro_bound_look(struct uro_device *device);
