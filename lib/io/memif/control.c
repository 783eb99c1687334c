/* SPDX-License-Identifier: BSD-3-Clause */
/* control.c - see control.h. */
#define _GNU_SOURCE /* MSG_CMSG_CLOEXEC, struct ucred */
#include "io/memif/control.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define FDS_MAX 4u /* descriptors that fit beside a message; more than the protocol sends */
#define WATCHED_MAX                                                                                \
    8 /* descriptors in the epoll of a port: listener, called or timer, control, doorbell */

union fds {
    struct cmsghdr header;
    uint8_t octets[CMSG_SPACE(FDS_MAX * sizeof(int))];
};

bool uro_memif_say(int control, const struct uro_memif_message *message, int fd)
{
    union fds fds = { 0 };
    struct iovec octets = { (void *)(uintptr_t)message, sizeof *message };
    struct msghdr header = { .msg_iov = &octets, .msg_iovlen = 1 };

    if (fd >= 0) {
        header.msg_control = &fds;
        header.msg_controllen = CMSG_SPACE(sizeof fd);
        fds.header = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof fd),
                                       .cmsg_level = SOL_SOCKET,
                                       .cmsg_type = SCM_RIGHTS };
        memcpy(CMSG_DATA(&fds.header), &fd, sizeof fd);
    }
    return sendmsg(control, &header, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof *message;
}

/* Returns the first descriptor that came, or -1 when there is none. Closes all others. */
static int take_fd(struct msghdr *header, const struct uro_memif_peer_fd *peer_fd)
{
    int first = -1;

    for (struct cmsghdr *at = CMSG_FIRSTHDR(header); at != NULL; at = CMSG_NXTHDR(header, at)) {
        if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t used = CMSG_LEN(0); used + sizeof(int) <= at->cmsg_len; used += sizeof(int)) {
            int fd;
            memcpy(&fd, (const uint8_t *)at + used, sizeof fd);
            if (first < 0)
                first = fd;
            else
                uro_memif_peer_fd_close(peer_fd, fd);
        }
    }
    return first;
}

enum uro_memif_heard uro_memif_hear(int control, struct uro_memif_message *message)
{
    ssize_t length = recv(control, message, sizeof *message, MSG_DONTWAIT | MSG_TRUNC);

    if (length < 0)
        return errno == EAGAIN || errno == EINTR ? URO_MEMIF_NOTHING : URO_MEMIF_GONE;
    return length == (ssize_t)sizeof *message ? URO_MEMIF_HEARD : URO_MEMIF_GONE;
}

enum uro_memif_heard uro_memif_hear_with_fd(int control, struct uro_memif_message *message,
                                            const struct uro_memif_peer_fd *peer_fd, int *fd)
{
    union fds fds;
    struct iovec octets = { message, sizeof *message };
    struct msghdr header = {
        .msg_iov = &octets, .msg_iovlen = 1, .msg_control = &fds, .msg_controllen = sizeof fds
    };

    *fd = -1;
    if (!uro_memif_peer_fd_may_take())
        return URO_MEMIF_GONE;
    ssize_t length = recvmsg(control, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (length < 0)
        return errno == EAGAIN || errno == EINTR ? URO_MEMIF_NOTHING : URO_MEMIF_GONE;
    *fd = take_fd(&header, peer_fd);
    if (length == (ssize_t)sizeof *message && (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0)
        return URO_MEMIF_HEARD;
    if (*fd >= 0)
        uro_memif_peer_fd_close(peer_fd, *fd);
    *fd = -1;
    return URO_MEMIF_GONE;
}

bool uro_memif_is_from(int control, uint32_t user)
{
    struct ucred peer;
    socklen_t length = sizeof peer;

    return getsockopt(control, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
           (user == URO_MEMIF_ANY_USER || peer.uid == 0 || peer.uid == user);
}

static bool watch(int epoll, int fd, uint32_t events)
{
    struct epoll_event event = { .events = events, .data.fd = fd };

    return fd >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

bool uro_memif_watch(int epoll, int fd)
{
    return watch(epoll, fd, EPOLLIN);
}

bool uro_memif_watch_doorbell(int epoll, int doorbell)
{
    return watch(epoll, doorbell, EPOLLIN | EPOLLET);
}

bool uro_memif_was_rung(int epoll, int doorbell)
{
    struct epoll_event events[WATCHED_MAX];
    bool rung = false;

    if (doorbell < 0)
        return false;
    int count = epoll_wait(epoll, events, WATCHED_MAX, 0);
    for (int i = 0; i < count; i++)
        rung = rung || events[i].data.fd == doorbell;
    return rung;
}

void uro_memif_say_end(int control, const char *reason)
{
    struct uro_memif_message message = uro_memif_message(URO_MEMIF_DISCONNECT);

    (void)snprintf((char *)message.octets + URO_MEMIF_DISCONNECT_REASON, URO_MEMIF_REASON, "%s",
                   reason);
    bool told = uro_memif_say(control, &message, -1);
    (void)told; /* fails if the other side has gone */
}
