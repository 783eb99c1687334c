/* SPDX-License-Identifier: BSD-3-Clause */
/* victim.h - the connections of a victim: victim.c uses them, victim_meet.c sets them up. */
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

/* Creates the queue pair of a connection, and adds the connection to the list. */
struct link *victim_link(struct rdma_cm_id *id);
/* Returns the protection domain of all connections. */
struct ibv_pd *victim_domain(struct ibv_context *device);
void victim_post(struct rdma_cm_id *id);
struct ibv_cq *victim_queue_pair(struct rdma_cm_id *id);

/* Listens at @own, or prepares to connect to @peer. Called once. */
void victim_meet(const char *own, const char *peer, uint16_t port, int backlog);

/* Returns a new connection. On failure returns NULL, and @why is the event that arrived instead. */
struct link *victim_connect(const char **why);
struct link *victim_accept(void);

/* Returns the last waiting event of a connection, or "stays" if there is none. Discards the waiting
 * events of all connections. */
const char *victim_left(const struct rdma_cm_id *id);

/* Accepts all connections, and keeps at most 64 half-open ones, until a command can be read from
 * @control. Prints how many requests arrived, and how many of them were established. */
void victim_serve(int control, FILE *out);
