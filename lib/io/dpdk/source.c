/* SPDX-License-Identifier: BSD-3-Clause */
/* source.c - see source.h. DPDK has no function that returns the descriptor of a driver, so this
 * file compares the process's descriptors before and after the driver opens its device. */
#include "io/dpdk/source.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include <linux/if_tun.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "io/dpdk/source_tap.h"

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
    struct ifreq ask;

    memset(&ask, 0, sizeof ask);
    /* The driver also has a detached queue, which only keeps the interface alive. */
    return ioctl(fd, TUNGETIFF, &ask) == 0 && strcmp(ask.ifr_name, name) == 0 &&
           (ask.ifr_flags & IFF_DETACH_QUEUE) == 0;
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
            source->trigger = uro_source_tap_calm(source->fd);
        return;
    }
}
