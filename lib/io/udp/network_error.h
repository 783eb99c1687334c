/* SPDX-License-Identifier: BSD-3-Clause */
/* network_error.h - prints reports of the network about undelivered packets, once, when verbose.
 * The transport detects losses without them.
 *
 * The kernel does not examine the packet that a report quotes. On a shared address it gives the
 * report to any of the sockets. So each process passes its reports on to the broker, and the broker
 * reads the sockets that no process has. A process prints only reports about destinations that it
 * has sent to.
 */
#pragma once

#include "io/udp/hub.h"
#include "io/udp/sock.h"

/* Reports for the connection manager: datagrams to peers where no process has the port. Further
 * reports are dropped; the connection manager retransmits and gets another. */
#define URO_UNDELIVERED_MAX 8u
struct uro_undelivered {
    uint32_t count;
    struct uro_sock_report reports[URO_UNDELIVERED_MAX];
    const struct uro_sock *by[URO_UNDELIVERED_MAX];
};

/* Takes all reports at @sock. @tried, or NULL: the destination of a send that the kernel refuses
 * now. Returns the number of reports from the network, without those of the kernel about its own
 * sends. */
uint32_t uro_network_error_take(struct uro_sock *sock, const union uro_sock_address *tried);

/* Handles a report that the broker passed on, in the record of @sock's share. */
void uro_network_error_receive(struct uro_sock *sock, const struct uro_hub_header *header,
                               uint32_t octets);
