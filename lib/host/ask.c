/* SPDX-License-Identifier: BSD-3-Clause */
/* ask.c - what connections want of the port below: a service for this process alone, and how long packets may be
 * on the way to a peer. */
#include "host/device.h"

#include <stdio.h>

#include "core/limits.h"
#include "core/shard.h"
#include "host/plugin.h"

int uro_device_claim(struct uro_device *device, const struct uro_listened *what)
{
    if (device->closed)
        return 0;
    return uro_port_claim(device->port, what);
}

/* A program may stop listening later than its devices end. */
void uro_device_unclaim(struct uro_device *device, const struct uro_listened *what)
{
    if (!device->closed)
        uro_port_unclaim(device->port, what);
}

uint32_t uro_device_route_mtu(struct uro_device *device, const struct uro_gid *from,
                              const struct uro_gid *to)
{
    if (device->closed)
        return 0;
    return uro_port_route_mtu(device->port, from, to);
}

uint32_t uro_device_groups_max(const struct uro_device *device)
{
    return uro_plugin_is_udp(device->config.link) ? URO_PORT_GROUPS_MAX : URO_MCAST_GROUPS_MAX;
}

void uro_device_check_way(struct uro_device *device, uint32_t from, const struct uro_gid *to,
                          uint32_t payload)
{
    char text[URO_GID_TEXT_MAX];

    /* Asking the kernel takes 10 us: most connections go to the same peer as the one before. */
    if (device->told_narrow || uro_gid_equal(&device->checked_way, to))
        return;
    device->checked_way = *to;
    uint32_t mtu = uro_device_route_mtu(device, &device->config.gids[from], to);
    if (mtu == 0 || mtu >= payload + URO_ROCE_OVERHEAD)
        return;
    device->told_narrow = true;
    fprintf(stderr,
            "uroce: %s: the path to %s carries IP packets of %u octets only: set mtu=%u, or a "
            "smaller path MTU in the program\n",
            device->config.name, uro_gid_text(to, text), mtu, mtu);
}
