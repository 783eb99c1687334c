/* SPDX-License-Identifier: BSD-3-Clause */
/* words.h - what a user writes for a packet socket: the words of DPDK's af_packet driver, and gso=. */
#pragma once

#include "engine/port.h"
#include "io/kernel/iface.h"

struct uro_packet_words {
    char iface[URO_IFACE_NAME_MAX];
    uint32_t
        slot; /* octets of each of the ring for received frames; 0: ours to choose, likewise: */
    uint32_t slots;
    uint32_t block;     /* octets that the kernel has in one piece: several slots */
    bool gso;           /* packets of one flow may leave as one frame */
    bool qdisc_bypass;  /* frames do not go through the interface's queueing discipline ... */
    bool qdisc_decided; /* ... by the user's will */
};

/* Returns 0 or -1 with a sentence in @error. */
URO_NODISCARD int uro_packet_words(const char *link, struct uro_packet_words *words,
                                   char error[static URO_PORT_ERROR_MAX]);
