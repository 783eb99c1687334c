/* SPDX-License-Identifier: BSD-3-Clause */
/* finish.c - what happens to devices when the process ends.
 *
 * The peers of its connections are told, as the kernel does for a process that ends: a DREQ for each
 * connection, a REJ for each that was not made yet. A peer that answers has read it; who does not in a
 * moment is not waited for.
 *
 * The port is then closed, so that a peer sees it go and nothing is left behind, but only when that is
 * safe: the service thread must have ended and no other thread may be inside. A process that ends
 * in the middle of things (exit in a signal handler) is not held up for longer than PATIENCE.
 *
 * What was sent last, often the acknowledgement of what the peer sent last, may still lie in memory
 * shared with the peer, and goes away with the port: a process that ends right after sending
 * something lingers until its peer had time to read.
 */
#define _GNU_SOURCE /* pthread_timedjoin_np */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "host/capture.h"
#include "host/device.h"

#define PATIENCE_NS 300000000L
#define LINGER      URO_MS(50) /* a peer that is ready to run has been given a processor by then */
#define GOODBYE                                                                                    \
    URO_MS(300) /* at most; next hops may have to be asked for, peers be given a processor */
#define LOOK_NS 100000L /* while they are */

/* verbose=yes: what the engine counted, when the process ends. */
static void report(const struct uro_device *device)
{
    const struct uro_counters *counters = uro_engine_counters(device->engine);

    for (unsigned i = 0; i < URO_COUNTER_COUNT; i++)
        if (counters->value[i] != 0)
            fprintf(stderr, "uroce: %s: %-22s %12llu  %s\n", device->config.name,
                    uro_counter_name((enum uro_counter)i), (unsigned long long)counters->value[i],
                    uro_counter_text((enum uro_counter)i));
}

static struct timespec patience(void)
{
    uro_time until = uro_host_wall_clock() + PATIENCE_NS;

    return (struct timespec){ .tv_sec = (time_t)(until / 1000000000u),
                              .tv_nsec = (long)(until % 1000000000u) };
}

static void linger(const struct uro_device *device)
{
    uro_time until = atomic_load(&device->shared.sent_at) + LINGER;
    uro_time now = uro_device_now();
    struct timespec left = { .tv_nsec = (long)(until - now) };

    if (now < until)
        (void)nanosleep(&left, NULL);
}

/* The engine lock is held. Nobody is there any more to hear of events. */
static void say_goodbye(struct uro_device *device)
{
    const struct timespec nap = { .tv_nsec = LOOK_NS };
    uro_time now = uro_device_now();
    uro_time until = now + GOODBYE;
    uint32_t received;

    while (!uro_engine_end_connections(device->engine, now) && device->link_up && now < until) {
        if (uro_round_run(device, true, now, &received) == 0)
            (void)nanosleep(&nap, NULL);
        now = uro_device_now();
    }
}

bool uro_finish_device(struct uro_device *device)
{
    linger(device);
    struct timespec until = patience();

    atomic_store(&device->stopping, true);
    uro_progress_wake(device);
    if (pthread_equal(pthread_self(), device->thread) ||
        pthread_timedjoin_np(device->thread, NULL, &until) != 0)
        return false;
    if (pthread_mutex_timedlock(&device->mutex, &until) != 0)
        return false;
    if (uro_engine_rung(device->engine))
        (void)uro_round_send(device, uro_device_now());
    say_goodbye(device);
    linger(device);
    if (device->config.verbose)
        report(device);
    uro_capture_close(device);
    device->port->ops->close(device->port);
    device->closed = true; /* the engine stays: programs clean up later than this, too */
    (void)pthread_mutex_unlock(&device->mutex);
    return true;
}

static void finish_all(void)
{
    if (uro_host_cloned()) /* what runs is the parent's */
        return;
    uro_host_set_sink(NULL);
    uro_host_set_conn_sink(NULL);
    for (struct uro_device *const *device = uro_host_known(); *device != NULL; device++)
        if (uro_device_started(*device))
            (void)!uro_finish_device(*device);
}

static void watch(void)
{
    /* Registered after the plug-in was loaded, so it runs before the plug-in's own end. */
    (void)atexit(finish_all);
}

void uro_finish_watch(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, watch);
}
