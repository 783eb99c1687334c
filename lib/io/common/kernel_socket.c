/* SPDX-License-Identifier: BSD-3-Clause */
/* kernel_socket.c - makes all sockets of a port kernel sockets. The plug-ins are linked so that
 * their calls of socket(), DPDK's too, come here. librspreload replaces a program's sockets by
 * rsockets. It would also replace ours, but rsockets need the port that is just opening them.
 */
#define _GNU_SOURCE /* syscall */
#include <sys/syscall.h>
#include <unistd.h>

int __wrap_socket(int domain, int type, int protocol);

int __wrap_socket(int domain, int type, int protocol)
{
    return (int)syscall(SYS_socket, domain, type, protocol);
}
