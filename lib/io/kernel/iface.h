/* SPDX-License-Identifier: BSD-3-Clause */
/* iface.h - the kernel interface of a port. Reads the state of the interface, even after it was
 * renamed. Keeps the kernel from sending ICMP errors about RoCE packets. */
#pragma once

#include "base/defs.h"
#include "engine/port.h"
#include "wire/gid.h"

#define URO_IFACE_NAME_MAX 32u

/* State of an interface in the current network namespace. */
struct uro_iface_state {
    int index;
    uint32_t mtu;
    bool up; /* the administrator has set the interface up */
    bool running;
    bool ethernet; /* the interface has Ethernet frames; an IP tunnel does not */
    struct uro_mac mac;
};

struct uro_iface {
    char name[URO_IFACE_NAME_MAX]; /* current name; "": the port has no interface */
    int index;                     /* index, which a change of the name does not affect */
    bool gone;                     /* the interface no longer exists */
    uint32_t mtu;                  /* current MTU; 0: not read yet */
    uint32_t looks;                /* consecutive checks that found no carrier */
    int control;                   /* socket in the port's network namespace, or -1 */
};

#define URO_IFACE_INIT                                                                             \
    (struct uro_iface)                                                                             \
    {                                                                                              \
        .control = -1                                                                              \
    }

/* Reads the state of an interface. Returns 0, or -1 when no interface has that name. @control may
 * be -1. */
URO_NODISCARD int uro_iface_read(int control, const char *name, struct uro_iface_state *state);

/* Opens a socket in the current network namespace. iface->name and iface->index must be set. */
void uro_iface_open(struct uro_iface *iface);
void uro_iface_close(struct uro_iface *iface);

/* Returns whether the interface can pass frames now. Follows an interface that is renamed. */
bool uro_iface_running(struct uro_iface *iface);

/* ---- ICMP errors --------------------------------------------------------- */

/* If the kernel also has the port's address, it also receives every RoCE packet. Without a socket
 * at UDP port 4791, it would send ICMP port unreachable to the peer. A socket on that port that
 * receives nothing prevents this. The kernel still responds to ARP, neighbour solicitations and
 * pings for the address, like uroce. The peer gets two equal responses, which is harmless. */

#define URO_ICMP_SUPPRESS_MAX 16u

struct uro_icmp_suppress {
    uint32_t count;
    int sockets[URO_ICMP_SUPPRESS_MAX];
};

/* Opens the sockets in the current network namespace. @interface: index of the interface, for
 * link-local addresses. */
void uro_icmp_suppress_start(struct uro_icmp_suppress *suppress,
                             const struct uro_port_config *config, uint32_t interface);
void uro_icmp_suppress_stop(struct uro_icmp_suppress *suppress);
