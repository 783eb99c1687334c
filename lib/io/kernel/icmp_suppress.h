/* SPDX-License-Identifier: BSD-3-Clause */
/* icmp_suppress.h - keeps the kernel from answering what is sent to us.
 *
 * Where our address is the kernel's too, the kernel sees every RoCE packet as well, finds nobody
 * on UDP port 4791 and tells the peer so: ICMP port unreachable. A socket on that port that takes
 * nothing keeps it silent. The kernel goes on answering ARP, neighbour solicitations and pings
 * for the address, as we do: the peer gets two equal answers, which is harmless.
 */
#pragma once

#include "engine/port.h"

#define URO_ICMP_SUPPRESS_MAX 16u

struct uro_icmp_suppress {
    uint32_t count;
    int sockets[URO_ICMP_SUPPRESS_MAX];
};

/* In the present network namespace. @interface: its index, for link-local addresses. */
void uro_icmp_suppress_start(struct uro_icmp_suppress *quiet, const struct uro_port_config *config,
                             uint32_t interface);
void uro_icmp_suppress_stop(struct uro_icmp_suppress *quiet);
