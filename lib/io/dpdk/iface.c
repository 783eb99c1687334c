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

#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "io/dpdk/iface_tap.h"

#ifndef AF_XDP
#define AF_XDP 44
#endif

#define ROCE_PORT   4791
#define SEND_BUFFER (16 << 20)

int uro_iface_read(int control, const char *name, struct uro_iface_state *state)
{
    int fd = control >= 0 ? control : socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq ask;
    int status = -1;

    if (fd < 0)
        return -1;
    *state = (struct uro_iface_state){ 0 };
    memset(&ask, 0, sizeof ask);
    snprintf(ask.ifr_name, sizeof ask.ifr_name, "%s", name);
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
    /* The driver's other descriptor is detached and refuses the question. */
    return ioctl(fd, TUNGETIFF, &ask) == 0 && strcmp(ask.ifr_name, name) == 0;
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

/* Of IPv4 and IPv6 only RoCE and ICMP pass: whatever else the machine does over this interface is
 * not copied to us, and its frames of more than an MTU (the kernel's segmentation offload) do not
 * arrive cut off. Offsets are those of a frame without VLAN tag, which the kernel takes out. */
static void filter(int fd)
{
    /* clang-format off */
    struct sock_filter code[] = {
        /*  0 */ BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
        /*  1 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 2, 0),
        /*  2 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IPV6, 9, 0),
        /*  3 */ BPF_STMT(BPF_RET | BPF_K, UINT32_MAX), /* ARP, and what is no IP at all */

        /*  4 */ BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 23), /* protocol */
        /*  5 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_ICMP, 10, 0),
        /*  6 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 8),
        /*  7 */ BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 20), /* no later fragments */
        /*  8 */ BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x1fff, 6, 0),
        /*  9 */ BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 14),
        /* 10 */ BPF_STMT(BPF_LD | BPF_H | BPF_IND, 16), /* destination port */
        /* 11 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ROCE_PORT, 4, 3),

        /* 12 */ BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 20), /* next header */
        /* 13 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_ICMPV6, 2, 0),
        /* 14 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 2, 0),
        /* 15 */ BPF_STMT(BPF_RET | BPF_K, 0),
        /* 16 */ BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
        /* 17 */ BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 56), /* destination port */
        /* 18 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ROCE_PORT, 0, 1),
        /* 19 */ BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
        /* 20 */ BPF_STMT(BPF_RET | BPF_K, 0),
    };
    /* clang-format on */
    struct sock_fprog program = { .len = URO_ARRAY_LEN(code), .filter = code };

    (void)setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

/* Each of these is a kindness that an older kernel may lack; without it things work, worse. */
static void teach_packet(const struct uro_iface *iface, bool alien)
{
    int one = 1;
    int size = SEND_BUFFER;
    struct packet_mreq want = { .mr_ifindex = (int)if_nametoindex(iface->name) };

    /* What other sockets send out here is not for us. */
    (void)setsockopt(iface->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one);
    /* The driver blocks for ever where the send buffer is full; the ring is limit enough. */
    if (setsockopt(iface->fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size) != 0)
        (void)setsockopt(iface->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    /* Multicast, and another address than the interface's own, until the socket is closed. */
    want.mr_type = alien ? PACKET_MR_PROMISC : PACKET_MR_ALLMULTI;
    (void)setsockopt(iface->fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &want, sizeof want);
    filter(iface->fd);
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
        teach_packet(iface, alien);
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

bool uro_iface_running(const struct uro_iface *iface)
{
    struct uro_iface_state state;

    return uro_iface_read(iface->control, iface->name, &state) == 0 && state.running;
}
