/* SPDX-License-Identifier: BSD-3-Clause */
/* demux.h - a received frame goes to the transport, to the neighbours, to group membership, or is
 * counted. */
#pragma once

#include "core/shard.h"
#include "engine/member.h"
#include "engine/neigh.h"

void uro_demux(struct uro_shard *shard, struct uro_neigh *neigh, struct uro_member *member,
               const struct uro_pkt *pkt, uro_time now);
