/* SPDX-License-Identifier: BSD-3-Clause */
/* inject.h - calls that fail on purpose: fail= of the device. */
#pragma once

#include <infiniband/verbs.h>

#include "config/fail_rules.h"

struct uro_device;

/* Each function counts a call of the verb @call. Returns the error number with which the call must
 * fail, also in errno, or 0. Also raises the event or the signal of the rule. Thread: any; no lock
 * is held. */
int uro_inject(struct ibv_context *context, enum uro_inject_call call);
int uro_inject_cq(struct ibv_cq *cq, enum uro_inject_call call);
int uro_inject_qp(struct ibv_qp *qp, enum uro_inject_call call);

/* Does the same for a verb that gets a device. */
int uro_inject_device(struct uro_device *device, enum uro_inject_call call);
