/* SPDX-License-Identifier: BSD-3-Clause */
/* sock.c - see sock.h. */
#define _GNU_SOURCE /* options of Linux */
#include "io/udp/sock.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/errqueue.h>
#include <net/if.h>

#include "io/udp/raw_tap.h"
#include "wire/ip.h"

/* Options of <netinet/udp.h> and <linux/udp.h>, which some C libraries lack. */
#define UDP_OPTION_NO_CHECK6_RX 102
#define UDP_OPTION_SEGMENT      103
#define UDP_OPTION_GRO          104

/* A whole window must fit in the receive buffer. The kernel limits the size to net.core.rmem_max,
 * unless the process has CAP_NET_ADMIN. */
#define BUFFER_BYTES (8 * 1024 * 1024)

union uro_sock_address uro_sock_address_of(const struct uro_gid *gid, uint16_t port)
{
    union uro_sock_address out;

    memset(&out, 0, sizeof out);
    if (uro_gid_is_ipv4(gid)) {
        out.v4.sin_family = AF_INET;
        uro_put_be16((uint8_t *)&out.v4.sin_port, port);
        memcpy(&out.v4.sin_addr, &gid->octets[12], 4);
    } else {
        out.v6.sin6_family = AF_INET6;
        uro_put_be16((uint8_t *)&out.v6.sin6_port, port);
        memcpy(&out.v6.sin6_addr, gid->octets, 16);
    }
    return out;
}

socklen_t uro_sock_address_length(const union uro_sock_address *address)
{
    return address->any.sa_family == AF_INET ? sizeof address->v4 : sizeof address->v6;
}

struct uro_gid uro_sock_gid_of(const union uro_sock_address *address)
{
    struct uro_gid gid;

    if (address->any.sa_family == AF_INET)
        return uro_gid_from_ipv4((const uint8_t *)&address->v4.sin_addr);
    memcpy(gid.octets, &address->v6.sin6_addr, sizeof gid.octets);
    return gid;
}

uint16_t uro_sock_port_of(const union uro_sock_address *address)
{
    return uro_get_be16((const uint8_t *)(address->any.sa_family == AF_INET
                                              ? &address->v4.sin_port
                                              : &address->v6.sin6_port));
}

static bool set(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof value) == 0;
}

static int get(int fd, int level, int option)
{
    int value = 0;
    socklen_t length = sizeof value;

    return getsockopt(fd, level, option, &value, &length) == 0 ? value : 0;
}

/* Sets the IP options. PROBE sets DF, and ignores ICMP "fragmentation needed" messages, which any
 * host can forge. With DF on an unconnected socket, the identification is 0, or for segments 0, 1,
 * 2 ... Most RoCE senders leave out the UDP checksum, also over IPv6, because the ICRC protects the
 * packet. The socket accepts such packets. */
static bool set_network_options(int fd, bool v6)
{
    if (v6)
        return set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1) &&
               set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE) &&
               set(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1) &&
               set(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1) &&
               set(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, URO_SOCK_HOP_LIMIT) &&
               set(fd, IPPROTO_IPV6, IPV6_RECVERR, 1) &&
               set(fd, IPPROTO_UDP, UDP_OPTION_NO_CHECK6_RX, 1);
    return set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE) &&
           set(fd, IPPROTO_IP, IP_RECVTOS, 1) && set(fd, IPPROTO_IP, IP_RECVTTL, 1) &&
           set(fd, IPPROTO_IP, IP_TTL, URO_SOCK_HOP_LIMIT) && set(fd, IPPROTO_IP, IP_RECVERR, 1);
}

static void set_buffers(struct uro_sock *sock)
{
    if (!set(sock->fd, SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES))
        (void)set(sock->fd, SOL_SOCKET, SO_RCVBUF, BUFFER_BYTES);
    if (!set(sock->fd, SOL_SOCKET, SO_SNDBUFFORCE, BUFFER_BYTES))
        (void)set(sock->fd, SOL_SOCKET, SO_SNDBUF, BUFFER_BYTES);
    sock->receive_buffer = (uint32_t)get(sock->fd, SOL_SOCKET, SO_RCVBUF);
}

