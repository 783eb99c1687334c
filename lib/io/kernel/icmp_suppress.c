/* SPDX-License-Identifier: BSD-3-Clause */
/* icmp_suppress.c - stops the kernel from answering RoCE packets with ICMP errors. */
#define _GNU_SOURCE /* Linux's socket options */
#include "io/kernel/icmp_suppress.h"

#include <string.h>
#include <unistd.h>

#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>

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

/* Opens a socket that receives nothing: a filter drops every packet before it is queued. */
static int deaf_socket(const union address *address, socklen_t length)
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

void uro_icmp_suppress_start(struct uro_icmp_suppress *quiet, const struct uro_port_config *config,
                             uint32_t interface)
{
    union address address;

    quiet->count = 0;
    for (uint32_t i = 0; i < config->address_count && quiet->count < URO_ICMP_SUPPRESS_MAX; i++) {
        socklen_t length = fill(&address, &config->addresses[i], interface);
        int fd = deaf_socket(&address, length);

        /* Failure is harmless: the kernel does not have the address, or another process listens
         * there. In both cases the kernel sends no ICMP errors. */
        if (fd >= 0)
            quiet->sockets[quiet->count++] = fd;
    }
}

void uro_icmp_suppress_stop(struct uro_icmp_suppress *quiet)
{
    for (uint32_t i = 0; i < quiet->count; i++)
        close(quiet->sockets[i]);
    quiet->count = 0;
}
