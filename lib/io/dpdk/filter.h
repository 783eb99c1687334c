/* SPDX-License-Identifier: BSD-3-Clause */
/* filter.h - chooses the frames that a link receives: frames to our address and to our groups. */
#pragma once

#include "wire/gid.h"

struct uro_dpdk;

enum uro_filter_groups {
    URO_FILTER_LIST, /* groups of the list, if the link filters at all */
    URO_FILTER_ALL_GROUPS,
    URO_FILTER_EVERYTHING,
};

struct uro_filter {
    bool promiscuous;
    enum uro_filter_groups groups;
    int socket; /* packet socket that requests all groups, or -1 */
};

#define URO_FILTER_INIT                                                                            \
    (struct uro_filter)                                                                            \
    {                                                                                              \
        .socket = -1                                                                               \
    }

/* Configures the link to receive frames to dpdk->port.mac. @alien: this is not the interface's own
 * address. */
void uro_filter_address(struct uro_dpdk *dpdk, bool alien);

/* Configures the link to receive frames to these groups. A driver without such a list receives
 * more. */
void uro_filter_groups(struct uro_dpdk *dpdk, const struct uro_mac *macs, uint32_t count);

void uro_filter_close(struct uro_dpdk *dpdk);
