/* SPDX-License-Identifier: BSD-3-Clause */
/* gsi.h - queue pair 1: carries the connection manager's datagrams (IBTA Vol. 1, "General Services
 * Interface").
 */
#pragma once

#include "cm/cm.h"
#include "core/path.h"
#include "core/shard.h"
#include "engine/neigh.h"

/* Maximum number of datagrams that wait for their next hop or are being written. A new host may
 * send this many connection requests at once. It gets all answers as soon as its MAC address is
 * known. */
#define URO_GSI_WAITING 256u

struct uro_gsi_slot {
    struct uro_link link;
    struct uro_hop *hop;
    struct uro_cm_out out;
};

struct uro_gsi {
    struct uro_shard *shard;
    struct uro_neigh *neigh;
    struct uro_cm *cm;
    uint32_t psn;
    struct uro_list unused;
    struct uro_list waiting; /* datagrams that wait for their next hop, oldest first */
    struct uro_list written; /* datagrams described in the last output */
    struct uro_gsi_slot slots[URO_GSI_WAITING];
};

void uro_gsi_init(struct uro_gsi *gsi, struct uro_shard *shard, struct uro_neigh *neigh,
                  struct uro_cm *cm);

/* Handles a packet for QPN 1. */
void uro_gsi_receive(struct uro_gsi *gsi, const struct uro_frame *frame, uro_time now);

/* Handles a frame of ICMP or ICMPv6. Records a port-unreachable error for a RoCE packet. If the
 * packet was a datagram of the connection manager, also informs the connection manager. */
void uro_gsi_icmp(struct uro_gsi *gsi, const struct uro_frame *frame, uro_time now);

/* Describes at most @max datagrams. Their spans are memory of @gsi, valid until the next output. */
URO_NODISCARD uint32_t uro_gsi_output(struct uro_gsi *gsi, struct uro_tx *tx, uint32_t max,
                                      uro_time now);

/* Returns whether no datagram waits for its next hop. */
bool uro_gsi_idle(const struct uro_gsi *gsi);

uro_time uro_gsi_next(const struct uro_gsi *gsi);
