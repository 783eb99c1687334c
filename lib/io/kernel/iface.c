/* SPDX-License-Identifier: BSD-3-Clause */
/* iface.c - see iface.h. */
#define _GNU_SOURCE /* struct ifreq */
#include "io/kernel/iface.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/* Checks of an interface without a carrier that all ask its driver. After them, one check in
 * ASKED_LATER does. */
#define ASKED_FIRST 32u
#define ASKED_LATER 16u

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
        goto out; /* too long for an interface; cut off, it could name another interface */
    if (ioctl(fd, SIOCGIFINDEX, &ask) != 0)
        goto out;
    state->index = ask.ifr_ifindex;
    if (ioctl(fd, SIOCGIFMTU, &ask) != 0)
        goto out;
    state->mtu = (uint32_t)ask.ifr_mtu;
    if (ioctl(fd, SIOCGIFHWADDR, &ask) != 0)
        goto out;
    state->ethernet =
        ask.ifr_hwaddr.sa_family == ARPHRD_ETHER || ask.ifr_hwaddr.sa_family == ARPHRD_LOOPBACK;
    memcpy(state->mac.octets, ask.ifr_hwaddr.sa_data, sizeof state->mac.octets);
    if (ioctl(fd, SIOCGIFFLAGS, &ask) != 0)
        goto out;
    state->up = (ask.ifr_flags & IFF_UP) != 0;
    state->running = state->up && (ask.ifr_flags & IFF_RUNNING) != 0;
    status = 0;
out:
    if (fd != control)
        close(fd);
    return status;
}

void uro_iface_open(struct uro_iface *iface)
{
    iface->control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

void uro_iface_close(struct uro_iface *iface)
{
    if (iface->control >= 0)
        (void)close(iface->control);
    iface->control = -1;
}

/* Reads the current name of the interface. Returns false when the interface has gone from this
 * network namespace. */
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

/* Returns whether the driver reports a carrier that the kernel has not noticed yet. Linux may
 * notice a change up to a second late, unless the driver is asked for its link. This is not done
 * each time: some drivers wake their NIC for it, and other configuration of interfaces waits
 * meanwhile. */
static bool driver_knows_better(struct uro_iface *iface, const struct uro_iface_state *state)
{
    struct ethtool_value link = { .cmd = ETHTOOL_GLINK };
    const bool in_doubt = state->up && !state->running;
    struct ifreq ask;

    iface->looks = in_doubt ? iface->looks + 1 : 0;
    if (!in_doubt || (iface->looks > ASKED_FIRST && iface->looks % ASKED_LATER != 0))
        return false;
    memset(&ask, 0, sizeof ask);
    memcpy(ask.ifr_name, iface->name, sizeof ask.ifr_name);
    ask.ifr_data = (char *)&link;
    return ioctl(iface->control, SIOCETHTOOL, &ask) == 0 && link.data != 0;
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
    if (driver_knows_better(iface, &state) && !is_there(iface, &state))
        return false;
    if (state.mtu != 0)
        iface->mtu = state.mtu;
    return state.running;
}
