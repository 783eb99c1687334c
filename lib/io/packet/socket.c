/* SPDX-License-Identifier: BSD-3-Clause */
/* socket.c - see socket.h. */
#define _GNU_SOURCE /* Linux's socket options */
#include "io/packet/socket.h"

#include <errno.h>
#include <stdio.h>

#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/utsname.h>

#include "wire/ip.h"

#define SEND_BUFFER   (4 << 20) /* limit of data in the kernel's queues */
#define JOINS_VERSION 6u
#define JOINS_LEVEL   2u

int uro_packet_socket(void)
{
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

    return fd < 0 ? -errno : fd;
}

bool uro_packet_socket_can_join(void)
{
    struct utsname name;
    unsigned version, level;

    return uname(&name) == 0 && sscanf(name.release, "%u.%u", &version, &level) == 2 &&
           (version > JOINS_VERSION || (version == JOINS_VERSION && level >= JOINS_LEVEL));
}

/* Attaches a filter that passes only RoCE, ICMP, IGMP and MLD of IPv4 and IPv6, so that the kernel
 * does not copy other traffic of the interface to us. Offsets are those of a frame without a VLAN
 * tag, which the kernel removes. */
static void filter(int fd)
{
    /* clang-format off */
    struct sock_filter code[] = {
        /*  0 */ BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
        /*  1 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 2, 0),
        /*  2 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IPV6, 10, 0),
        /*  3 */ BPF_STMT(BPF_RET | BPF_K, UINT32_MAX), /* ARP, and all other protocols but IP */

        /*  4 */ BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 23), /* protocol */
        /*  5 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_ICMP, 15, 0),
        /*  6 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_IGMP, 14, 0),
        /*  7 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 14),
        /*  8 */ BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 20), /* no later fragments */
        /*  9 */ BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x1fff, 12, 0),
        /* 10 */ BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 14),
        /* 11 */ BPF_STMT(BPF_LD | BPF_H | BPF_IND, 16), /* destination port */
        /* 12 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, URO_ROCE_PORT, 8, 9),

        /* 13 */ BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 20), /* next header */
        /* 14 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_ICMPV6, 6, 0),
        /* 15 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 3, 0),
        /* 16 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_HOPOPTS, 0, 5),
        /* 17 */ BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 54), /* the header after the options */
        /* 18 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_ICMPV6, 2, 3),
        /* 19 */ BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 56), /* destination port */
        /* 20 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, URO_ROCE_PORT, 0, 1),
        /* 21 */ BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
        /* 22 */ BPF_STMT(BPF_RET | BPF_K, 0),
    };
    /* clang-format on */
    struct sock_fprog program = { .len = URO_ARRAY_LEN(code), .filter = code };

    (void)setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

void uro_packet_socket_teach(int fd, int interface, bool alien, bool qdisc_bypass)
{
    const int one = 1, bypass = qdisc_bypass;
    const int size = SEND_BUFFER;
    /* Receives multicast, and packets to an address that is not the interface's own, until the
     * socket is closed. */
    const struct packet_mreq want = { .mr_ifindex = interface,
                                      .mr_type = alien ? PACKET_MR_PROMISC : PACKET_MR_ALLMULTI };

    /* Packets that other sockets send over the interface are not for us. */
    (void)setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one);
    (void)setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &bypass, sizeof bypass);
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size) != 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    (void)setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &want, sizeof want);
    filter(fd);
}

int uro_packet_socket_bind(int fd, int interface)
{
    const uint8_t octets[2] = { ETH_P_ALL >> 8, ETH_P_ALL & 0xff };
    struct sockaddr_ll at = { .sll_family = AF_PACKET, .sll_ifindex = interface };

    __builtin_memcpy(&at.sll_protocol, octets, sizeof octets);
    return bind(fd, (struct sockaddr *)&at, sizeof at) != 0 ? -errno : 0;
}

uint32_t uro_packet_socket_drops(int fd)
{
    struct tpacket_stats said = { 0 };
    socklen_t length = sizeof said;

    return getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &said, &length) == 0 ? said.tp_drops : 0;
}

void uro_packet_socket_forget_error(int fd)
{
    int error;
    socklen_t length = sizeof error;

    (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
}
