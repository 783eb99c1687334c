/* SPDX-License-Identifier: BSD-3-Clause */
/* cancel.h - the shared parts of test_cancel.c: threads that are cancelled, and the calls in which
 * they may be cancelled. */
#pragma once

#include "api/api.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

extern struct cancel_devices {
    struct ibv_context *contexts[2];
    struct ibv_qp_attr way; /* attributes with a path to the second device */
} cancel_devices;

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

/* An assertion for any thread: cmocka's assertions work in one thread only. */
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

/* Starts a thread that calls @turn repeatedly until it is cancelled. After each call there is a
 * cancellation point. */
void cancel_start(struct cancel_victim *victim, void (*turn)(void));
/* Cancels the thread, and checks in which call the thread ended. */
void cancel_end(struct cancel_victim *victim);

/* Creates the shared event channel, and its identifier. */
void cancel_cm_open(void);
/* For a thread to cancel: uses identifiers of rdma_cm on a channel of its own. */
void cancel_cm_turn(void);
/* Causes an event of the shared channel, and counts it. */
void cancel_cm_raise(void);
/* For a thread to cancel: waits for an event of the shared channel, and counts it. */
void cancel_cm_wait(void);
/* Takes the events that no cancelled thread took, and destroys the shared channel. */
void cancel_cm_take_rest(void);
