/* SPDX-License-Identifier: BSD-3-Clause */
/* uc.h - unreliable connections: two ends that send each other what may be lost.
 *
 * A message arrives whole or not at all. The last life begins when faults have stopped: all of it must
 * arrive.
 */
#pragma once

#include "sim/work/endpoint.h"

struct uro_frame;

/* Number @number of the workload's plan. */
void sim_uc_init(struct sim_life *life, struct sim_workload *load, uint32_t number);
/* False when the frame is of no unreliable connection of the workload. */
bool sim_uc_wire(struct sim_workload *load, struct sim_host *host, const struct uro_frame *frame);
