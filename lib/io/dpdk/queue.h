/* SPDX-License-Identifier: BSD-3-Clause */
/* queue.h - frames in, frames out: the port operations of the data path. */
#pragma once

#include "io/dpdk/dpdk.h"

uint32_t uro_queue_receive(struct uro_port *port, struct uro_pkt *pkts, uint32_t room);
void uro_queue_release(struct uro_port *port, struct uro_pkt *pkts, uint32_t count);
uint32_t uro_queue_room(struct uro_port *port);
void uro_queue_transmit(struct uro_port *port, const struct uro_tx *tx, uint32_t count);

/* Looks for frames and keeps them for the next receive(); true when there are some. */
bool uro_queue_peek(struct uro_dpdk *dpdk);

/* Frees what waits in either direction. */
void uro_queue_drop_all(struct uro_dpdk *dpdk);
