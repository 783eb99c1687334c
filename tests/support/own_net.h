/* SPDX-License-Identifier: BSD-3-Clause */
/* own_net.h - a network namespace for one test program, with nothing in it but loopback, and packets that are
 * written there octet by octet. Needs root. */
#pragma once

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire/ip.h"

/* Its loopback is up, with an MTU of 1500. When this fails it says why, as TAP: the test is skipped. */
static inline bool own_net_enter(void)
{
    struct ifreq lo = { .ifr_name = "lo" };
    bool entered = unshare(CLONE_NEWNET) == 0;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (entered && ioctl(fd, SIOCGIFFLAGS, &lo) == 0) {
        lo.ifr_flags |= IFF_UP | IFF_MULTICAST;
        entered = ioctl(fd, SIOCSIFFLAGS, &lo) == 0;
        lo.ifr_mtu = 1500;
        entered = entered && ioctl(fd, SIOCSIFMTU, &lo) == 0;
    }
    (void)close(fd);
    int raw = entered ? socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW) : -1;
    if (raw >= 0) {
        (void)close(raw);
        return true;
    }
    puts("1..0 # SKIP NOT TESTED: needs root, for a network namespace and raw sockets "
         "(CAP_SYS_ADMIN, CAP_NET_RAW)");
    return false;
}

/* Sends @length octets, from the IPv4 header on; the kernel writes nothing but the checksum of that. */
static inline bool own_net_send(const uint8_t *packet, size_t length)
{
    struct sockaddr_in to = { .sin_family = AF_INET };
    int raw = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);

    const struct ip_mreqn loopback = { .imr_address.s_addr = 0x0100007f };

    memcpy(&to.sin_addr, packet + 16, 4);
    bool sent =
        raw >= 0 && setsockopt(raw, IPPROTO_IP, IP_MULTICAST_IF, &loopback, sizeof loopback) == 0 &&
        sendto(raw, packet, length, 0, (const struct sockaddr *)&to, sizeof to) == (ssize_t)length;
    (void)close(raw);
    return sent;
}