static void explain(const struct uro_gid *address, int reason,
                    char error[static URO_PORT_ERROR_MAX])
{
    char text[URO_GID_TEXT_MAX], owner[URO_PORT_OWNER_TEXT_MAX];

    uro_gid_text(address, text);
    if (reason == EINVAL && uro_gid_is_link_local(address))
        reason = EADDRNOTAVAIL; /* no interface has the address, so it has no scope */
    switch (reason) {
    case EADDRINUSE:
        uro_port_owner_find(address, URO_ROCE_PORT, owner);
        (void)snprintf(error, URO_PORT_ERROR_MAX,
                       "UDP port %u of %s is taken by %s; give this process a different address "
                       "with ip=, or end the other process",
                       URO_ROCE_PORT, text, owner);
        break;
    case EADDRNOTAVAIL:
        (void)snprintf(error, URO_PORT_ERROR_MAX,
                       "this machine has no address %s; see `ip address`, or use ip=auto", text);
        break;
    case EMFILE:
        (void)snprintf(error, URO_PORT_ERROR_MAX,
                       "UDP port %u of %s: no file descriptor is left (EMFILE); raise `ulimit -n`",
                       URO_ROCE_PORT, text);
        break;
    default:
        (void)snprintf(error, URO_PORT_ERROR_MAX, "UDP port %u of %s: %s", URO_ROCE_PORT, text,
                       strerror(reason));
    }
}

uint32_t uro_sock_interface(const struct uro_gid *address)
{
    struct ifaddrs *all;
    uint32_t index = 0;

    if (getifaddrs(&all) != 0)
        return 0;
    for (const struct ifaddrs *entry = all; entry != NULL && index == 0; entry = entry->ifa_next) {
        const union uro_sock_address *has = (const void *)entry->ifa_addr;
        if (has == NULL || has->any.sa_family != AF_INET6)
            continue;
        const struct uro_gid gid = uro_sock_gid_of(has);
        if (uro_gid_equal(&gid, address))
            index = if_nametoindex(entry->ifa_name);
    }
    freeifaddrs(all);
    return index;
}

/* Selects the interface of @address for multicast. If that interface has no multicast, sending
 * returns the error. */
void uro_sock_set_multicast(int fd, const struct uro_gid *address)
{
    if (uro_gid_is_ipv4(address)) {
        struct ip_mreqn interface = { 0 };
        memcpy(&interface.imr_address, &address->octets[12], 4);
        (void)setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &interface, sizeof interface);
        (void)set(fd, IPPROTO_IP, IP_MULTICAST_TTL, URO_SOCK_HOP_LIMIT);
        return;
    }
    (void)set(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, (int)uro_sock_interface(address));
    (void)set(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, URO_SOCK_HOP_LIMIT);
}

int uro_sock_make(bool v6)
{
    int fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0 || set_network_options(fd, v6))
        return fd;
    int reason = errno;
    (void)close(fd);
    errno = reason;
    return -1;
}

int uro_sock_try_bind(const struct uro_gid *address, bool shared)
{
    union uro_sock_address own = uro_sock_address_of(address, URO_ROCE_PORT);
    int fd = uro_sock_make(own.any.sa_family == AF_INET6);

    if (uro_gid_is_link_local(
            address)) /* every link has such addresses, so the kernel needs the interface */
        own.v6.sin6_scope_id = uro_sock_interface(address);

    if (fd >= 0 && (!shared || set(fd, SOL_SOCKET, SO_REUSEPORT, 1)) &&
        bind(fd, &own.any, uro_sock_address_length(&own)) == 0)
        return fd;
    const int reason = errno;
    if (fd >= 0)
        (void)close(fd);
    return -reason;
}

int uro_sock_bind(const struct uro_gid *address, bool shared, char error[static URO_PORT_ERROR_MAX])
{
    const int fd = uro_sock_try_bind(address, shared);

    if (fd < 0) {
        explain(address, -fd, error);
        return -1;
    }
    uro_sock_set_multicast(fd, address);
    return fd;
}

