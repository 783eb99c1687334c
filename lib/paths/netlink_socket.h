/* SPDX-License-Identifier: BSD-3-Clause */
/* netlink_socket.h - sockets of NETLINK_RDMA that this library answers, without the kernel.
 *
 * The program's descriptor is one end of a socket pair. This library answers each request of the
 * program at once. The functions of netlink/nldev.h make the answer, and this library writes it to
 * the other end. So poll(), blocking receives and MSG_PEEK work as with the kernel. A part of an
 * answer that does not fit into the socket stays in memory until the program has received the rest.
 *
 * A descriptor can be closed by a call that this library does not see. Each use therefore checks
 * that the descriptor is still the same socket. A copy from dup(), dup2(), dup3() or
 * fcntl() is the same socket.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

/* Returns whether this library answers such a socket. */
bool uro_netlink_socket_wanted(int domain, int type, int protocol);

/* Makes a socket. @type may have flags, such as SOCK_CLOEXEC. Returns the descriptor, or -1 with
 * errno. errno is EMFILE if there are too many such sockets. */
int uro_netlink_socket_make(int type);

/* Returns whether @fd is such a socket. Takes no lock if the process has no such socket, because
 * the caller may be a signal handler. Keeps errno. */
bool uro_netlink_socket_is(int fd);

/* Replace the calls of similar names on such a socket. Return 0 or a length, or -1 with errno. */
int uro_netlink_socket_bind(int fd, const struct sockaddr *address, socklen_t length);
int uro_netlink_socket_name(int fd, struct sockaddr *address, socklen_t *length);
ssize_t uro_netlink_socket_send(int fd, const uint8_t *bytes, size_t length);

/* Moves answers from memory to the socket. Call this function before each receive. */
void uro_netlink_socket_fill(int fd);

/* Writes the address of the sender, the kernel, to @address, which has space for *@length bytes. */
void uro_netlink_socket_sender(struct sockaddr *address, socklen_t *length);

/* Registers @copy, which is a new copy of the descriptor @fd. Returns @copy. If there are too many
 * descriptors, closes it and returns -1 with errno EMFILE. Does nothing if @fd is not such a
 * socket, or if @copy is -1. */
int uro_netlink_socket_copy(int fd, int copy);

/* Removes the descriptor from the table, before the program closes it. The socket is freed with its
 * last descriptor. */
void uro_netlink_socket_forget(int fd);
