/* SPDX-License-Identifier: BSD-3-Clause */
/* observer.h - the changes of queue pairs that an engine reports to an observer. */
#pragma once

#include "core/cq.h"
#include "core/qp_state.h"

/* The functions are called by the thread that runs the engine, or that modifies a queue pair. They
 * must not call the engine. */
struct uro_observer {
    /* A queue pair changes its state. @reason: cause of a failure. */
    void (*state)(void *context, uint32_t qpn, enum uro_qp_state from, enum uro_qp_state to,
                  enum uro_fail_reason reason);
    /* A request completed with an error, but was not flushed. */
    void (*failed)(void *context, const struct uro_cqe *cqe);
    void *context;
};
