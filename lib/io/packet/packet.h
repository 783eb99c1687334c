/* SPDX-License-Identifier: BSD-3-Clause */
/* packet.h - the inside of a port over a packet socket of the kernel's, for lib/io/packet only.
 *
 *   port.c    opens and closes; sleeping
 *   words.c   what a user writes
 *   socket.c  the socket: what it lets in
 *   ring.c    the memory in which the kernel leaves frames
 *   rx.c      frames in
 *   tx.c      frames out
 */
#pragma once

#include "engine/port.h"
#include "io/kernel/iface.h"
#include "io/kernel/quiet.h"
#include "io/packet/ring.h"
#include "io/packet/rx.h"
#include "io/packet/tx.h"
#include "io/packet/words.h"

struct uro_packet {
    struct uro_port port;
    struct uro_iface iface;
    struct uro_quiet quiet;
    uint32_t mtu; /* when it was opened */
    bool up;      /* as last seen */
    bool verbose;
    char device[16]; /* as far as it fits */
    int fd;
    uint32_t idle;    /* looks that found no frame */
    uint64_t dropped; /* by the kernel */
    struct uro_packet_ring ring;
    struct uro_packet_rx rx;
    struct uro_packet_tx tx;
};

static inline struct uro_packet *uro_packet_of(struct uro_port *port)
{
    return URO_CONTAINER_OF(port, struct uro_packet, port);
}
