/* SPDX-License-Identifier: BSD-3-Clause */
/* capture_gso.c - splits a captured frame into the packets that a kernel or a network card makes
 * of it (GSO), or made it of (GRO). */
#include <string.h>

#include "capture/capture.h"
#include "wire/ip.h"

#define V4_TOTAL_LENGTH   2u
#define V4_IDENTIFICATION 4u
#define V4_CHECKSUM       10u
#define V6_PAYLOAD_LENGTH 4u
#define UDP_LENGTH        4u
#define UDP_CHECKSUM      6u

/* Writes the lengths of a packet, and the checksums that depend on them. */
static void set_lengths(uint8_t *ip, bool v6, uint32_t ip_length, uint32_t payload)
{
    const uint32_t udp_length = URO_UDP_LEN + payload;
    uint8_t *udp = ip + ip_length;

    uro_put_be16(udp + UDP_LENGTH, (uint16_t)udp_length);
    uro_put_be16(udp + UDP_CHECKSUM, 0); /* the ICRC replaces it */
    if (v6) {
        uro_put_be16(ip + V6_PAYLOAD_LENGTH, (uint16_t)udp_length);
        return;
    }
    uro_put_be16(ip + V4_TOTAL_LENGTH, (uint16_t)(ip_length + udp_length));
    uro_put_be16(ip + V4_CHECKSUM, 0);
    uro_put_be16(ip + V4_CHECKSUM, uro_ip_sum_finish(uro_ip_sum(0, ip, ip_length)));
}

uint32_t uro_capture_split(const struct uro_pcap_read_frame *frame,
                           const struct uro_capture_link *link, uint32_t index, uint16_t step,
                           uint8_t out[static URO_CAPTURE_PACKET_MAX])
{
    const uint32_t ip_length = link->v6 ? URO_IPV6_LEN : URO_IPV4_LEN;
    const uint32_t head = link->network + ip_length + URO_UDP_LEN;
    const uint8_t *udp = frame->pkt.octets + head - URO_UDP_LEN;
    const uint32_t stored = frame->pkt.length;

    if (head > stored || head + link->first_length > URO_CAPTURE_PACKET_MAX)
        return 0;
    const uint32_t said = uro_get_be16(udp + UDP_LENGTH);
    const uint32_t body = said > URO_UDP_LEN ? said - URO_UDP_LEN : 0;
    const uint32_t end = body < stored - head ? body : stored - head;
    const uint64_t from = (uint64_t)index * link->first_length;
    if (from >= end)
        return 0;
    const uint32_t left = end - (uint32_t)from;
    const uint32_t payload = left < link->first_length ? left : link->first_length;
    memcpy(out, frame->pkt.octets, head);
    memcpy(out + head, frame->pkt.octets + head + from, payload);
    if (!link->v6) {
        uint8_t *ident = out + link->network + V4_IDENTIFICATION;
        uro_put_be16(ident, (uint16_t)(uro_get_be16(ident) + index * step));
    }
    set_lengths(out + link->network, link->v6, ip_length, payload);
    return head + payload;
}
