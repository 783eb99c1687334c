/* SPDX-License-Identifier: BSD-3-Clause */
/* receive.h - a RoCE packet for one of our addresses finds its queue pair. */
#pragma once

#include "wire/frame.h"

struct uro_shard;
struct uro_qp;

/* @frame passed uro_frame_roce(). Every refusal is one counter. */
void uro_receive(struct uro_shard *shard, const struct uro_frame *frame);

/* Likewise, once it is known for which queue pair. */
void uro_receive_for(struct uro_qp *qp, const struct uro_frame *frame);
