/* SPDX-License-Identifier: BSD-3-Clause */
/* claim.c - see claim.h. */
#define _GNU_SOURCE /* struct mmsghdr, of udp.h */
#include "io/udp/claim.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>
#include <unistd.h>

#include "io/udp/udp.h"

static bool is_shared(const struct uro_udp_port *udp, const struct uro_gid *address)
{
    for (uint32_t i = 0; i < udp->sock_count; i++)
        if (uro_gid_equal(&udp->socks[i].address, address))
            return udp->socks[i].share != NULL;
    return false;
}

/* A socket that has the name and does nothing. Returns it, or -errno. */
static int have_name(const struct uro_listened *what)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    char text[URO_GID_TEXT_MAX];

    int used = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "uroce-listen-%u-%s-%" PRIx64,
                        (unsigned)geteuid(), uro_gid_text(&what->address, text), what->id);
    const size_t length = offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)used;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (bind(fd, (const struct sockaddr *)&name, (socklen_t)length) == 0)
        return fd;
    int why = errno;
    (void)close(fd);
    return -why;
}

int uro_claim_take(struct uro_port *port, const struct uro_listened *what)
{
    struct uro_udp_port *udp = uro_udp_of(port);
    struct uro_claims *claims = &udp->claims;

    if (!is_shared(udp, &what->address))
        return 0;
    struct uro_claim *all = realloc(claims->all, (claims->count + 1) * sizeof *all);
    if (all == NULL)
        return -ENOMEM;
    claims->all = all;
    int fd = have_name(what);
    if (fd < 0)
        return fd;
    all[claims->count++] = (struct uro_claim){ fd, *what };
    return 0;
}

void uro_claim_give(struct uro_port *port, const struct uro_listened *what)
{
    struct uro_claims *claims = &uro_udp_of(port)->claims;

    for (uint32_t i = 0; i < claims->count; i++) {
        const struct uro_claim *claim = &claims->all[i];
        if (claim->what.id != what->id || !uro_gid_equal(&claim->what.address, &what->address))
            continue;
        (void)close(claim->fd);
        claims->all[i] = claims->all[--claims->count];
        return;
    }
}

void uro_claim_close(struct uro_claims *claims)
{
    while (claims->count > 0)
        (void)close(claims->all[--claims->count].fd);
    free(claims->all);
    claims->all = NULL;
}
