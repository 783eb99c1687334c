/* SPDX-License-Identifier: BSD-3-Clause */
/* socket.h - a packet socket on one interface, and what it lets in. */
#pragma once

#include "base/defs.h"

/* A socket that hears nothing yet, or -errno. */
URO_NODISCARD int uro_packet_socket(void);

/* Whether this kernel passes packets of UDP that stand in one frame to packet sockets, and takes
 * them: Linux 6.2. An older one loses frames of several packets, and more (uro_packet_ring_renew),
 * when a socket asks. */
bool uro_packet_socket_can_join(void);

/* Manners, each a kindness that an older kernel may lack; without it things work, worse. @alien:
 * our address is not the interface's own. */
void uro_packet_socket_teach(int fd, int interface, bool alien, bool qdisc_bypass);

/* Hears the interface from now on. Returns 0 or -errno. */
URO_NODISCARD int uro_packet_socket_bind(int fd, int interface);

/* Frames that the kernel dropped since the last call, for want of a slot or because it could not
 * describe them. */
uint32_t uro_packet_socket_drops(int fd);

/* Takes the error that an interface left that went down: a sleeper would be woken by it again and
 * again. */
void uro_packet_socket_forget_error(int fd);
