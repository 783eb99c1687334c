/* SPDX-License-Identifier: BSD-3-Clause */
/* share.c - see share.h. */
#define _GNU_SOURCE /* struct mmsghdr, of udp.h */
#include "io/udp/share.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/udp/udp.h"

#define NAP_MS 5 /* pause between two attempts to connect to a busy broker */

static struct uro_hub_header header_of(enum uro_hub_kind kind, uint32_t prefix)
{
    return (struct uro_hub_header){ .version = URO_HUB_VERSION,
                                    .kind = (uint32_t)kind,
                                    .prefix = prefix };
}

static bool is_ours(int fd)
{
    struct ucred peer;
    socklen_t length = sizeof peer;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

/* Connects to the broker in @directory. Returns the connection, or -errno. -EAGAIN means that too
 * many processes wait for the broker. */
static int call_there(const struct uro_hub_directory *directory, const struct uro_gid *address)
{
    struct sockaddr_un name;

    if (!uro_hub_address(directory, address, &name))
        return -ENOENT;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    int reason = connect(fd, (const struct sockaddr *)&name, sizeof name) != 0 ? errno : 0;
    if (reason == 0 && is_ours(fd))
        return fd;
    (void)close(fd);
    return reason != 0 ? -reason : -ECONNREFUSED;
}

/* Connects to the broker in any of the directories. Returns the connection, or -errno. -ENOENT
 * means that there is no broker. */
static int call_broker(struct uro_share *share, const struct uro_gid *address)
{
    for (unsigned number = 0; number < URO_HUB_DIRECTORY_PLACES; number++) {
        struct uro_hub_directory directory;
        if (uro_hub_directory_find(&directory, number, false) != 0)
            continue;
        int fd = call_there(&directory, address);
        if (fd >= 0)
            share->directory = directory;
        if (fd != -ENOENT && fd != -ECONNREFUSED)
            return fd;
    }
    return -ENOENT;
}

/* Receives the answer to HELLO, and in @sock the attached socket, or -1. Returns 0. Returns -EAGAIN
 * if there is no answer yet, -EMFILE if this process has no free descriptor for the socket, or
 * -EPROTO if the record is not an answer. */
static int receive_reply(int fd, struct uro_hub_header *reply, int wait_ms, int *sock)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    struct iovec octets = { reply, sizeof *reply };
    struct msghdr message = { .msg_iov = &octets,
                              .msg_iovlen = 1,
                              .msg_control = control,
                              .msg_controllen = sizeof control };
    struct pollfd ready = { .fd = fd, .events = POLLIN };

    *sock = -1;
    if (poll(&ready, 1, wait_ms) != 1)
        return -EAGAIN;
    if (recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) != (ssize_t)sizeof *reply)
        return -EPROTO;
    struct cmsghdr *cmsg = CMSG_FIRSTHDR(&message);
    if (cmsg != NULL && cmsg->cmsg_type == SCM_RIGHTS && cmsg->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(sock, CMSG_DATA(cmsg), sizeof *sock);
    if (reply->version != URO_HUB_VERSION)
        return -EPROTO;
    if (reply->kind == URO_HUB_WELCOME && *sock < 0)
        return (message.msg_flags & MSG_CTRUNC) != 0 ? -EMFILE : -EPROTO;
    return 0;
}

/* Writes the reason why the broker granted no QPN prefix. @kind is the kind of its answer. */
static void explain(const struct uro_gid *address, uint32_t kind, uint32_t wanted,
                    char error[static URO_PORT_ERROR_MAX])
{
    char text[URO_GID_TEXT_MAX];

    uro_gid_text(address, text);
    if (kind == URO_HUB_FULL && wanted != 0)
        (void)snprintf(
            error, URO_PORT_ERROR_MAX,
            "too many processes share the addresses of this device (%s and others); end some of "
            "these processes, or choose other addresses with ip=",
            text);
    else if (kind == URO_HUB_FULL)
        (void)snprintf(error, URO_PORT_ERROR_MAX,
                       "%u processes share %s already, which is the limit; give this process a "
                       "different address with ip=",
                       URO_QPN_PREFIXES - 2, text);
    else if (kind == URO_HUB_NO_DESCRIPTOR)
        (void)snprintf(error, URO_PORT_ERROR_MAX,
                       "the broker of %s (uroce hub) has no file descriptor left (EMFILE); end it, "
                       "and start it again where `ulimit -Hn` is higher",
                       text);
    else
        (void)snprintf(error, URO_PORT_ERROR_MAX,
                       "the broker of %s (uroce hub) did not answer as expected; end it, and "
                       "`uroce run` starts a new one",
                       text);
}

