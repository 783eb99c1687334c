/* SPDX-License-Identifier: BSD-3-Clause */
/* iface.h - an interface of the kernel's that a port is over: its state, under whatever name it has
 * by now. */
#pragma once

#include "base/defs.h"
#include "wire/gid.h"

#define URO_IFACE_NAME_MAX 32u

/* State of an interface in the present network namespace. */
struct uro_iface_state {
    int index;
    uint32_t mtu;
    bool up; /* set so */
    bool running;
    bool ethernet; /* its frames are; those of a tunnel of IP packets are not */
    struct uro_mac mac;
};

struct uro_iface {
    char name[URO_IFACE_NAME_MAX]; /* its present one; "": the port is not over an interface */
    int index;                     /* which does not change with the name */
    bool gone;                     /* there is no such interface any more */
    uint32_t mtu;                  /* its present one; 0: not asked yet */
    uint32_t looks;                /* in a row that found it up and without a carrier */
    int control;                   /* of the network namespace the port was opened in, or -1 */
};

#define URO_IFACE_INIT                                                                             \
    (struct uro_iface)                                                                             \
    {                                                                                              \
        .control = -1                                                                              \
    }

/* Returns 0, or -1 when there is none of that name. @control may be -1. */
URO_NODISCARD int uro_iface_read(int control, const char *name, struct uro_iface_state *state);

/* iface->name and iface->index are set: remembers the network namespace. */
void uro_iface_open(struct uro_iface *iface);
void uro_iface_close(struct uro_iface *iface);

/* Whether frames pass now. Follows an interface that is renamed. */
bool uro_iface_running(struct uro_iface *iface);
