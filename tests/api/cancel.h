/* SPDX-License-Identifier: BSD-3-Clause */
/* cancel.h - what the parts of test_cancel.c share: threads that are cancelled, and in which calls
 * they may be. */
#pragma once

#include "api/api.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

extern struct cancel_stage {
    struct ibv_context *contexts[2];
    struct ibv_qp_attr way; /* to the second device */
} cancel_stage;

/* The call that this thread is in and that must not be a cancellation point, or NULL. */
extern _Thread_local const char *volatile cancel_inside;

#define CANCEL_CALL(call)                                                                          \
    ({                                                                                             \
        cancel_inside = #call;                                                                     \
        __typeof__(call) cancel_result = (call);                                                   \
        cancel_inside = NULL;                                                                      \
        cancel_result;                                                                             \
    })
#define CANCEL_WAIT(call) (call)

/* In any thread; cmocka's asserts belong to one. */
#define CANCEL_MUST(condition)                                                                     \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);    \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

struct cancel_victim {
    pthread_t thread;
    void (*turn)(void);
    atomic_uint turns;
};

/* Starts a thread that takes turns until it is cancelled, with a cancellation point of its own
 * after each. */
void cancel_start(struct cancel_victim *victim, void (*turn)(void));
/* Cancels it, and checks where it was ended. */
void cancel_end(struct cancel_victim *victim);

/* Identifiers of rdma_cm on channels of their own: made, bound, listened for, resolved, and
 * destroyed. */
void cancel_cm_open(void);
void cancel_cm_turn(void);
/* Events of one channel: made, waited for, and those that no cancelled thread took. */
void cancel_cm_raise(void);
void cancel_cm_wait(void);
void cancel_cm_take_rest(void);
