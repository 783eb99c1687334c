/* SPDX-License-Identifier: BSD-3-Clause */
/* filter.h - which frames a link lets in: those for our own address, and for the groups we want. */
#pragma once

#include "wire/gid.h"

struct uro_dpdk;

enum uro_filter_groups {
    URO_FILTER_LIST, /* those of the list, as far as the link looks at addresses at all */
    URO_FILTER_ALL_GROUPS,
    URO_FILTER_EVERYTHING,
};

struct uro_filter {
    bool promiscuous;
    enum uro_filter_groups groups;
    int socket; /* by which the kernel is asked for all groups, or -1 */
};

#define URO_FILTER_INIT                                                                            \
    (struct uro_filter)                                                                            \
    {                                                                                              \
        .socket = -1                                                                               \
    }

/* Makes frames to dpdk->port.mac arrive. @alien: it is not the interface's own address. */
void uro_filter_address(struct uro_dpdk *dpdk, bool alien);

/* Makes frames to these groups arrive; with a driver that has no such list, to more. */
void uro_filter_groups(struct uro_dpdk *dpdk, const struct uro_mac *macs, uint32_t count);

void uro_filter_close(struct uro_dpdk *dpdk);
