/* SPDX-License-Identifier: BSD-3-Clause */
/* socket_calls.c - calls on sockets of NETLINK_RDMA, which netlink_socket.h answers. Every other
 * descriptor goes to the C library. */
#include "paths/next_call.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/defs.h"
#include "paths/netlink_socket.h"
#include "paths/wait_calls.h"

#define REQUEST_MAX ((size_t)65536) /* bytes of a datagram that a program sends */

/* The functions that programs built with _FORTIFY_SOURCE call instead. No header declares them. */
ssize_t __recv_chk(int fd, void *out, size_t size, size_t limit, int flags);
ssize_t __recvfrom_chk(int fd, void *restrict out, size_t size, size_t limit, int flags,
                       __SOCKADDR_ARG from, socklen_t *restrict length);
ssize_t __read_chk(int fd, void *out, size_t size, size_t limit);

/* ---- life --------------------------------------------------------------------------- */

URO_PATHS_EXPORT int socket(int domain, int type, int protocol)
{
    URO_NEXT(socket);

    if (uro_netlink_socket_wanted(domain, type, protocol))
        return uro_netlink_socket_make(type);
    return next(domain, type, protocol);
}

URO_PATHS_EXPORT int bind(int fd, __CONST_SOCKADDR_ARG address, socklen_t length)
{
    URO_NEXT(bind);

    if (uro_netlink_socket_is(fd))
        return uro_netlink_socket_bind(fd, address.__sockaddr__, length);
    return next(fd, address, length);
}

/* Does nothing for a valid address, because the only peer is the kernel. */
URO_PATHS_EXPORT int connect(int fd, __CONST_SOCKADDR_ARG address, socklen_t length)
{
    URO_NEXT(connect);

    if (!uro_netlink_socket_is(fd))
        return next(fd, address, length);
    const struct sockaddr *to = address.__sockaddr__;
    if (to == NULL || length < sizeof(struct sockaddr_nl) || to->sa_family != AF_NETLINK) {
        errno = EINVAL;
        return -1;
    }
    return 0;
}

URO_PATHS_EXPORT int getsockname(int fd, __SOCKADDR_ARG address, socklen_t *restrict length)
{
    URO_NEXT(getsockname);

    if (uro_netlink_socket_is(fd))
        return uro_netlink_socket_name(fd, address.__sockaddr__, length);
    return next(fd, address, length);
}

/* Accepts all options of netlink. None of them changes the answers of netlink/. */
URO_PATHS_EXPORT int setsockopt(int fd, int level, int option, const void *value, socklen_t length)
{
    URO_NEXT(setsockopt);

    if (level == SOL_NETLINK && uro_netlink_socket_is(fd))
        return 0;
    return next(fd, level, option, value, length);
}

URO_PATHS_EXPORT int dup(int fd)
{
    URO_NEXT(dup);

    return uro_netlink_socket_copy(fd, next(fd));
}

URO_PATHS_EXPORT int dup2(int fd, int copy)
{
    URO_NEXT(dup2);

    return uro_netlink_socket_copy(fd, next(fd, copy));
}

URO_PATHS_EXPORT int dup3(int fd, int copy, int flags)
{
    URO_NEXT(dup3);

    return uro_netlink_socket_copy(fd, next(fd, copy, flags));
}

static int copied(int fd, int command, int result)
{
    const bool copies = command == F_DUPFD || command == F_DUPFD_CLOEXEC;

    return copies ? uro_netlink_socket_copy(fd, result) : result;
}

/* The argument is an int, a long or a pointer: a long has room for each. */
URO_PATHS_EXPORT int fcntl(int fd, int command, ...)
{
    URO_NEXT(fcntl);
    va_list arguments;

    va_start(arguments, command);
    const long argument = va_arg(arguments, long);
    va_end(arguments);
    return copied(fd, command, next(fd, command, argument));
}

URO_PATHS_EXPORT int fcntl64(int fd, int command, ...)
{
    URO_NEXT(fcntl64);
    va_list arguments;

    va_start(arguments, command);
    const long argument = va_arg(arguments, long);
    va_end(arguments);
    return copied(fd, command, next(fd, command, argument));
}

URO_PATHS_EXPORT int close(int fd)
{
    URO_NEXT(close);

    if (uro_netlink_socket_is(fd))
        uro_netlink_socket_forget(fd);
    uro_wait_forget(fd);
    return next(fd);
}

/* ---- sending ------------------------------------------------------------------------ */

URO_PATHS_EXPORT ssize_t send(int fd, const void *bytes, size_t length, int flags)
{
    URO_NEXT(send);

    return uro_netlink_socket_is(fd) ? uro_netlink_socket_send(fd, bytes, length)
                                     : next(fd, bytes, length, flags);
}

