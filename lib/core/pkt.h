/* SPDX-License-Identifier: BSD-3-Clause */
/* pkt.h - a received frame, contiguous, lent to the engine for one call. */
#pragma once

#include "base/defs.h"

struct uro_pkt {
    const uint8_t *octets; /* from the Ethernet header */
    uint32_t length;
    bool summed; /* the port found its ICRC right: it is not computed again */
    bool weak;   /* part of its ICRC was not there to be checked: the port worked it out */
    void *owner; /* the port's own handle (an mbuf); the engine does not look at it */
};
