/* SPDX-License-Identifier: BSD-3-Clause */
/* one.h - the first device and RC queue pairs on it, with plain verbs, for benchmark programs. A
 * failure ends the program with the line of the failed call.
 */
#pragma once

#include <stdint.h>

#include <infiniband/verbs.h>

#define ONE_PORT 1
#define ONE_GID  1 /* the first address of the configuration */

#define ONE_MUST(condition) one_must((condition) != 0, #condition, __FILE__, __LINE__)
void one_must(int holds, const char *what, const char *file, int line);

struct ibv_context *one_open(void);
/* Creates an RC queue pair for @depth sends and @depth receives of one element. */
struct ibv_qp *one_qp(struct ibv_pd *pd, struct ibv_cq *cq, uint32_t depth);
/* Moves the queue pair to RTS. The first PSN is 0 in both directions. At most one READ or atomic is
 * outstanding. The peer may use WRITE, READ and atomics. */
void one_connect(struct ibv_qp *qp, const union ibv_gid *peer, uint32_t qpn);
/* Returns the time of CLOCK_MONOTONIC, which all processes share. */
int64_t one_now_ns(void);
