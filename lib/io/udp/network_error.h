/* SPDX-License-Identifier: BSD-3-Clause */
/* network_error.h - what the network says of packets that could not be delivered is told, once,
 * when somebody watches. The transport finds out by itself.
 *
 * The kernel does not look into the packet that a report quotes: on a shared address it gives it to
 * any of the sockets. So each process passes on what it gets, the broker what came to sockets that
 * no process has, and of all that a process tells what is about where it sent to.
 */
#pragma once

#include "io/udp/hub.h"
#include "io/udp/sock.h"

/* Datagrams of the connection manager to ports that nobody has, of which it is to hear. More of
 * them at once are forgotten: it asks again. */
#define URO_UNDELIVERED_MAX 8u
struct uro_undelivered {
    uint32_t count;
    struct uro_sock_report reports[URO_UNDELIVERED_MAX];
    const struct uro_sock *by[URO_UNDELIVERED_MAX];
};

/* Takes all that is reported at @sock; @tried, or NULL: what the kernel refuses now was to go
 * there. Returns how many came from the network, which leaves out what the kernel says of its own
 * sends. */
uint32_t uro_network_error_take(struct uro_sock *sock, const union uro_sock_address *tried);

/* The broker passed one on, in the record of @sock's share. */
void uro_network_error_receive(struct uro_sock *sock, const struct uro_hub_header *header,
                               uint32_t octets);
