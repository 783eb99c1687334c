/* SPDX-License-Identifier: BSD-3-Clause */
/* demux.h - a received frame goes to the transport, to the connection manager, to the neighbours, to
 * group membership, or is counted. */
#pragma once

#include "core/shard.h"
#include "engine/gsi.h"
#include "engine/member.h"
#include "engine/neigh.h"

/* Who may get a frame; all of one engine. */
struct uro_demux {
    struct uro_shard *shard;
    struct uro_neigh *neigh;
    struct uro_member *member;
    struct uro_gsi *gsi;
};

void uro_demux(const struct uro_demux *to, const struct uro_pkt *pkt, uro_time now);

/* What uro_demux() will look at for a frame that comes soon is asked of memory, step by step: each finds its way by what the
 * one before asked for. */
enum uro_demux_step { URO_DEMUX_BUCKET, URO_DEMUX_CHAIN, URO_DEMUX_PAIR };
void uro_demux_warm(const struct uro_demux *to, const struct uro_pkt *pkt,
                    enum uro_demux_step step);