static void explain_call(const struct uro_gid *address, int reason,
                         char error[static URO_PORT_ERROR_MAX])
{
    char text[URO_GID_TEXT_MAX];

    (void)snprintf(error, URO_PORT_ERROR_MAX,
                   "the broker of %s (uroce hub) cannot be reached: %s%s",
                   uro_gid_text(address, text), strerror(reason),
                   reason == EMFILE ? " (EMFILE); raise `ulimit -n` for this process" : "");
}

enum uro_share_result uro_share_ask(struct uro_share *share, const struct uro_gid *address,
                                    uint32_t wanted, int wait_ms,
                                    char error[static URO_PORT_ERROR_MAX])
{
    const struct uro_hub_header hello = header_of(URO_HUB_HELLO, wanted);

    share->fd = -1;
    int fd = call_broker(share, address);
    for (; fd == -EAGAIN && wait_ms > 0; wait_ms -= NAP_MS) {
        (void)poll(NULL, 0, NAP_MS);
        fd = call_broker(share, address);
    }
    if (fd == -ENOENT)
        return URO_SHARE_NO_BROKER;
    if (fd < 0) {
        explain_call(address, -fd, error);
        return URO_SHARE_REFUSED;
    }
    if (send(fd, &hello, sizeof hello, MSG_NOSIGNAL) != (ssize_t)sizeof hello) {
        (void)close(fd);
        return URO_SHARE_NO_BROKER; /* the broker has ended */
    }
    share->fd = fd;
    share->address = *address;
    share->wanted = wanted;
    share->pending = true;
    return URO_SHARE_ASKED;
}

enum uro_share_result uro_share_answer(struct uro_share *share, int wait_ms, int *sock,
                                       char error[static URO_PORT_ERROR_MAX])
{
    struct uro_hub_header reply = { 0 };
    int result = receive_reply(share->fd, &reply, wait_ms, sock);

    if (result == -EAGAIN && wait_ms == 0)
        return URO_SHARE_ASKED;
    share->pending = false;
    if (result == 0 && reply.kind == URO_HUB_WELCOME && share->record == NULL)
        share->record = malloc(URO_HUB_RECORD);
    if (result == 0 && reply.kind == URO_HUB_WELCOME && share->record != NULL) {
        share->number = reply.prefix;
        return URO_SHARE_JOINED;
    }
    /* The kind HELLO means an invalid answer. */
    const uint32_t kind = result == 0 ? reply.kind : URO_HUB_HELLO;
    if (result == -EMFILE)
        explain_call(&share->address, EMFILE, error);
    else
        explain(&share->address, kind, share->wanted, error);
    if (*sock >= 0)
        (void)close(*sock);
    uro_share_lose(share);
    return kind == URO_HUB_FULL && share->wanted != 0 ? URO_SHARE_TAKEN : URO_SHARE_REFUSED;
}

void uro_share_lose(struct uro_share *share)
{
    if (share->fd >= 0)
        (void)close(share->fd);
    share->fd = -1;
    share->pending = false;
}

void uro_share_leave(struct uro_share *share)
{
    uro_share_lose(share);
    free(share->services);
    free(share->record);
    share->services = NULL;
    share->record = NULL;
}

static bool send_record(const struct uro_share *share, const struct uro_hub_header *header,
                        const void *octets, size_t length)
{
    struct iovec parts[2] = { { (void *)(uintptr_t)header, sizeof *header },
                              { (void *)(uintptr_t)octets, length } };
    const struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };

    return sendmsg(share->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

void uro_share_services(struct uro_share *share, const struct uro_listened *services,
                        uint32_t count)
{
    const struct uro_hub_header header = header_of(URO_HUB_SERVICES, share->number);

    if (services != share->services) {
        struct uro_listened *copy = malloc((count + 1) * sizeof *copy);
        if (copy == NULL)
            return;
        memcpy(copy, services, count * sizeof *copy);
        free(share->services);
        share->services = copy;
        share->service_count = count;
    }
    if (share->fd >= 0)
        share->services_unsent = !send_record(share, &header, share->services,
                                              share->service_count * sizeof *share->services);
}

void uro_share_repeat(struct uro_share *share)
{
    if (share->services_unsent)
        uro_share_services(share, share->services, share->service_count);
}

bool uro_share_take(struct uro_share *share, struct uro_hub_header *header, uint32_t *octets)
{
    struct iovec parts[2] = { { header, sizeof *header }, { share->record, URO_HUB_RECORD } };
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };

    *octets = 0;
    ssize_t received = recvmsg(share->fd, &message, MSG_DONTWAIT);
    if (received < 0)
        return errno == EAGAIN || errno == EINTR;
    if (received == 0)
        return false;
    if (received > (ssize_t)sizeof *header && header->version == URO_HUB_VERSION &&
        (header->kind == URO_HUB_DATAGRAM || header->kind == URO_HUB_REPORT))
        *octets = (uint32_t)received - (uint32_t)sizeof *header;
    return true;
}

