/* SPDX-License-Identifier: BSD-3-Clause */
/* demux.h - gives a received frame to the transport, the connection manager, the neighbours or
 * group membership, or counts and drops it. */
#pragma once

#include "core/shard.h"
#include "engine/gsi.h"
#include "engine/multicast.h"
#include "engine/neigh.h"

/* The parts of one engine that may get a frame. */
struct uro_demux {
    struct uro_shard *shard;
    struct uro_neigh *neigh;
    struct uro_member *member;
    struct uro_gsi *gsi;
};

void uro_demux(const struct uro_demux *to, const struct uro_pkt *pkt, uro_time now);

/* The probable queue pair of a frame. number 0: not known. */
struct uro_demux_guess {
    uint32_t number;
    bool response;
};
struct uro_demux_guess uro_demux_guess(const struct uro_pkt *pkt);

/* Prefetches the memory that uro_demux() will read for a frame, in steps: each step reads what the
 * step before prefetched. */
enum uro_demux_step { URO_DEMUX_BUCKET, URO_DEMUX_QP };
void uro_demux_prefetch(const struct uro_demux *to, struct uro_demux_guess guess,
                        enum uro_demux_step step);
