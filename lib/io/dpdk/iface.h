/* SPDX-License-Identifier: BSD-3-Clause */
/* iface.h - ports over an interface of the kernel's: its descriptor, its state, its manners. */
#pragma once

#include "base/defs.h"
#include "wire/gid.h"

#define URO_IFACE_NAME_MAX 32u

struct uro_dpdk;

/* State of an interface in the present network namespace. */
struct uro_iface_state {
    int index;
    uint32_t mtu;
    bool running;
    struct uro_mac mac;
};

struct uro_iface {
    char name[URO_IFACE_NAME_MAX]; /* its present one; "": the port is not over an interface */
    int index;                     /* which does not change with the name */
    bool gone;                     /* there is no such interface any more */
    uint32_t mtu;                  /* its present one */
    int fd;               /* the one DPDK's driver reads frames from, or -1; the driver's own */
    int control;          /* of the network namespace the port was opened in */
    void (*trigger)(int); /* net_tap: see iface_tap.h */
};

#define URO_IFACE_INIT                                                                             \
    (struct uro_iface)                                                                             \
    {                                                                                              \
        .fd = -1, .control = -1                                                                    \
    }

/* Returns 0, or -1 when there is none of that name. @control may be -1. */
URO_NODISCARD int uro_iface_read(int control, const char *name, struct uro_iface_state *state);

/* Descriptors of the process that DPDK may have opened for the interface. */
#define URO_IFACE_FDS_MAX 32u
struct uro_iface_fds {
    uint32_t count;
    int list[URO_IFACE_FDS_MAX];
};
void uro_iface_fds(struct uro_iface_fds *fds, const char *name);

/* Finds the descriptor that is new since @before, and teaches it manners. @alien: our address is
 * not the interface's own. */
void uro_iface_attach(struct uro_iface *iface, const struct uro_iface_fds *before, bool alien);
void uro_iface_detach(struct uro_iface *iface);

/* Whether frames pass now. Follows an interface that is renamed. */
bool uro_iface_running(struct uro_iface *iface);
