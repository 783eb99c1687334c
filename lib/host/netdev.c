/* SPDX-License-Identifier: BSD-3-Clause */
/* netdev.c - see netdev.h. */
#include "host/netdev.h"

#include <string.h>

#include "host/defaults.h"
#include "host/local.h"
#include "host/plugin.h"

bool uro_netdev_name(const struct uro_device_config *config, uint32_t index,
                     char name[static IF_NAMESIZE])
{
    struct uro_local_list list;

    if (index >= config->gid_count)
        return false;
    if (uro_defaults_interface(config->link, name))
        return true;
    if (!uro_plugin_is_udp(config->link))
        return false;
    uro_local_read(&list);
    for (uint32_t i = 0; i < list.count; i++)
        if (uro_gid_equal(&list.at[i].gid, &config->gids[index])) {
            memcpy(name, list.at[i].interface, IF_NAMESIZE);
            return true;
        }
    return false;
}

uint32_t uro_netdev_index(const struct uro_device_config *config, uint32_t index)
{
    char name[IF_NAMESIZE];

    return uro_netdev_name(config, index, name) ? if_nametoindex(name) : 0;
}
