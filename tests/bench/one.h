/* SPDX-License-Identifier: BSD-3-Clause */
/* one.h - the first device, by the verbs that programs use, and RC queue pairs of it; for programs
 * that measure. What fails ends the program, which says where.
 */
#pragma once

#include <stdint.h>

#include <infiniband/verbs.h>

#define ONE_PORT 1
#define ONE_GID  1 /* the first address of the configuration */

#define ONE_MUST(condition) one_must((condition) != 0, #condition, __FILE__, __LINE__)
void one_must(int holds, const char *what, const char *file, int line);

struct ibv_context *one_open(void);
/* RC, @depth requests of one element each way. */
struct ibv_qp *one_qp(struct ibv_pd *pd, struct ibv_cq *cq, uint32_t depth);
/* To RTS, first PSN 0 both ways, one READ or atomic outstanding; the peer may write and read. */
void one_connect(struct ibv_qp *qp, const union ibv_gid *peer, uint32_t qpn);
/* Of CLOCK_MONOTONIC, which all processes share. */
int64_t one_now_ns(void);
