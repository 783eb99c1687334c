/* SPDX-License-Identifier: BSD-3-Clause */
/* kernel_socket.c - makes all sockets of a port kernel sockets. The plug-ins are linked so that
 * their calls of socket(), DPDK's too, come here. librspreload replaces a program's sockets by
 * rsockets. It would also replace the sockets of the port, but rsockets can only work after the
 * port is open.
 */
#define _GNU_SOURCE /* syscall */
#include <sys/syscall.h>
#include <unistd.h>

int __wrap_socket(int domain, int type, int protocol);

int __wrap_socket(int domain, int type, int protocol)
{
    return (int)syscall(SYS_socket, domain, type, protocol);
}
