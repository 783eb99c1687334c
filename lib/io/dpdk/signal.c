/* SPDX-License-Identifier: BSD-3-Clause */
/* signal.c - prevents SIGPIPE in a driver. net_virtio_user writes to its socket after the peer has
 * closed it, and SIGPIPE would end the program. The linker replaces sendmsg() by this function. */
#include <sys/socket.h>

#include "base/defs.h"

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    return __real_sendmsg(fd, message, flags | MSG_NOSIGNAL);
}
