/* SPDX-License-Identifier: BSD-3-Clause */
/* sock.c - see sock.h for the contract. */
#include "ucma/sock.h"

#include <errno.h>
#include <string.h>

#include "wire/bytes.h"

#define IPV4_AT     12u /* offset of an IPv4 address in a GID */
#define SID_PORT_AT 6u  /* offset of the port in a service ID */

uint32_t uro_sock_size(const struct uro_sock *sock)
{
    switch (sock->any.sa_family) {
    case AF_INET:
        return sizeof sock->v4;
    case AF_INET6:
        return sizeof sock->v6;
    case AF_IB:
        return sizeof sock->ib;
    default:
        return 0;
    }
}

int uro_sock_read(struct uro_sock *sock, const void *from, uint32_t size)
{
    memset(sock, 0, sizeof *sock);
    if (size > sizeof sock->storage)
        return -EINVAL;
    memcpy(sock, from, size);
    return size != 0 && uro_sock_size(sock) == size ? 0 : -EINVAL;
}

struct uro_gid uro_sock_gid(const struct uro_sock *sock)
{
    struct uro_gid gid = { 0 };
    uint8_t v4[4];

    if (sock->any.sa_family == AF_INET6) {
        memcpy(gid.octets, &sock->v6.sin6_addr, sizeof gid.octets);
    } else if (sock->any.sa_family == AF_IB) {
        memcpy(gid.octets, &sock->ib.sib_addr, sizeof gid.octets);
    } else if (sock->any.sa_family == AF_INET && sock->v4.sin_addr.s_addr != 0) {
        memcpy(v4, &sock->v4.sin_addr, sizeof v4);
        gid = uro_gid_from_ipv4(v4);
    }
    return gid;
}

void uro_sock_set_gid(struct uro_sock *sock, const struct uro_gid *gid)
{
    if (sock->any.sa_family == AF_INET)
        memcpy(&sock->v4.sin_addr, gid->octets + IPV4_AT, sizeof sock->v4.sin_addr);
    else if (sock->any.sa_family == AF_INET6)
        memcpy(&sock->v6.sin6_addr, gid->octets, sizeof sock->v6.sin6_addr);
    else
        memcpy(&sock->ib.sib_addr, gid->octets, sizeof sock->ib.sib_addr);
}

void uro_sock_make(struct uro_sock *sock, int family, const struct uro_gid *gid, uint16_t port)
{
    memset(sock, 0, sizeof *sock);
    if (family == 0)
        family = uro_gid_is_ipv4(gid) ? AF_INET : AF_INET6;
    sock->any.sa_family = (sa_family_t)family;
    uro_sock_set_gid(sock, gid);
    uro_sock_set_port(sock, port);
}

bool uro_sock_is_wildcard(const struct uro_sock *sock)
{
    struct uro_gid gid = uro_sock_gid(sock);

    return uro_gid_is_zero(&gid);
}

bool uro_sock_is_loopback(const struct uro_sock *sock)
{
    if (sock->any.sa_family == AF_INET)
        return *(const uint8_t *)&sock->v4.sin_addr == IN_LOOPBACKNET;
    return sock->any.sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&sock->v6.sin6_addr);
}

uint32_t uro_sock_scope(const struct uro_sock *sock)
{
    bool local = sock->any.sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&sock->v6.sin6_addr);

    return local ? sock->v6.sin6_scope_id : 0;
}

bool uro_sock_fits(const struct uro_sock *sock, const struct uro_gid *gid)
{
    return sock->any.sa_family == AF_IB || (sock->any.sa_family == AF_INET) == uro_gid_is_ipv4(gid);
}

uint16_t uro_sock_port(const struct uro_sock *sock)
{
    if (sock->any.sa_family == AF_INET)
        return uro_get_be16((const uint8_t *)&sock->v4.sin_port);
    if (sock->any.sa_family == AF_INET6)
        return uro_get_be16((const uint8_t *)&sock->v6.sin6_port);
    return uro_get_be16((const uint8_t *)&sock->ib.sib_sid + SID_PORT_AT);
}

void uro_sock_set_port(struct uro_sock *sock, uint16_t port)
{
    if (sock->any.sa_family == AF_INET) {
        uro_put_be16((uint8_t *)&sock->v4.sin_port, port);
    } else if (sock->any.sa_family == AF_INET6) {
        uro_put_be16((uint8_t *)&sock->v6.sin6_port, port);
    } else {
        uro_put_be16((uint8_t *)&sock->ib.sib_sid + SID_PORT_AT, port);
        sock->ib.sib_sid_mask = UINT64_MAX;
    }
}
