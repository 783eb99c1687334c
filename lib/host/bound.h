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
    X(NEXT_HOPS, "%" PRIu64 " next hops, one for each peer address, are in use: requests for "     \
                 "more fail (ENOMEM); destroy unused address handles, queue pairs or rdma_cm "     \
                 "identifiers")                                                                    \
    X(GROUPS, "%" PRIu64 " multicast groups are joined: requests for more fail (ENOMEM); detach "  \
              "queue pairs from unused groups")                                                    \
    X(MEMBERS, "%" PRIu64 " queue pairs are attached to one multicast group: requests for more "   \
               "fail (ENOMEM); detach unused queue pairs, or use several processes")               \
    X(SHARED_QPS, "%" PRIu64 " queue pairs exist, the most at an address that several processes "  \
                  "share: requests for more fail (ENOMEM); destroy unused queue pairs, or write "  \
                  "hub=no if no other process uses the address")                                   \
    X(SERVICES, "%" PRIu64 " services have listeners at one address: requests for more fail "      \
                "(ENOMEM); destroy unused listeners, or use several processes")                    \
    X(DEVICE_MEMORY, "the device has %" PRIu64 " bytes of device memory: requests for more fail "  \
                     "(ENOMEM); free unused device memory, or register ordinary memory")

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
