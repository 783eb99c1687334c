/* SPDX-License-Identifier: BSD-3-Clause */
/* recent_peers.h - recent destinations of a process. On a shared address a process gets reports
 * about the packets of all processes, and ignores those about other destinations. */
#pragma once

#include "wire/gid.h"

#define URO_RECENT_PEERS_MAX 256u /* slots; a newer destination replaces an older one in its slot */

struct uro_recent_peers {
    struct uro_gid to[URO_RECENT_PEERS_MAX];
};

static inline uint32_t uro_recent_peers_slot(const struct uro_gid *to)
{
    uint64_t hash = uro_gid_hash(to);

    return (uint32_t)(hash ^ hash >> 32 ^ hash >> 56) % URO_RECENT_PEERS_MAX;
}

static inline void uro_recent_peers_note(struct uro_recent_peers *recent_peers,
                                         const struct uro_gid *to)
{
    struct uro_gid *place = &recent_peers->to[uro_recent_peers_slot(to)];

    if (!uro_gid_equal(place, to))
        *place = *to;
}

static inline bool uro_recent_peers_has(const struct uro_recent_peers *recent_peers,
                                        const struct uro_gid *to)
{
    return uro_gid_equal(&recent_peers->to[uro_recent_peers_slot(to)], to);
}