URO_PATHS_EXPORT ssize_t sendto(int fd, const void *bytes, size_t length, int flags,
                                __CONST_SOCKADDR_ARG to, socklen_t to_length)
{
    URO_NEXT(sendto);

    return uro_netlink_socket_is(fd) ? uro_netlink_socket_send(fd, bytes, length)
                                     : next(fd, bytes, length, flags, to, to_length);
}

URO_PATHS_EXPORT ssize_t write(int fd, const void *bytes, size_t length)
{
    URO_NEXT(write);

    return uro_netlink_socket_is(fd) ? uro_netlink_socket_send(fd, bytes, length)
                                     : next(fd, bytes, length);
}

/* Sends the parts of @message as one request. */
static ssize_t send_parts(int fd, const struct msghdr *message)
{
    size_t length = 0;
    uint8_t *request = malloc(REQUEST_MAX);

    if (request == NULL) {
        errno = ENOBUFS;
        return -1;
    }
    for (size_t i = 0; i < message->msg_iovlen; i++) {
        const struct iovec *part = &message->msg_iov[i];
        if (part->iov_len > REQUEST_MAX - length) {
            free(request);
            errno = EMSGSIZE;
            return -1;
        }
        if (part->iov_len > 0)
            memcpy(request + length, part->iov_base, part->iov_len);
        length += part->iov_len;
    }
    const ssize_t sent = uro_netlink_socket_send(fd, request, length);
    free(request);
    return sent;
}

URO_PATHS_EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    URO_NEXT(sendmsg);

    return uro_netlink_socket_is(fd) ? send_parts(fd, message) : next(fd, message, flags);
}

/* ---- receiving ---------------------------------------------------------------------- */

/* Moves pending answers to the socket. Returns whether @fd is a socket of this library. */
static bool ready(int fd)
{
    if (!uro_netlink_socket_is(fd))
        return false;
    uro_netlink_socket_fill(fd);
    return true;
}

URO_PATHS_EXPORT ssize_t recv(int fd, void *out, size_t size, int flags)
{
    URO_NEXT(recv);

    (void)ready(fd);
    return next(fd, out, size, flags);
}

URO_PATHS_EXPORT ssize_t __recv_chk(int fd, void *out, size_t size, size_t limit, int flags)
{
    URO_NEXT(__recv_chk);

    (void)ready(fd);
    return next(fd, out, size, limit, flags);
}

URO_PATHS_EXPORT ssize_t read(int fd, void *out, size_t size)
{
    URO_NEXT(read);

    (void)ready(fd);
    return next(fd, out, size);
}

URO_PATHS_EXPORT ssize_t __read_chk(int fd, void *out, size_t size, size_t limit)
{
    URO_NEXT(__read_chk);

    (void)ready(fd);
    return next(fd, out, size, limit);
}

/* Writes the address of the sender after a call that received @length bytes. */
static void write_sender(ssize_t length, struct sockaddr *from, socklen_t *from_length,
                         socklen_t from_size)
{
    if (length < 0 || from == NULL || from_length == NULL)
        return;
    *from_length = from_size;
    uro_netlink_socket_sender(from, from_length);
}

URO_PATHS_EXPORT ssize_t recvfrom(int fd, void *restrict out, size_t size, int flags,
                                  __SOCKADDR_ARG from, socklen_t *restrict length)
{
    URO_NEXT(recvfrom);

    if (!ready(fd))
        return next(fd, out, size, flags, from, length);
    const ssize_t got = next(fd, out, size, flags, (__SOCKADDR_ARG){ NULL }, NULL);
    write_sender(got, from.__sockaddr__, length, length != NULL ? *length : 0);
    return got;
}

/* NOLINTNEXTLINE(readability-function-size): the C library's parameters */
URO_PATHS_EXPORT ssize_t __recvfrom_chk(int fd, void *restrict out, size_t size, size_t limit,
                                        int flags, __SOCKADDR_ARG from, socklen_t *restrict length)
{
    URO_NEXT(__recvfrom_chk);

    if (!ready(fd))
        return next(fd, out, size, limit, flags, from, length);
    const ssize_t got = next(fd, out, size, limit, flags, (__SOCKADDR_ARG){ NULL }, NULL);
    write_sender(got, from.__sockaddr__, length, length != NULL ? *length : 0);
    return got;
}

URO_PATHS_EXPORT ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    URO_NEXT(recvmsg);

    if (!ready(fd))
        return next(fd, message, flags);
    const socklen_t size = message->msg_namelen;
    const ssize_t got = next(fd, message, flags);
    write_sender(got, message->msg_name, &message->msg_namelen, size);
    return got;
}
