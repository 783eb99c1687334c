/* SPDX-License-Identifier: BSD-3-Clause */
/* memif_listen.c - the listening socket of memif servers: DPDK's driver opens it for good.
 *
 * When the last server of a socket closes, the driver frees what belongs to the socket but keeps
 * it open and keeps listening, with a callback into freed memory. So the callback is noted when
 * the driver registers it (--wrap), and taken back here.
 */
#define ALLOW_EXPERIMENTAL_API
#include "io/dpdk/memif_listen.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <rte_interrupts.h>

#include "io/dpdk/link.h"

#define LISTENERS_MAX 16u

struct listener {
    uint32_t users; /* 0: free */
    char path[sizeof((struct uro_link *)0)->socket];
    const struct rte_intr_handle *handle; /* the driver's */
    rte_intr_callback_fn function;
    void *argument;
};

int __real_rte_intr_callback_register(const struct rte_intr_handle *handle,
                                      rte_intr_callback_fn function, void *argument);
int __wrap_rte_intr_callback_register(const struct rte_intr_handle *handle,
                                      rte_intr_callback_fn function, void *argument);

static struct listener listeners[LISTENERS_MAX];

/* Where this thread notes a registration, while it plugs a device. */
static _Thread_local struct listener *noting;
static _Thread_local struct listener noted;

int __wrap_rte_intr_callback_register(const struct rte_intr_handle *handle,
                                      rte_intr_callback_fn function, void *argument)
{
    if (noting != NULL)
        *noting = (struct listener){ .handle = handle, .function = function, .argument = argument };
    return __real_rte_intr_callback_register(handle, function, argument);
}

static struct listener *find(const char *path)
{
    for (uint32_t i = 0; i < LISTENERS_MAX; i++)
        if (listeners[i].users > 0 && strcmp(listeners[i].path, path) == 0)
            return &listeners[i];
    return NULL;
}

static struct listener *find_free(void)
{
    for (uint32_t i = 0; i < LISTENERS_MAX; i++)
        if (listeners[i].users == 0)
            return &listeners[i];
    return NULL;
}

void uro_memif_listen_begin(void)
{
    noted = (struct listener){ 0 };
    noting = &noted;
}

void uro_memif_listen_end(const struct uro_link *link, bool plugged)
{
    noting = NULL;
    if (link->client || !plugged)
        return;
    struct listener *listener = find(link->socket);
    if (listener != NULL) {
        listener->users++;
        return;
    }
    listener = find_free();
    if (listener == NULL || noted.handle == NULL)
        return;
    *listener = noted;
    listener->users = 1;
    snprintf(listener->path, sizeof listener->path, "%s", link->socket);
}

void uro_memif_listen_close(const char *path)
{
    struct listener *listener = find(path);

    if (listener == NULL || --listener->users > 0)
        return;
    int fd = rte_intr_fd_get(listener->handle);
    rte_intr_callback_unregister_sync(listener->handle, listener->function, listener->argument);
    close(fd);
}
