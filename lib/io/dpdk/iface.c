/* SPDX-License-Identifier: BSD-3-Clause */
/* iface.c - ports over an interface of the kernel's: its descriptor, its state, its manners.
 *
 * DPDK's drivers for such interfaces tell neither which descriptor they read from nor whether the
 * interface is up, so both are found out beside them.
 */
#include "io/dpdk/iface.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "io/dpdk/iface_packet.h"
#include "io/dpdk/iface_tap.h"

#ifndef AF_XDP
#define AF_XDP 44
#endif

int uro_iface_read(int control, const char *name, struct uro_iface_state *state)
{
    int fd = control >= 0 ? control : socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq ask;
    int status = -1;

    if (fd < 0)
        return -1;
    *state = (struct uro_iface_state){ 0 };
    memset(&ask, 0, sizeof ask);
    if (snprintf(ask.ifr_name, sizeof ask.ifr_name, "%s", name) >= (int)sizeof ask.ifr_name)
        goto out; /* no interface has so long a name; a shorter one would be another */
    if (ioctl(fd, SIOCGIFINDEX, &ask) != 0)
        goto out;
    state->index = ask.ifr_ifindex;
    if (ioctl(fd, SIOCGIFMTU, &ask) != 0)
        goto out;
    state->mtu = (uint32_t)ask.ifr_mtu;
    if (ioctl(fd, SIOCGIFHWADDR, &ask) != 0)
        goto out;
    memcpy(state->mac.octets, ask.ifr_hwaddr.sa_data, sizeof state->mac.octets);
    if (ioctl(fd, SIOCGIFFLAGS, &ask) != 0)
        goto out;
    state->running = (ask.ifr_flags & IFF_UP) != 0 && (ask.ifr_flags & IFF_RUNNING) != 0;
    status = 0;
out:
    if (fd != control)
        close(fd);
    return status;
}

static bool socket_of(int fd, int index)
{
    struct sockaddr_ll address = { 0 };
    socklen_t length = sizeof address;
    int domain = 0;
    socklen_t domain_length = sizeof domain;

    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &domain_length) != 0)
        return false;
    if (domain == AF_XDP)
        return true;
    return domain == AF_PACKET && getsockname(fd, (struct sockaddr *)&address, &length) == 0 &&
           address.sll_ifindex == index;
}

static bool tap_of(int fd, const char *name)
{
    struct ifreq ask;

    memset(&ask, 0, sizeof ask);
    /* The driver has a detached one, too, which only keeps the interface alive. */
    return ioctl(fd, TUNGETIFF, &ask) == 0 && strcmp(ask.ifr_name, name) == 0 &&
           (ask.ifr_flags & IFF_DETACH_QUEUE) == 0;
}

void uro_iface_fds(struct uro_iface_fds *fds, const char *name)
{
    DIR *folder = opendir("/proc/self/fd");
    int index = (int)if_nametoindex(name);
    struct dirent *entry;

    fds->count = 0;
    if (folder == NULL)
        return;
    while ((entry = readdir(folder)) != NULL && fds->count < URO_IFACE_FDS_MAX) {
        char *end;
        long fd = strtol(entry->d_name, &end, 10);

        if (end == entry->d_name || fd == dirfd(folder))
            continue;
        if (socket_of((int)fd, index) || tap_of((int)fd, name))
            fds->list[fds->count++] = (int)fd;
    }
    closedir(folder);
}

static bool listed(const struct uro_iface_fds *fds, int fd)
{
    for (uint32_t i = 0; i < fds->count; i++)
        if (fds->list[i] == fd)
            return true;
    return false;
}

static int domain_of(int fd)
{
    int domain = -1;
    socklen_t length = sizeof domain;

    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 ? domain : -1;
}

void uro_iface_attach(struct uro_iface *iface, const struct uro_iface_fds *before, bool alien)
{
    struct uro_iface_fds after;

    iface->fd = -1;
    iface->control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    uro_iface_fds(&after, iface->name);
    for (uint32_t i = 0; i < after.count; i++) {
        if (listed(before, after.list[i]))
            continue;
        iface->fd = after.list[i];
        break;
    }
    if (iface->fd < 0)
        return;
    if (domain_of(iface->fd) == AF_PACKET)
        uro_iface_packet_teach(iface->fd, iface->name, alien);
    else if (domain_of(iface->fd) < 0)
        iface->trigger = uro_iface_tap_calm(iface->fd);
}

void uro_iface_detach(struct uro_iface *iface)
{
    if (iface->control >= 0)
        close(iface->control);
    iface->control = -1;
    iface->fd = -1;
}

/* The name that the interface has now; false when it is gone, from here at least. */
static bool find_name(struct uro_iface *iface)
{
    struct ifreq ask;

    memset(&ask, 0, sizeof ask);
    ask.ifr_ifindex = iface->index;
    if (ioctl(iface->control, SIOCGIFNAME, &ask) != 0)
        return false;
    snprintf(iface->name, sizeof iface->name, "%s", ask.ifr_name);
    return true;
}

static bool is_there(const struct uro_iface *iface, struct uro_iface_state *state)
{
    return uro_iface_read(iface->control, iface->name, state) == 0 && state->index == iface->index;
}

bool uro_iface_running(struct uro_iface *iface)
{
    struct uro_iface_state state = { 0 };

    if (iface->gone)
        return false;
    if (!is_there(iface, &state) && iface->control >= 0) {
        iface->gone = !find_name(iface);
        if (iface->gone || !is_there(iface, &state))
            return false;
    }
    if (state.mtu != 0)
        iface->mtu = state.mtu;
    return state.running;
}
