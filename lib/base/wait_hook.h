/* SPDX-License-Identifier: BSD-3-Clause */
/* wait_hook.h - lets a thread of the program that waits in poll() or epoll_wait() for a descriptor
 * of libibverbs run the engine meanwhile.
 *
 * liburoce-paths.so replaces these functions and epoll_pwait(). libibverbs.so.1 contains the
 * engine, and installs its functions with uroce_install_wait_hooks() when liburoce-paths.so is
 * preloaded.
 */
#pragma once

#include <poll.h>
#include <signal.h>
#include <stdbool.h>

struct uro_wait_hooks {
    /* Returns whether @fd belongs to a completion channel, an event channel or a device. */
    bool (*owns)(int fd);
    /* Counts the calling thread as waiting. Returns the device. Returns NULL if no device runs, or
     * several devices: the caller must then call the original function. */
    void *(*begin)(void);
    /* Ends the wait that begin() counted. @device is the result of begin(). */
    void (*end)(void *device);
    /* Waits like ppoll(), with a timeout of @ms milliseconds. Returns false if another thread runs
     * the engine: the caller must then call the original function. Writes the result of ppoll(), or
     * -errno, to *@ready. This is a cancellation point. */
    bool (*wait)(void *device, struct pollfd *fds, nfds_t count, int ms, const sigset_t *mask,
                 int *ready);
};

typedef void uroce_install_wait_hooks_fn(const struct uro_wait_hooks *hooks);
