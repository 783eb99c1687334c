/* SPDX-License-Identifier: BSD-3-Clause */
/* load_poll.h - completion queues of a load and who reads them, by polling or by waiting for events. */
#pragma once

#include "core/cq.h"
#include "io/sim/station.h"

struct uro_load;

/* A completion queue and who reads it. */
struct uro_load_cq {
    struct uro_node poller;
    struct uro_load *load;
    struct uro_station *station;
    struct uro_rng rng;
    void (*take)(struct uro_load_cq *cq, const struct uro_cqe *cqe);
    void *owner;    /* for take() */
    void *memory;   /* owned */
    void *ring;     /* owned; NULL: it was not resized */
    uint32_t least; /* the smallest it may become */
    struct uro_cq *cq;
    bool armed;        /* waits for an event */
    bool told;         /* the event came */
    bool overflowed;   /* so it was told */
    uint32_t last;     /* its end then: nothing comes any more */
    uint32_t wait_max; /* ns between a completion and its poll */
    uro_time poll_at;
};

void uro_load_poll_init(struct uro_load_cq *cq, struct uro_load *load, struct uro_station *station,
                        uint32_t capacity);
void uro_load_poll_fini(struct uro_load_cq *cq);
/* Nobody uses it: another one takes its place. */
void uro_load_poll_renew(struct uro_load_cq *cq, uint32_t capacity);
/* A completion of a queue pair of the load's pairs. */
void uro_load_poll_take(struct uro_load_cq *cq, const struct uro_cqe *cqe);
/* Nothing waits in it; NULL: nothing ever does. */
bool uro_load_poll_empty(const struct uro_cq *cq);
/* Takes what there is now. */
void uro_load_poll_now(struct uro_load_cq *cq);