void uro_sock_start(struct uro_sock *sock, int fd, const struct uro_gid *address,
                    const struct uro_sock_options *options)
{
    sock->fd = fd;
    sock->address = *address;
    sock->v6 = !uro_gid_is_ipv4(address);
    set_buffers(sock);
    /* Setting segment size 0 changes nothing, and fails if the kernel has no segmentation. */
    sock->segments = options->segments && set(fd, IPPROTO_UDP, UDP_OPTION_SEGMENT, 0);
    /* The socket of a share may have belonged to another process, with another setting. */
    sock->coalesces =
        set(fd, IPPROTO_UDP, UDP_OPTION_GRO, options->coalesces) && options->coalesces;
}

bool uro_sock_busy_poll(struct uro_sock *sock, uint32_t us, char error[static URO_PORT_ERROR_MAX])
{
    if (us == 0 || set(sock->fd, SOL_SOCKET, SO_BUSY_POLL, (int)us))
        return true;
    (void)snprintf(error, URO_PORT_ERROR_MAX, "link udp: busy-poll=%u: %s%s", us, strerror(errno),
                   errno == EPERM ? "; give the process CAP_NET_ADMIN, or leave out busy-poll="
                                  : "");
    return false;
}

void uro_sock_close(struct uro_sock *sock)
{
    if (sock->fd >= 0)
        (void)close(sock->fd);
    sock->fd = -1;
    uro_raw_tap_close(sock->raw_tap);
    sock->raw_tap = NULL;
}

/* Reads the reason of an error report from @cmsg. Returns false if @cmsg has no error report. */
static bool read_reason(const struct cmsghdr *cmsg, struct uro_sock_report *report)
{
    struct sock_extended_err reason;

    if (!(cmsg->cmsg_level == IPPROTO_IP && cmsg->cmsg_type == IP_RECVERR) &&
        !(cmsg->cmsg_level == IPPROTO_IPV6 && cmsg->cmsg_type == IPV6_RECVERR))
        return false;
    memcpy(&reason, CMSG_DATA(cmsg), sizeof reason);
    report->error = reason.ee_errno;
    report->info = reason.ee_info;
    report->network =
        reason.ee_origin == SO_EE_ORIGIN_ICMP || reason.ee_origin == SO_EE_ORIGIN_ICMP6;
    return true;
}

bool uro_sock_take_report(int fd, struct uro_sock_report *report)
{
    for (;;) {
        _Alignas(struct cmsghdr) char control[256];
        struct iovec quoted = { report->quoted, sizeof report->quoted };
        struct msghdr message = { .msg_name = &report->to,
                                  .msg_namelen = sizeof report->to,
                                  .msg_iov = &quoted,
                                  .msg_iovlen = 1,
                                  .msg_control = control,
                                  .msg_controllen = sizeof control };
        memset(report, 0, sizeof *report);
        ssize_t length = recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT);
        if (length < 0)
            return false;
        report->quoted_length = (uint32_t)length;
        if (message.msg_namelen == 0) /* the kernel itself refused the packet */
            report->to.any.sa_family = AF_UNSPEC;
        for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(&message); cmsg != NULL;
             cmsg = CMSG_NXTHDR(&message, cmsg))
            if (read_reason(cmsg, report))
                return true;
    }
}

/* ---- the process that has a port --------------------------------------- */

/* The socket of the port is found in /proc/net. Then all processes are searched for a descriptor
 * with its inode. */

/* Writes the address in the format of /proc/net/udp and udp6: 32-bit words in host byte order. */
static void proc_text(const struct uro_gid *address, bool v6, char out[static 33])
{
    uint32_t words[4];

    memcpy(words, address->octets, sizeof words);
    if (v6)
        (void)snprintf(out, 33, "%08X%08X%08X%08X", words[0], words[1], words[2], words[3]);
    else
        (void)snprintf(out, 33, "%08X", words[3]);
}

/* The sockets bound to the port, at this address or at the wildcard address. */
struct sockets {
    uint32_t count; /* number of sockets; a hub has several */
    unsigned user;  /* user ID of the first socket */
    unsigned long inode;
};

static struct sockets find_sockets(const char *file, const char *address, uint16_t port)
{
    struct sockets found = { 0 };
    FILE *in = fopen(file, "r");
    char line[512];

