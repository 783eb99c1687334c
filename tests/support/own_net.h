/* SPDX-License-Identifier: BSD-3-Clause */
/* own_net.h - a network namespace for one test program, with only the loopback interface, and
 * functions that send raw packets there. Needs root. */
#pragma once

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include <net/if.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire/gid.h"
#include "wire/ip.h"

#define OWN_NET_UNREACHABLE 3 /* ICMP type */
#define OWN_NET_NO_PORT     3 /* ICMP codes */
#define OWN_NET_NARROW      4

/* Enters a new namespace, whose loopback interface is up and has an MTU of 1500. On failure, prints
 * a TAP line that skips the test, and returns false. */
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

/* Sends a packet of @length bytes that begins with an IPv4 header. The kernel computes the
 * checksum of this header. */
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

/* Sends an ICMP error with the source address @to, which says that a RoCE packet from @from to @to
 * could not be delivered. @mtu is used only for OWN_NET_NARROW. */
static inline bool own_net_report(const struct uro_gid *from, const struct uro_gid *to,
                                  uint8_t code, uint16_t mtu)
{
    const uint16_t octets = 300; /* length that the quoted header claims */
    uint8_t packet[URO_IPV4_LEN + 8 + URO_IPV4_LEN + URO_UDP_LEN] = { 0 };
    uint8_t *icmp = packet + URO_IPV4_LEN, *quoted = icmp + 8;
    struct uro_ip ip = { .hop_limit = 64,
                         .protocol = URO_IPPROTO_ICMP,
                         .payload_length = sizeof packet - URO_IPV4_LEN,
                         .source = *to,
                         .dest = *from };
    const struct uro_udp udp = { .source_port = URO_ROCE_PORT,
                                 .dest_port = URO_ROCE_PORT,
                                 .length = (uint16_t)(URO_UDP_LEN + octets) };

    (void)uro_ip_put(packet, &ip);
    ip = (struct uro_ip){ .dont_fragment = true,
                          .hop_limit = 64,
                          .protocol = URO_IPPROTO_UDP,
                          .payload_length = (uint16_t)(URO_UDP_LEN + octets),
                          .source = *from,
                          .dest = *to };
    (void)uro_ip_put(quoted, &ip);
    uro_udp_encode(quoted + URO_IPV4_LEN, &udp);
    icmp[0] = OWN_NET_UNREACHABLE;
    icmp[1] = code;
    uro_put_be16(icmp + 6, mtu);
    uro_put_be16(icmp + 2, uro_ip_sum_finish(uro_ip_sum(0, icmp, sizeof packet - URO_IPV4_LEN)));
    return own_net_send(packet, sizeof packet);
}

/* Sends an ICMPv6 error from @address to itself, which says that a packet was too big for @mtu. */
static inline bool own_net_report6(const struct uro_gid *address, uint32_t mtu)
{
    const uint16_t octets = 300; /* length that the quoted header claims */
    uint8_t icmp[8 + URO_IPV6_LEN + URO_UDP_LEN] = { ICMP6_PACKET_TOO_BIG };
    struct sockaddr_in6 to = { .sin6_family = AF_INET6 };
    const struct uro_ip ip = { .v6 = true,
                               .hop_limit = 64,
                               .protocol = URO_IPPROTO_UDP,
                               .payload_length = (uint16_t)(URO_UDP_LEN + octets),
                               .source = *address,
                               .dest = *address };
    const struct uro_udp udp = { .source_port = URO_ROCE_PORT,
                                 .dest_port = URO_ROCE_PORT,
                                 .length = (uint16_t)(URO_UDP_LEN + octets) };

    uro_put_be32(icmp + 4, mtu);
    (void)uro_ip_put(icmp + 8, &ip);
    uro_udp_encode(icmp + 8 + URO_IPV6_LEN, &udp);
    memcpy(&to.sin6_addr, address->octets, sizeof to.sin6_addr);
    int raw = socket(AF_INET6, SOCK_RAW | SOCK_CLOEXEC,
                     IPPROTO_ICMPV6); /* the kernel computes the checksum */
    bool sent = raw >= 0 && sendto(raw, icmp, sizeof icmp, 0, (const struct sockaddr *)&to,
                                   sizeof to) == (ssize_t)sizeof icmp;
    (void)close(raw);
    return sent;
}
