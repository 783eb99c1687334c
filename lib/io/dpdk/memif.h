/* SPDX-License-Identifier: BSD-3-Clause */
/* memif.h - what DPDK's memif driver leaves to its user: connecting again, and a safe end. */
#pragma once

#include <stdatomic.h>
#include <time.h>

#include <rte_spinlock.h>

#include "base/defs.h"
#include "io/dpdk/memif_wake.h"

struct uro_dpdk;
struct uro_link;

struct uro_memif {
    bool client;   /* the side that connects */
    bool tried;    /* a connection was asked for and has not been up since */
    int64_t since; /* ms; when it was asked for */
    void *device;  /* DPDK's own handle */
    char socket[128];

    rte_spinlock_t lock;   /* held while frames move, and while the memory they use goes away */
    atomic_bool connected; /* set and cleared by DPDK's interrupt thread */
    atomic_bool refused;   /* the server ended the handshake: no use in waiting for its end */
    struct uro_memif_wake wake;
    struct uro_memif *next;
};

void uro_memif_init(struct uro_dpdk *dpdk, const struct uro_link *link);

/* Starts the port. A client whose server is absent starts too: tend() keeps trying.
 * Returns 0 or what DPDK says. */
URO_NODISCARD int uro_memif_start(struct uro_dpdk *dpdk);
void uro_memif_forget(struct uro_dpdk *dpdk);

/* Connects again when it is time to. From the thread that drives the port. */
void uro_memif_tend(struct uro_dpdk *dpdk);

static inline void uro_memif_enter(struct uro_memif *memif)
{
    rte_spinlock_lock(&memif->lock);
}

static inline void uro_memif_leave(struct uro_memif *memif)
{
    rte_spinlock_unlock(&memif->lock);
}
