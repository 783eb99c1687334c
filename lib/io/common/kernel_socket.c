/* SPDX-License-Identifier: BSD-3-Clause */
/* kernel_socket.c - a port's sockets are the kernel's, in whatever program it is: the plug-ins are
 * linked so that their calls of socket(), DPDK's too, come here. librspreload makes a program's
 * sockets rsockets, and would make ours such, which need the very port that asks for them.
 */
#define _GNU_SOURCE /* syscall */
#include <sys/syscall.h>
#include <unistd.h>

int __wrap_socket(int domain, int type, int protocol);

int __wrap_socket(int domain, int type, int protocol)
{
    return (int)syscall(SYS_socket, domain, type, protocol);
}
