/* SPDX-License-Identifier: BSD-3-Clause */
/* schedule.h - whose turn it is to send: fair between queue pairs, answers before requests. */
#pragma once

#include "base/time.h"
#include "core/tx.h"

struct uro_shard;

/* Hears the bells, lets due timers act, then describes at most @room packets. */
URO_NODISCARD uint32_t uro_schedule_output(struct uro_shard *shard, struct uro_tx *tx,
                                           uint32_t room);

/* Hears the bells only. */
void uro_schedule_hear(struct uro_shard *shard);

/* Some next hop changed: everybody who may have waited for it is looked at again. */
void uro_schedule_all(struct uro_shard *shard);

/* As uro_engine_next(). */
uro_time uro_schedule_next(const struct uro_shard *shard);
