/* SPDX-License-Identifier: BSD-3-Clause */
/* service_lock.c - see service_lock.h. */
#define _GNU_SOURCE /* struct mmsghdr, of udp.h */
#include "io/udp/service_lock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "io/udp/udp.h"

/* Returns the share of the address, or NULL when it is not shared. */
static const struct uro_share *share_of(const struct uro_udp_port *udp,
                                        const struct uro_gid *address)
{
    for (uint32_t i = 0; i < udp->sock_count; i++)
        if (uro_gid_equal(&udp->socks[i].address, address))
            return udp->socks[i].share;
    return NULL;
}

static bool path_of(const struct uro_share *share, const struct uro_listened *what,
                    char path[static URO_HUB_DIRECTORY_PATH_MAX])
{
    char suffix[32];

    (void)snprintf(suffix, sizeof suffix, "-%" PRIx64, what->id);
    return uro_hub_directory_path(&share->directory, "listen", &what->address, suffix, path);
}

int uro_service_lock_take(struct uro_port *port, const struct uro_listened *what)
{
    struct uro_udp_port *udp = uro_udp_of(port);
    struct uro_service_locks *claims = &udp->service_locks;
    const struct uro_share *share = share_of(udp, &what->address);
    char path[URO_HUB_DIRECTORY_PATH_MAX];

    if (share == NULL)
        return 0;
    if (!path_of(share, what, path))
        return -ENAMETOOLONG;
    struct uro_service_lock *all = realloc(claims->all, (claims->count + 1) * sizeof *all);
    if (all == NULL)
        return -ENOMEM;
    claims->all = all;
    int fd = uro_hub_directory_lock(path, false);
    if (fd < 0)
        return fd == -EWOULDBLOCK ? -EADDRINUSE : fd;
    all[claims->count++] = (struct uro_service_lock){ fd, *what };
    return 0;
}

void uro_service_lock_release(struct uro_port *port, const struct uro_listened *what)
{
    struct uro_udp_port *udp = uro_udp_of(port);
    struct uro_service_locks *claims = &udp->service_locks;
    const struct uro_share *share = share_of(udp, &what->address);
    char path[URO_HUB_DIRECTORY_PATH_MAX];

    for (uint32_t i = 0; i < claims->count; i++) {
        const struct uro_service_lock *claim = &claims->all[i];
        if (claim->what.id != what->id || !uro_gid_equal(&claim->what.address, &what->address))
            continue;
        if (share != NULL && path_of(share, what, path))
            uro_hub_directory_unlock(claim->fd, path);
        else
            (void)close(claim->fd);
        claims->all[i] = claims->all[--claims->count];
        return;
    }
}

void uro_service_lock_close(struct uro_service_locks *claims)
{
    while (claims->count > 0)
        (void)close(claims->all[--claims->count].fd);
    free(claims->all);
    claims->all = NULL;
}
