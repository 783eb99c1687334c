/* SPDX-License-Identifier: BSD-3-Clause */
/* iface_packet.c - manners for the packet socket of DPDK's af_packet driver. */
#include "io/dpdk/iface_packet.h"

#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#define ROCE_PORT   4791
#define SEND_BUFFER (16 << 20)

int __real_setsockopt(int fd, int level, int name, const void *value, socklen_t length);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t length);

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
    if (level == SOL_PACKET && name == PACKET_FANOUT)
        return 0;
    return __real_setsockopt(fd, level, name, value, length);
}

/* Of IPv4 and IPv6 only RoCE, ICMP, IGMP and MLD pass: whatever else the machine does over this
 * interface is not copied to us, and its frames of more than an MTU (the kernel's segmentation
 * offload) do not arrive cut off. Offsets are those of a frame without VLAN tag, which the kernel
 * takes out. */
static void filter(int fd)
{
    /* clang-format off */
    struct sock_filter code[] = {
        /*  0 */ BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
        /*  1 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 2, 0),
        /*  2 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IPV6, 10, 0),
        /*  3 */ BPF_STMT(BPF_RET | BPF_K, UINT32_MAX), /* ARP, and what is no IP at all */

        /*  4 */ BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 23), /* protocol */
        /*  5 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_ICMP, 15, 0),
        /*  6 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_IGMP, 14, 0),
        /*  7 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 14),
        /*  8 */ BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 20), /* no later fragments */
        /*  9 */ BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x1fff, 12, 0),
        /* 10 */ BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 14),
        /* 11 */ BPF_STMT(BPF_LD | BPF_H | BPF_IND, 16), /* destination port */
        /* 12 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ROCE_PORT, 8, 9),

        /* 13 */ BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 20), /* next header */
        /* 14 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_ICMPV6, 6, 0),
        /* 15 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 3, 0),
        /* 16 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_HOPOPTS, 0, 5),
        /* 17 */ BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 54), /* the header behind the options */
        /* 18 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_ICMPV6, 2, 3),
        /* 19 */ BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 56), /* destination port */
        /* 20 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ROCE_PORT, 0, 1),
        /* 21 */ BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
        /* 22 */ BPF_STMT(BPF_RET | BPF_K, 0),
    };
    /* clang-format on */
    struct sock_fprog program = { .len = URO_ARRAY_LEN(code), .filter = code };

    (void)setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

/* Each of these is a kindness that an older kernel may lack; without it things work, worse. */
void uro_iface_packet_teach(int fd, const char *interface, bool alien)
{
    int one = 1;
    int size = SEND_BUFFER;
    struct packet_mreq want = { .mr_ifindex = (int)if_nametoindex(interface) };

    /* What other sockets send out here is not for us. */
    (void)setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one);
    /* The driver blocks for ever where the send buffer is full; the ring is limit enough. */
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size) != 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    /* Multicast, and another address than the interface's own, until the socket is closed. */
    want.mr_type = alien ? PACKET_MR_PROMISC : PACKET_MR_ALLMULTI;
    (void)setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &want, sizeof want);
    filter(fd);
}
