/* SPDX-License-Identifier: BSD-3-Clause */
/* queue.h - receives and sends frames: the port operations of the data path. */
#pragma once

#include "io/dpdk/dpdk.h"

uint32_t uro_queue_receive(struct uro_port *port, struct uro_pkt *pkts, uint32_t room);
void uro_queue_release(struct uro_port *port, struct uro_pkt *pkts, uint32_t count);
uint32_t uro_queue_room(struct uro_port *port);
void uro_queue_transmit(struct uro_port *port, const struct uro_tx *tx, uint32_t count);

/* Receives frames and keeps them for the next receive(). Returns true when there are frames. */
bool uro_queue_peek(struct uro_dpdk *dpdk);

/* Frees the waiting frames of both directions. */
void uro_queue_drop_all(struct uro_dpdk *dpdk);
