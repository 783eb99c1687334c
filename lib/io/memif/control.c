/* SPDX-License-Identifier: BSD-3-Clause */
/* control.c - see control.h. */
#define _GNU_SOURCE /* MSG_CMSG_CLOEXEC, preadv2 */
#include "io/memif/control.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define FDS_MAX 4u /* that somebody may send beside a message; one is right */

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

/* The only descriptor that came; -1 when there is none. Others are closed. */
static int take_fd(struct msghdr *header)
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
                (void)close(fd);
        }
    }
    return first;
}

enum uro_memif_heard uro_memif_hear(int control, struct uro_memif_message *message, int *fd)
{
    union fds fds;
    struct iovec octets = { message, sizeof *message };
    struct msghdr header = {
        .msg_iov = &octets, .msg_iovlen = 1, .msg_control = &fds, .msg_controllen = sizeof fds
    };

    *fd = -1;
    ssize_t length = recvmsg(control, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (length < 0)
        return errno == EAGAIN || errno == EINTR ? URO_MEMIF_NOTHING : URO_MEMIF_GONE;
    *fd = take_fd(&header);
    if (length == (ssize_t)sizeof *message && (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0)
        return URO_MEMIF_HEARD;
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
    return URO_MEMIF_GONE;
}

bool uro_memif_watch(int epoll, int fd)
{
    struct epoll_event event = { .events = EPOLLIN };

    return fd >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

static bool is_named_eventfd(int fd)
{
    static const char right[] = "anon_inode:[eventfd]";
    char path[32], name[sizeof right];

    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return readlink(path, name, sizeof name) == (ssize_t)(sizeof right - 1) &&
           memcmp(name, right, sizeof right - 1) == 0;
}

/* They have one inode in common with what else the kernel makes of nothing: no file, pipe or socket. Should a
 * kernel give each its own, their names tell. */
bool uro_memif_is_eventfd(int fd, int another)
{
    struct stat status, right;

    return (fstat(fd, &status) == 0 && fstat(another, &right) == 0 &&
            status.st_dev == right.st_dev && status.st_ino == right.st_ino) ||
           is_named_eventfd(fd);
}

bool uro_memif_empty(int eventfd)
{
    uint64_t count;
    struct iovec octets = { &count, sizeof count };

    if (eventfd < 0)
        return false;
    /* Whatever O_NONBLOCK says now; kernels before 5.8 cannot, and must believe it. */
    ssize_t got = preadv2(eventfd, &octets, 1, -1, RWF_NOWAIT);
    if (got < 0 && errno == EOPNOTSUPP)
        got = read(eventfd, &count, sizeof count);
    return got > 0;
}

void uro_memif_say_end(int control, const char *reason)
{
    struct uro_memif_message message = uro_memif_message(URO_MEMIF_DISCONNECT);

    (void)snprintf((char *)message.octets + URO_MEMIF_DISCONNECT_REASON, URO_MEMIF_REASON, "%s",
                   reason);
    bool told = uro_memif_say(control, &message, -1);
    (void)told; /* or it ended itself */
}
