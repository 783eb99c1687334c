/* SPDX-License-Identifier: BSD-3-Clause */
/* socket.h - a packet socket on one interface, and its filter. */
#pragma once

#include "base/defs.h"

/* Makes a socket that receives nothing yet. Returns it, or -errno. */
URO_NODISCARD int uro_packet_socket(void);

/* Returns whether this kernel supports coalesced UDP packets at packet sockets, in both directions:
 * Linux 6.2. An older kernel loses coalesced packets, and more (uro_packet_ring_renew), when a
 * socket requests virtio headers. */
bool uro_packet_socket_can_join(void);

/* Sets options that an older kernel may lack; the port works without them, but less well. @alien:
 * our MAC address is not the interface's own. */
void uro_packet_socket_teach(int fd, int interface, bool alien, bool qdisc_bypass);

/* Starts receiving from the interface. Returns 0 or -errno. */
URO_NODISCARD int uro_packet_socket_bind(int fd, int interface);

/* Returns the number of frames that the kernel dropped since the last call, because no slot was
 * free or because it could not describe them. */
uint32_t uro_packet_socket_drops(int fd);

/* Clears the socket error that an interface leaves when it goes down. The error would wake a
 * sleeping thread again and again. */
void uro_packet_socket_forget_error(int fd);
