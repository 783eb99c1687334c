/* SPDX-License-Identifier: BSD-3-Clause */
/* icmp_suppress.h - stops the kernel from answering RoCE packets with ICMP errors.
 *
 * If the kernel has our address, too, it also receives every RoCE packet. It finds no socket at UDP
 * port 4791 and sends the peer ICMP port unreachable. A socket on that port that receives nothing
 * prevents this. The kernel still answers ARP, neighbour solicitations and pings for the address,
 * as uroce does. The peer gets two equal answers, which is harmless.
 */
#pragma once

#include "engine/port.h"

#define URO_ICMP_SUPPRESS_MAX 16u

struct uro_icmp_suppress {
    uint32_t count;
    int sockets[URO_ICMP_SUPPRESS_MAX];
};

/* Opens the sockets in the current network namespace. @interface: index of the interface, for
 * link-local addresses. */
void uro_icmp_suppress_start(struct uro_icmp_suppress *quiet, const struct uro_port_config *config,
                             uint32_t interface);
void uro_icmp_suppress_stop(struct uro_icmp_suppress *quiet);
