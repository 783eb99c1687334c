/* SPDX-License-Identifier: BSD-3-Clause */
/* sent.h - where a process sent to lately: of a shared address the network's reports come to all of
 * its processes. */
#pragma once

#include "wire/gid.h"

#define URO_SENT_PLACES 256u /* of two in one place the later one is known */

struct uro_sent {
    struct uro_gid to[URO_SENT_PLACES];
};

static inline uint32_t uro_sent_place(const struct uro_gid *to)
{
    uint64_t hash = uro_gid_hash(to);

    return (uint32_t)(hash ^ hash >> 32 ^ hash >> 56) % URO_SENT_PLACES;
}

static inline void uro_sent_note(struct uro_sent *sent, const struct uro_gid *to)
{
    struct uro_gid *place = &sent->to[uro_sent_place(to)];

    if (!uro_gid_equal(place, to))
        *place = *to;
}

static inline bool uro_sent_has(const struct uro_sent *sent, const struct uro_gid *to)
{
    return uro_gid_equal(&sent->to[uro_sent_place(to)], to);
}
