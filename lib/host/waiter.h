/* SPDX-License-Identifier: BSD-3-Clause */
/* waiter.h - threads of the program that wait for events, and run the engine meanwhile. For
 * lib/verbs. Needs a POSIX signal.h (_GNU_SOURCE).
 */
#pragma once

#include <poll.h>
#include <signal.h>

#include "host/host.h"

/* A queue of events, as uro_device_wait() sees it. */
struct uro_event_source {
    int fd; /* readable while there are events */
    void *queue;
    void (*collect)(void *queue); /* begins a time in which events need not make `fd` readable */
    const void *(*collected)(void *queue); /* ends this time; returns the oldest event, or NULL */
};

/* Add the calling thread to the number of threads that wait for events, and remove it again. */
void uro_device_wait_begin(struct uro_device *device);
void uro_device_wait_end(void *device);

/* Waits for an event of @source, and runs the engine while it waits, so that a frame wakes the
 * program directly. Returns the event, or NULL. If *@interrupted is true after NULL, a signal
 * handler without SA_RESTART ran. If *@interrupted is false after NULL, another thread runs the
 * engine or the device ends, and the caller must block on the descriptor. A cancellation point.
 * Call between uro_device_wait_begin() and uro_device_wait_end(). */
const void *uro_device_wait(struct uro_device *device, const struct uro_event_source *source,
                            bool *interrupted);

/* Maximum number of descriptors that uro_device_wait_fds() accepts. */
#define URO_WAIT_FDS_MAX 8u

/* Waits like ppoll() for @count descriptors, and runs the engine while it waits. Returns false if
 * another thread runs the engine, the device ends, or there are too many descriptors. Then the
 * caller must wait itself. @ms: time limit; -1: none. @mask has the signals that are blocked, or
 * is NULL. *@ready is the result of the wait, or -errno. A cancellation point. Call between
 * uro_device_wait_begin() and uro_device_wait_end(). */
bool uro_device_wait_fds(struct uro_device *device, struct pollfd *fds, nfds_t count, int ms,
                         const sigset_t *mask, int *ready);

/* Returns whether a waiting thread returned the service role less than URO_ROLE_GRACE ago. Until
 * that time has passed, the service thread leaves the role free for the next wait of the program.
 */
bool uro_device_had_waiter(const struct uro_device *device);
