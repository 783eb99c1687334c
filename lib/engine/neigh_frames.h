/* SPDX-License-Identifier: BSD-3-Clause */
/* neigh_frames.h - builds the frames of engine/neigh.c in its queue. A full queue drops frames. */
#pragma once

#include "engine/neigh.h"
#include "wire/arp.h"
#include "wire/icmp.h"

/* Sends an ARP request or neighbour solicitation. The frame goes to the known MAC address if the
 * next hop is KNOWN or doubted. Otherwise a request is broadcast, and a solicitation goes to the
 * solicited-node multicast group. */
void uro_neigh_send_request(struct uro_neigh *neigh, const struct uro_neigh_entry *entry);

void uro_neigh_send_arp_reply(struct uro_neigh *neigh, const struct uro_arp *request);
void uro_neigh_send_advert(struct uro_neigh *neigh, const struct uro_frame *frame,
                           const struct uro_icmp *solicit);
void uro_neigh_send_echo_reply(struct uro_neigh *neigh, const struct uro_frame *frame,
                               const struct uro_icmp *request);
