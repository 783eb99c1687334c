/* SPDX-License-Identifier: BSD-3-Clause */
/* sock.h - socket addresses as programs of rdma_cm write them: IPv4, IPv6 and AF_IB, and the GID
 * and port that each stands for.
 */
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

/* Octets of an address of its family; 0 when it is none of ours. */
uint32_t uro_sock_size(const struct uro_sock *sock);

/* Copies the @size octets of an address at @from, which are cut out of a command. Returns 0 or
 *   -EINVAL  the family is not ours, or has another size */
URO_NODISCARD int uro_sock_read(struct uro_sock *sock, const void *from, uint32_t size);

/* The address as a GID; all zero for a wildcard. */
struct uro_gid uro_sock_gid(const struct uro_sock *sock);
/* Keeps the family, to which @gid fits. */
void uro_sock_set_gid(struct uro_sock *sock, const struct uro_gid *gid);
/* An address of @family, or of the IP version of @gid when @family is 0. */
void uro_sock_make(struct uro_sock *sock, int family, const struct uro_gid *gid, uint16_t port);

bool uro_sock_is_wildcard(const struct uro_sock *sock);
bool uro_sock_is_loopback(const struct uro_sock *sock);
/* The interface that a link-local address belongs to; 0 when it does not say. */
uint32_t uro_sock_scope(const struct uro_sock *sock);
/* @gid is an address of the IP version that the family stands for. */
bool uro_sock_fits(const struct uro_sock *sock, const struct uro_gid *gid);

uint16_t uro_sock_port(const struct uro_sock *sock);
void uro_sock_set_port(struct uro_sock *sock, uint16_t port);
