/* SPDX-License-Identifier: BSD-3-Clause */
/* kernel_socket.c - makes all sockets of a port kernel sockets. The linker redirects the calls of
 * socket() in the plug-ins, also in DPDK, to this file. librspreload replaces the sockets of a
 * program by rsockets. It would also replace the sockets of the port, but rsockets work only after
 * the port is open.
 */
#define _GNU_SOURCE /* syscall */
#include <sys/syscall.h>
#include <unistd.h>

int __wrap_socket(int domain, int type, int protocol);

int __wrap_socket(int domain, int type, int protocol)
{
    return (int)syscall(SYS_socket, domain, type, protocol);
}
