/* SPDX-License-Identifier: BSD-3-Clause */
/* iface.c - see iface.h. */
#define _GNU_SOURCE /* Linux's socket options */
#include "io/kernel/iface.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/ethtool.h>
#include <linux/filter.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>

/* Each of the first ASKED_FIRST checks that find no carrier asks the driver. After them, only one
 * in ASKED_LATER checks asks it. */
#define ASKED_FIRST 32u
#define ASKED_LATER 16u

int uro_iface_read(int control, const char *name, struct uro_iface_state *state)
{
    int fd = control >= 0 ? control : socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq request;
    int status = -1;

    if (fd < 0)
        return -1;
    *state = (struct uro_iface_state){ 0 };
    memset(&request, 0, sizeof request);
    if (snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name) >=
        (int)sizeof request.ifr_name)
        goto out; /* too long; a truncated name could be that of another interface */
    if (ioctl(fd, SIOCGIFINDEX, &request) != 0)
        goto out;
    state->index = request.ifr_ifindex;
    if (ioctl(fd, SIOCGIFMTU, &request) != 0)
        goto out;
    state->mtu = (uint32_t)request.ifr_mtu;
    if (ioctl(fd, SIOCGIFHWADDR, &request) != 0)
        goto out;
    state->ethernet = request.ifr_hwaddr.sa_family == ARPHRD_ETHER ||
                      request.ifr_hwaddr.sa_family == ARPHRD_LOOPBACK;
    memcpy(state->mac.octets, request.ifr_hwaddr.sa_data, sizeof state->mac.octets);
    if (ioctl(fd, SIOCGIFFLAGS, &request) != 0)
        goto out;
    state->up = (request.ifr_flags & IFF_UP) != 0;
    state->running = state->up && (request.ifr_flags & IFF_RUNNING) != 0;
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

/* Reads the current name of the interface. Returns false when the interface is no longer in this
 * network namespace. */
static bool find_name(struct uro_iface *iface)
{
    struct ifreq request;

    memset(&request, 0, sizeof request);
    request.ifr_ifindex = iface->index;
    if (ioctl(iface->control, SIOCGIFNAME, &request) != 0)
        return false;
    snprintf(iface->name, sizeof iface->name, "%s", request.ifr_name);
    return true;
}

static bool is_there(const struct uro_iface *iface, struct uro_iface_state *state)
{
    return uro_iface_read(iface->control, iface->name, state) == 0 && state->index == iface->index;
}

/* Returns whether the driver reports a carrier that the kernel has not noticed yet. Linux may
 * notice a change up to a second late, unless the driver is asked for its link. The driver is not
 * asked each time, because some drivers wake their NIC to answer, and because the kernel holds the
 * lock of its interface configuration in this time. */
static bool driver_knows_better(struct uro_iface *iface, const struct uro_iface_state *state)
{
    struct ethtool_value link = { .cmd = ETHTOOL_GLINK };
    const bool in_doubt = state->up && !state->running;
    struct ifreq request;

    iface->looks = in_doubt ? iface->looks + 1 : 0;
    if (!in_doubt || (iface->looks > ASKED_FIRST && iface->looks % ASKED_LATER != 0))
        return false;
    memset(&request, 0, sizeof request);
    memcpy(request.ifr_name, iface->name, sizeof request.ifr_name);
    request.ifr_data = (char *)&link;
    return ioctl(iface->control, SIOCETHTOOL, &request) == 0 && link.data != 0;
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

/* ---- ICMP errors ------------------------------------------------------- */

#define ROCE_PORT 4791u

union address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
};

static in_port_t roce_port(void)
{
    const uint8_t octets[2] = { ROCE_PORT >> 8, ROCE_PORT & 0xff };
    in_port_t port;

    memcpy(&port, octets, sizeof port);
    return port;
}

static socklen_t fill(union address *to, const struct uro_gid *gid, uint32_t interface)
{
    static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

    memset(to, 0, sizeof *to);
    if (memcmp(gid->octets, mapped, sizeof mapped) == 0) {
        to->four.sin_family = AF_INET;
        to->four.sin_port = roce_port();
        memcpy(&to->four.sin_addr, gid->octets + sizeof mapped, sizeof to->four.sin_addr);
        return sizeof to->four;
    }
    to->six.sin6_family = AF_INET6;
    to->six.sin6_port = roce_port();
    memcpy(&to->six.sin6_addr, gid->octets, sizeof to->six.sin6_addr);
    if (gid->octets[0] == 0xfe && (gid->octets[1] & 0xc0) == 0x80)
        to->six.sin6_scope_id = interface;
    return sizeof to->six;
}

/* Opens a socket that receives nothing, because a filter drops every packet before it is queued. */
static int discard_socket(const union address *address, socklen_t length)
{
    struct sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
    struct sock_fprog program = { .len = 1, .filter = &nothing };
    int one = 1;
    int fd = socket(address->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        bind(fd, &address->any, length) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

void uro_icmp_suppress_start(struct uro_icmp_suppress *suppress,
                             const struct uro_port_config *config, uint32_t interface)
{
    union address address;

    suppress->count = 0;
    for (uint32_t i = 0; i < config->address_count && suppress->count < URO_ICMP_SUPPRESS_MAX;
         i++) {
        socklen_t length = fill(&address, &config->addresses[i], interface);
        int fd = discard_socket(&address, length);

        /* A failure is harmless. Either the kernel does not have the address, or another process
         * has the port. In both cases the kernel sends no ICMP errors. */
        if (fd >= 0)
            suppress->sockets[suppress->count++] = fd;
    }
}

void uro_icmp_suppress_stop(struct uro_icmp_suppress *suppress)
{
    for (uint32_t i = 0; i < suppress->count; i++)
        close(suppress->sockets[i]);
    suppress->count = 0;
}
