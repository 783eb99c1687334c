/* SPDX-License-Identifier: BSD-3-Clause */
/* lock.c - the engine lock of a device, and the doorbell that wakes its service thread. */
#include <pthread.h>
#include <unistd.h>

#include "host/device.h"

void uro_progress_lock(struct uro_device *device)
{
    atomic_fetch_add(&device->waiters, 1);
    (void)pthread_mutex_lock(&device->mutex);
    atomic_fetch_sub(&device->waiters, 1);
}

static bool is_running(struct uro_device *device)
{
    return atomic_load_explicit(&device->life, memory_order_acquire) == URO_DEVICE_RUNNING;
}

void uro_device_lock(struct uro_device *device)
{
    uro_progress_lock(device);
    if (is_running(device) && uro_engine_rung(device->engine))
        (void)uro_round_send(device, uro_device_now()); /* a command may destroy the queue pair */
}

void uro_device_unlock(struct uro_device *device)
{
    bool runs = is_running(device);

    if (runs)
        uro_engine_deliver(device->engine); /* a command may have flushed a queue pair */
    (void)pthread_mutex_unlock(&device->mutex);
    if (runs)
        uro_progress_wake(device); /* the command may have queued packets */
}

bool uro_progress_try_lock(struct uro_device *device)
{
    return atomic_load_explicit(&device->waiters, memory_order_relaxed) == 0 &&
           pthread_mutex_trylock(&device->mutex) == 0;
}

void uro_progress_wake(struct uro_device *device)
{
    const uint64_t one = 1;

    if (atomic_load(&device->shared.wake_at) == 0)
        return; /* the thread is awake, and checks for doorbells before it sleeps */
    atomic_store(&device->shared.wake_at, 0);
    if (write(device->doorbell, &one, sizeof one) < 0)
        return; /* the eventfd is full, so it is readable */
}