void uro_share_pass(const struct uro_share *share, const union uro_sock_address *from,
                    uint8_t traffic_class, const uint8_t *octets, uint32_t length)
{
    struct uro_hub_header header = header_of(URO_HUB_DATAGRAM, share->number);

    header.from = *from;
    header.traffic_class = traffic_class;
    if (share->fd >= 0)
        (void)send_record(share, &header, octets,
                          length); /* a slow broker loses the packet, like any datagram */
}

void uro_share_report(const struct uro_share *share, const struct uro_sock_report *report)
{
    const struct uro_hub_report body = uro_hub_report_of(report);
    struct uro_hub_header header = header_of(URO_HUB_REPORT, share->number);

    header.from = report->to;
    if (share->fd >= 0)
        (void)send_record(share, &header, &body, sizeof body);
}

/* ---- services ---------------------------------------------------------- */

/* Returns the share of the address, or NULL when it is not shared. */
static const struct uro_share *share_of(const struct uro_udp_port *udp,
                                        const struct uro_gid *address)
{
    for (uint32_t i = 0; i < udp->sock_count; i++)
        if (uro_gid_equal(&udp->socks[i].address, address))
            return udp->socks[i].share;
    return NULL;
}

static bool path_of(const struct uro_share *share, const struct uro_listened *service,
                    char path[static URO_HUB_DIRECTORY_PATH_MAX])
{
    char suffix[32];

    (void)snprintf(suffix, sizeof suffix, "-%" PRIx64, service->id);
    return uro_hub_directory_path(&share->directory, "listen", &service->address, suffix, path);
}

int uro_service_lock_take(struct uro_port *port, const struct uro_listened *service)
{
    struct uro_udp_port *udp = uro_udp_of(port);
    struct uro_service_locks *locks = &udp->service_locks;
    const struct uro_share *share = share_of(udp, &service->address);
    char path[URO_HUB_DIRECTORY_PATH_MAX];

    if (share == NULL)
        return 0;
    if (!path_of(share, service, path))
        return -ENAMETOOLONG;
    struct uro_service_lock *all = realloc(locks->all, (locks->count + 1) * sizeof *all);
    if (all == NULL)
        return -ENOMEM;
    locks->all = all;
    int fd = uro_hub_directory_lock(path, false);
    if (fd < 0)
        return fd == -EWOULDBLOCK ? -EADDRINUSE : fd;
    all[locks->count++] = (struct uro_service_lock){ fd, *service };
    return 0;
}

void uro_service_lock_release(struct uro_port *port, const struct uro_listened *service)
{
    struct uro_udp_port *udp = uro_udp_of(port);
    struct uro_service_locks *locks = &udp->service_locks;
    const struct uro_share *share = share_of(udp, &service->address);
    char path[URO_HUB_DIRECTORY_PATH_MAX];

    for (uint32_t i = 0; i < locks->count; i++) {
        const struct uro_service_lock *lock = &locks->all[i];
        if (lock->service.id != service->id ||
            !uro_gid_equal(&lock->service.address, &service->address))
            continue;
        if (share != NULL && path_of(share, service, path))
            uro_hub_directory_unlock(lock->fd, path);
        else
            (void)close(lock->fd);
        locks->all[i] = locks->all[--locks->count];
        return;
    }
}

void uro_service_lock_close(struct uro_service_locks *locks)
{
    while (locks->count > 0)
        (void)close(locks->all[--locks->count].fd);
    free(locks->all);
    locks->all = NULL;
}
