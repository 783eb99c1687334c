/* SPDX-License-Identifier: BSD-3-Clause */
/* share.c - see share.h. */
#define _GNU_SOURCE /* struct ucred */
#include "io/udp/share.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_MS 2000 /* the broker has nothing else to do */

static struct uro_hub_header header_of(enum uro_hub_kind kind, uint32_t share)
{
    return (struct uro_hub_header){ .version = URO_HUB_VERSION,
                                    .kind = (uint32_t)kind,
                                    .share = share };
}

static bool is_ours(int fd)
{
    struct ucred peer;
    socklen_t length = sizeof peer;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

static int call_broker(const struct uro_gid *address)
{
    struct sockaddr_un name;
    socklen_t length = uro_hub_address(address, &name);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (fd >= 0 && connect(fd, (const struct sockaddr *)&name, length) == 0 && is_ours(fd))
        return fd;
    if (fd >= 0)
        (void)close(fd);
    return -1;
}

/* The answer to HELLO; the socket that came with it in @sock, or -1. */
static bool hear_answer(int fd, struct uro_hub_header *answer, int *sock)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    struct iovec octets = { answer, sizeof *answer };
    struct msghdr message = { .msg_iov = &octets,
                              .msg_iovlen = 1,
                              .msg_control = control,
                              .msg_controllen = sizeof control };
    struct pollfd ready = { .fd = fd, .events = POLLIN };

    *sock = -1;
    if (poll(&ready, 1, ANSWER_MS) != 1 ||
        recvmsg(fd, &message, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof *answer)
        return false;
    struct cmsghdr *at = CMSG_FIRSTHDR(&message);
    if (at != NULL && at->cmsg_type == SCM_RIGHTS && at->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(sock, CMSG_DATA(at), sizeof *sock);
    return answer->version == URO_HUB_VERSION;
}

static void explain(const struct uro_gid *address, bool full, uint32_t wanted,
                    char error[static URO_PORT_ERROR_MAX])
{
    char text[URO_GID_TEXT_MAX];

    uro_gid_text(address, text);
    if (full && wanted != 0)
        (void)snprintf(error, URO_PORT_ERROR_MAX,
                       "among the processes that share %s and the other addresses of this one "
                       "there is no place that is free at all of them: end some, or give this one "
                       "other addresses with ip=",
                       text);
    else if (full)
        (void)snprintf(error, URO_PORT_ERROR_MAX,
                       "%u processes share %s already, and more cannot: give this one another "
                       "address with ip=",
                       URO_SHARES - 2, text);
    else
        (void)snprintf(
            error, URO_PORT_ERROR_MAX,
            "the broker of %s (uroce hub) did not answer as expected: end it, `uroce run` "
            "starts another one",
            text);
}

enum uro_share_result uro_share_join(struct uro_share *share, const struct uro_gid *address,
                                     uint32_t wanted, int *sock,
                                     char error[static URO_PORT_ERROR_MAX])
{
    const struct uro_hub_header hello = header_of(URO_HUB_HELLO, wanted);
    struct uro_hub_header answer = { 0 };

    share->fd = call_broker(address);
    if (share->fd < 0)
        return URO_SHARE_NO_BROKER;
    bool heard = send(share->fd, &hello, sizeof hello, MSG_NOSIGNAL) == (ssize_t)sizeof hello &&
                 hear_answer(share->fd, &answer, sock);
    if (heard && answer.kind == URO_HUB_WELCOME && *sock >= 0 && share->record == NULL)
        share->record = malloc(URO_HUB_RECORD);
    if (heard && answer.kind == URO_HUB_WELCOME && *sock >= 0 && share->record != NULL) {
        share->number = answer.share;
        share->address = *address;
        return URO_SHARE_JOINED;
    }
    bool full = heard && answer.kind == URO_HUB_FULL;
    explain(address, full, wanted, error);
    if (*sock >= 0)
        (void)close(*sock);
    (void)close(share->fd);
    share->fd = -1;
    return full && wanted != 0 ? URO_SHARE_TAKEN : URO_SHARE_REFUSED;
}

void uro_share_leave(struct uro_share *share)
{
    if (share->fd >= 0)
        (void)close(share->fd);
    free(share->services);
    free(share->record);
    share->services = NULL;
    share->record = NULL;
    share->fd = -1;
}

static bool say(const struct uro_share *share, const struct uro_hub_header *header,
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
        (void)say(share, &header, share->services, share->service_count * sizeof *share->services);
}

bool uro_share_take(struct uro_share *share, struct uro_hub_header *header, uint32_t *octets)
{
    struct iovec parts[2] = { { header, sizeof *header }, { share->record, URO_HUB_RECORD } };
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };

    *octets = 0;
    ssize_t got = recvmsg(share->fd, &message, MSG_DONTWAIT);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR;
    if (got == 0)
        return false;
    if (got > (ssize_t)sizeof *header && header->version == URO_HUB_VERSION &&
        (header->kind == URO_HUB_DATAGRAM || header->kind == URO_HUB_REPORT))
        *octets = (uint32_t)got - (uint32_t)sizeof *header;
    return true;
}

void uro_share_pass(const struct uro_share *share, const union uro_sock_address *from,
                    uint8_t traffic_class, const uint8_t *octets, uint32_t length)
{
    struct uro_hub_header header = header_of(URO_HUB_DATAGRAM, share->number);

    header.from = *from;
    header.traffic_class = traffic_class;
    if (share->fd >= 0)
        (void)say(share, &header, octets, length); /* lost like any datagram */
}

void uro_share_report(const struct uro_share *share, const struct uro_sock_report *report)
{
    const struct uro_hub_report body = { .error = report->error, .info = report->info };
    struct uro_hub_header header = header_of(URO_HUB_REPORT, share->number);

    header.from = report->to;
    if (share->fd >= 0)
        (void)say(share, &header, &body, sizeof body);
}
