/* SPDX-License-Identifier: BSD-3-Clause */
/* gsi.h - queue pair 1: carries the connection manager's datagrams (IBTA Vol. 1, "General Services
 * Interface").
 */
#pragma once

#include "cm/cm.h"
#include "core/path.h"
#include "core/shard.h"
#include "engine/neigh.h"

/* Datagrams whose next hop is asked for, or that are being written: a host that nobody sent to yet may
 * ask for as many connections at once, and have all its answers when its MAC address is known. */
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
    struct uro_list waiting; /* for their next hop, oldest first */
    struct uro_list written; /* described in the last output */
    struct uro_gsi_slot slots[URO_GSI_WAITING];
};

void uro_gsi_init(struct uro_gsi *gsi, struct uro_shard *shard, struct uro_neigh *neigh,
                  struct uro_cm *cm);

/* A packet for QPN 1. */
void uro_gsi_receive(struct uro_gsi *gsi, const struct uro_frame *frame, uro_time now);

/* A frame of ICMP or ICMPv6. When it says that nobody has the port that a connection manager's datagram went to, the
 * connection manager hears of it. */
void uro_gsi_icmp(struct uro_gsi *gsi, const struct uro_frame *frame, uro_time now);

/* Describes at most @room datagrams; their octets are ours until the next call. */
URO_NODISCARD uint32_t uro_gsi_output(struct uro_gsi *gsi, struct uro_tx *tx, uint32_t room,
                                      uro_time now);

/* Nothing that was collected is still to be sent. */
bool uro_gsi_idle(const struct uro_gsi *gsi);

uro_time uro_gsi_next(const struct uro_gsi *gsi);
