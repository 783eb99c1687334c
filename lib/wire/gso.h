/* SPDX-License-Identifier: BSD-3-Clause */
/* gso.h - several UDP packets of one flow in one frame: generic segmentation offload, UDP_SEGMENT
 * in udp(7). The frame has the headers once, then the payload of each packet. All payloads have the
 * same length, except the last payload, which may be shorter. The IPv4 identification increases by
 * one from packet to packet.
 *
 * The functions support only untagged frames without IPv4 options or IPv6 extension headers.
 */
#pragma once

#include "wire/ip.h"

#define URO_GSO_PACKETS_MAX 64u    /* the lowest limit of any kernel */
#define URO_GSO_OCTETS_MAX  65535u /* limit of the length fields of IP */
#define URO_GSO_HEAD_MAX    62u    /* Ethernet, IPv6, UDP */

/* Returns the number of octets before the UDP payload, or 0 if the frame cannot hold several
 * packets. */
uint32_t uro_gso_head(const uint8_t *frame, uint32_t length);

/* Returns whether the headers, of @head octets each, belong to the same flow: a packet with the
 * second header can be appended to a packet with the first. */
bool uro_gso_same_flow(const uint8_t *first, const uint8_t *second, uint32_t head);

/* Turns the headers of the first packet into headers for all packets, which have @payload octets
 * together. Writes the checksum of the pseudo-header as UDP checksum, for
 * VIRTIO_NET_HDR_F_NEEDS_CSUM of virtio. */
void uro_gso_join(uint8_t *headers, uint32_t head, uint32_t payload);

/* Writes to @out the headers of packet @index of a frame that has the headers @joined, with
 * @payload octets of its own and no UDP checksum. */
void uro_gso_cut(const uint8_t *joined, uint32_t head, uint32_t index, uint32_t payload,
                 uint8_t *out);

/* Clears the UDP checksum of a frame, because it was not computed yet or was already checked. */
void uro_gso_forget_checksum(uint8_t *frame, uint32_t length);
