/* SPDX-License-Identifier: BSD-3-Clause */
/* wait_hook.c - see wait_hook.h for the contract. */
#include "verbs/wait_hook.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/wait_hook.h"
#include "host/waiter.h"

/* Descriptors with higher numbers are not tracked: a thread that waits for them does not run the
 * engine. */
#define FDS 16384

static atomic_bool known[FDS];
static atomic_bool installed;

static bool owns(int fd)
{
    return fd >= 0 && fd < FDS && atomic_load_explicit(&known[fd], memory_order_relaxed);
}

/* Returns the only running device if it has one engine, and begins a wait for it. Otherwise returns
 * NULL. */
static void *begin(void)
{
    struct uro_device *found = NULL;

    for (struct uro_device *const *device = uro_host_devices(); *device != NULL; device++) {
        if (!uro_device_started(*device) || uro_device_dead(*device))
            continue;
        if (found != NULL || uro_device_engines_running(*device) > 1)
            return NULL;
        found = *device;
    }
    if (found != NULL)
        uro_device_wait_begin(found);
    return found;
}

static bool wait_fds(void *device, struct pollfd *fds, nfds_t count, int ms, const sigset_t *mask,
                     int *ready)
{
    return uro_device_wait_fds(device, fds, count, ms, mask, ready);
}

static const struct uro_wait_hooks hooks = { owns, begin, uro_device_wait_end, wait_fds };

/* ISO C has no cast from void * to a function pointer. */
static void install(void)
{
    uroce_install_wait_hooks_fn *install_hooks;
    void *found = dlsym(RTLD_DEFAULT, "uroce_install_wait_hooks");

    if (found == NULL)
        return;
    memcpy(&install_hooks, &found, sizeof install_hooks);
    install_hooks(&hooks);
    atomic_store(&installed, true);
}

void uro_wait_hook_add(int fd)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, install);
    if (fd >= 0 && fd < FDS)
        atomic_store(&known[fd], true);
}

void uro_wait_hook_remove(int fd)
{
    if (fd >= 0 && fd < FDS)
        atomic_store(&known[fd], false);
}

bool uro_wait_hook_installed(void)
{
    return atomic_load_explicit(&installed, memory_order_relaxed);
}
