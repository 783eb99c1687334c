/* SPDX-License-Identifier: BSD-3-Clause */
/* receive.h - a RoCE packet for one of our addresses finds its queue pair. */
#pragma once

#include "wire/frame.h"

struct uro_shard;

/* @frame passed uro_frame_roce(). Every refusal is one counter. */
void uro_receive(struct uro_shard *shard, const struct uro_frame *frame);
