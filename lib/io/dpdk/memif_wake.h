/* SPDX-License-Identifier: BSD-3-Clause */
/* memif_wake.h - a memif peer writes an eventfd when it is asked to; DPDK's driver never asks. */
#pragma once

#include "base/defs.h"

struct uro_dpdk;

struct uro_memif_wake {
    int retry; /* a timer, for a client without a server */
    bool retrying;
    int doorbell; /* the eventfd the peer writes; owned, -1 while not known */
    uint8_t *ring;
};

/* False when this DPDK's driver is laid out in a way we do not know: the port is polled. */
bool uro_memif_wake_known(const struct uro_dpdk *dpdk);

URO_NODISCARD bool uro_memif_wake_start(struct uro_dpdk *dpdk);
void uro_memif_wake_stop(struct uro_dpdk *dpdk);
bool uro_memif_wake_arm(struct uro_dpdk *dpdk);
void uro_memif_wake_disarm(struct uro_dpdk *dpdk);

/* The ring is about to go. With the port's lock held, from any thread. */
void uro_memif_wake_gone(struct uro_dpdk *dpdk);
