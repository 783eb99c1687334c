/* SPDX-License-Identifier: BSD-3-Clause */
/* fork.c - a child of a process whose engine ran has the memory but neither the service thread nor
 * a port of its own: DPDK cannot be initialised twice. Its devices answer EIO. The parent goes on
 * undisturbed, because the engine copies packets with the CPU and pins no pages. */
#include "host/fork.h"

#include <pthread.h>
#include <stdatomic.h>

#include "host/device.h"

static struct uro_device *const *watched;
static atomic_bool dead;

bool uro_host_forked(void)
{
    return atomic_load_explicit(&dead, memory_order_relaxed);
}

/* The engine stands still while the address space is copied: the child sees whole objects. */
static void prepare(void)
{
    for (struct uro_device *const *device = watched; *device != NULL; device++) {
        (void)pthread_mutex_lock(&(*device)->start_lock);
        (void)pthread_mutex_lock(&(*device)->mutex);
    }
}

static void release(void)
{
    for (struct uro_device *const *device = watched; *device != NULL; device++) {
        (void)pthread_mutex_unlock(&(*device)->mutex);
        (void)pthread_mutex_unlock(&(*device)->start_lock);
    }
}

/* Who posted meanwhile left it to whoever had the lock. */
static void in_parent(void)
{
    release();
    for (struct uro_device *const *device = watched; *device != NULL; device++)
        if (atomic_load(&(*device)->life) == URO_DEVICE_RUNNING)
            uro_progress_wake(*device);
}

static void in_child(void)
{
    for (struct uro_device *const *device = watched; *device != NULL; device++)
        if (atomic_load(&(*device)->life) != URO_DEVICE_IDLE) {
            atomic_store(&dead, true);
            uro_ask_forked(*device);
        }
    release();
}

void uro_fork_watch(struct uro_device *const *devices)
{
    watched = devices;
    (void)pthread_atfork(prepare, in_parent, in_child);
}