    while (in != NULL && fgets(line, sizeof line, in) != NULL) {
        char local[33];
        unsigned local_port, user;
        unsigned long inode;
        if (sscanf(line, " %*[^:]: %32[0-9A-F]:%X %*s %*s %*s %*s %*s %u %*s %lu", local,
                   &local_port, &user, &inode) != 4 ||
            local_port != port ||
            (strcmp(local, address) != 0 && strspn(local, "0") != strlen(local)))
            continue;
        if (found.count++ == 0) {
            found.user = user;
            found.inode = inode;
        }
    }
    if (in != NULL)
        (void)fclose(in);
    return found;
}

/* Finds the name of @user in /etc/passwd only, because a directory service may take long. */
static void name_user(unsigned user, char name[static 33])
{
    FILE *in = fopen("/etc/passwd", "r");
    char line[512];

    (void)snprintf(name, 33, "%u", user);
    while (in != NULL && fgets(line, sizeof line, in) != NULL) {
        char known[33];
        unsigned number;
        if (sscanf(line, "%32[^:]:%*[^:]:%u:", known, &number) == 2 && number == user) {
            memcpy(name, known, sizeof known);
            break;
        }
    }
    if (in != NULL)
        (void)fclose(in);
}

static bool has_descriptor(const char *pid, const char *target)
{
    char path[300], link[64];
    bool has = false;

    (void)snprintf(path, sizeof path, "/proc/%s/fd", pid);
    DIR *descriptors = opendir(path);
    if (descriptors == NULL)
        return false;
    for (struct dirent *entry; !has && (entry = readdir(descriptors)) != NULL;) {
        ssize_t length = readlinkat(dirfd(descriptors), entry->d_name, link, sizeof link - 1);
        if (length <= 0)
            continue;
        link[length] = '\0';
        has = strcmp(link, target) == 0;
    }
    (void)closedir(descriptors);
    return has;
}

static bool find_process(unsigned long inode, char text[static URO_PORT_OWNER_TEXT_MAX])
{
    char target[64], path[300], name[32] = "?";
    DIR *processes = opendir("/proc");
    bool found = false;

    if (processes == NULL)
        return false;
    (void)snprintf(target, sizeof target, "socket:[%lu]", inode);
    for (struct dirent *entry; !found && (entry = readdir(processes)) != NULL;) {
        if (!isdigit((unsigned char)entry->d_name[0]) || !has_descriptor(entry->d_name, target))
            continue;
        found = true;
        (void)snprintf(path, sizeof path, "/proc/%s/comm", entry->d_name);
        FILE *in = fopen(path, "r");
        if (in != NULL && fgets(name, sizeof name, in) != NULL)
            name[strcspn(name, "\n")] = '\0';
        if (in != NULL)
            (void)fclose(in);
        (void)snprintf(text, URO_PORT_OWNER_TEXT_MAX, "process %.20s (%s)", entry->d_name, name);
    }
    (void)closedir(processes);
    return found;
}

void uro_port_owner_find(const struct uro_gid *address, uint16_t port,
                         char text[static URO_PORT_OWNER_TEXT_MAX])
{
    const bool v6 = !uro_gid_is_ipv4(address);
    char local[33], user[33];

    proc_text(address, v6, local);
    struct sockets found = find_sockets(v6 ? "/proc/net/udp6" : "/proc/net/udp", local, port);
    if (!v6 && found.count == 0) /* maybe an IPv6 socket that also receives IPv4 */
        found = find_sockets("/proc/net/udp6", "", port);
    name_user(found.user, user);
    if (found.count == 0)
        (void)snprintf(text, URO_PORT_OWNER_TEXT_MAX, "another process");
    else if (found.inode == 0)
        (void)snprintf(text, URO_PORT_OWNER_TEXT_MAX,
                       "the kernel (an rxe device? see `rdma link`)");
    else if (found.count > 1 && found.user != geteuid())
        (void)snprintf(text, URO_PORT_OWNER_TEXT_MAX,
                       "a hub of user %s (one user can share an address)", user);
    else if (!find_process(found.inode, text))
        (void)snprintf(text, URO_PORT_OWNER_TEXT_MAX, "a process of user %s", user);
}
