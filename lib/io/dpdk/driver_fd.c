/* SPDX-License-Identifier: BSD-3-Clause */
/* driver_fd.c - see dpdk.h. DPDK has no function that returns the descriptor of a driver, so this
 * file compares the process's descriptors before and after the driver opens its device. */
#define _GNU_SOURCE /* F_GETSIG */
#include "io/dpdk/dpdk.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <linux/if_tun.h>
#include <net/if.h>

#ifndef AF_XDP
#define AF_XDP 44
#endif

static bool is_xdp(int fd)
{
    int domain = 0;
    socklen_t length = sizeof domain;

    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 && domain == AF_XDP;
}

static bool tap_of(int fd, const char *name)
{
    struct ifreq request;

    memset(&request, 0, sizeof request);
    /* The driver also has a detached queue, whose only purpose is that the interface continues to
     * exist. */
    return ioctl(fd, TUNGETIFF, &request) == 0 && strcmp(request.ifr_name, name) == 0 &&
           (request.ifr_flags & IFF_DETACH_QUEUE) == 0;
}

void uro_source_fds(struct uro_source_fds *fds, const char *name)
{
    DIR *folder = opendir("/proc/self/fd");
    struct dirent *entry;

    fds->count = 0;
    if (folder == NULL)
        return;
    while ((entry = readdir(folder)) != NULL && fds->count < URO_SOURCE_FDS_MAX) {
        char *end;
        long fd = strtol(entry->d_name, &end, 10);

        if (end == entry->d_name || fd == dirfd(folder))
            continue;
        if (is_xdp((int)fd) || tap_of((int)fd, name))
            fds->list[fds->count++] = (int)fd;
    }
    closedir(folder);
}

static bool listed(const struct uro_source_fds *fds, int fd)
{
    for (uint32_t i = 0; i < fds->count; i++)
        if (fds->list[i] == fd)
            return true;
    return false;
}

/* Turns off the signal of @fd, from which DPDK's tap driver reads. Returns the driver's signal
 * handler, or NULL when it has none.
 *
 * That driver requests a real-time signal from the kernel for every frame. It reads its descriptor
 * only if its signal handler has run since the last read that found nothing. In a verbs program
 * this fails in three ways. If a thread blocks the signal, or the program takes all signals with
 * sigwait(), reception stops. If more frames arrive than the signal queue holds, the kernel sends
 * SIGIO instead, which ends the process. And every frame interrupts some system call of the
 * program. So the signal is turned off directly after the start, and its action is reset. The
 * handler is called as a plain function before each read. */
static void (*turn_off_signal(int fd))(int)
{
    int flags = fcntl(fd, F_GETFL);
    int number = fcntl(fd, F_GETSIG);
    struct sigaction action;
    struct sigaction none = { .sa_handler = SIG_IGN };

    if (flags < 0 || number <= 0 || (flags & O_ASYNC) == 0)
        return NULL;
    if (sigaction(number, NULL, &action) != 0)
        return NULL;
    fcntl(fd, F_SETFL, flags & ~O_ASYNC);
    /* Ignoring the signal discards a pending one; the default action would end the process. */
    sigaction(number, &none, NULL);
    none.sa_handler = SIG_DFL;
    sigaction(number, &none, NULL);
    return action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN ? NULL : action.sa_handler;
}

void uro_source_find(struct uro_source *source, const char *name,
                     const struct uro_source_fds *before)
{
    struct uro_source_fds after;

    *source = URO_SOURCE_INIT;
    uro_source_fds(&after, name);
    for (uint32_t i = 0; i < after.count; i++) {
        if (listed(before, after.list[i]))
            continue;
        source->fd = after.list[i];
        if (!is_xdp(source->fd))
            source->trigger = turn_off_signal(source->fd);
        return;
    }
}
