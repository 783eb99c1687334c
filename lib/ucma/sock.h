/* SPDX-License-Identifier: BSD-3-Clause */
/* sock.h - socket addresses of rdma_cm programs: IPv4, IPv6 and AF_IB, and the GID and port of
 * each. */
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <infiniband/ib.h>

#include "wire/gid.h"

#ifndef AF_IB
#define AF_IB 27
#endif

struct uro_sock {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_ib ib;
        struct sockaddr_storage storage;
    };
};

/* Returns the size in bytes of an address of its family, or 0 if the family is unknown. */
uint32_t uro_sock_size(const struct uro_sock *sock);

/* Copies an address of @size bytes from a command. Returns 0 or
 *   -EINVAL  the family is unknown, or has another size */
URO_NODISCARD int uro_sock_read(struct uro_sock *sock, const void *from, uint32_t size);

/* Returns the address as a GID, zero for a wildcard. */
struct uro_gid uro_sock_gid(const struct uro_sock *sock);
/* Sets the address, but not the family. @gid must fit the family. */
void uro_sock_set_gid(struct uro_sock *sock, const struct uro_gid *gid);
/* Fills in an address of @family, or if @family is 0 of the IP version of @gid. */
void uro_sock_make(struct uro_sock *sock, int family, const struct uro_gid *gid, uint16_t port);

bool uro_sock_is_wildcard(const struct uro_sock *sock);
bool uro_sock_is_loopback(const struct uro_sock *sock);
/* Returns the interface index of a link-local address, or 0. */
uint32_t uro_sock_scope(const struct uro_sock *sock);
/* Returns whether @gid has the IP version of the family. */
bool uro_sock_fits(const struct uro_sock *sock, const struct uro_gid *gid);

uint16_t uro_sock_port(const struct uro_sock *sock);
void uro_sock_set_port(struct uro_sock *sock, uint16_t port);
