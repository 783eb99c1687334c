/* SPDX-License-Identifier: BSD-3-Clause */
/* victim.h - a victim's connections: victim.c has what it does with them, victim_meet.c how they come. */
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "../interop/meet.h"

#define VICTIM_LINKS   64u
#define VICTIM_WAIT_MS 20000
#define VICTIM_REQUEST 1u /* wr_id */
#define VICTIM_RECEIVE 2u

struct link {
    struct rdma_cm_id *id;
    struct ibv_cq *cq;
};

/* Makes the queue pair of a connection and remembers it. */
struct link *victim_link(struct rdma_cm_id *id);
/* Of the protection domain of all connections. */
struct ibv_pd *victim_domain(struct ibv_context *device);
void victim_post(struct rdma_cm_id *id);
struct ibv_cq *victim_queue_pair(struct rdma_cm_id *id);

/* Once: listens at @own, or else will ask @peer. */
void victim_meet(const char *own, const char *peer, uint16_t port, int backlog);

/* NULL: @why says what came instead of a connection. */
struct link *victim_connect(const char **why);
struct link *victim_accept(void);

/* Events of a connection since it was established. */
const char *victim_left(const struct rdma_cm_id *id);

/* Takes whoever comes, and keeps a few who do not go on, until there is something to read at
 * @control. Says how many came and how many of them got in. */
void victim_serve(int control, FILE *out);
