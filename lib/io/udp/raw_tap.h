/* SPDX-License-Identifier: BSD-3-Clause */
/* raw_tap.h - a raw socket in addition to an IPv4 UDP socket. It receives the IPv4 headers, which
 * the UDP socket does not show.
 *
 * The kernel gives a raw socket its copy of a packet before the UDP socket gets the datagram. So
 * when the datagram is read, the copy has already arrived. The copy shows whether the packet had
 * the identification for which its ICRC is right. Thus all bits of the ICRC are checked. The raw
 * socket needs CAP_NET_RAW.
 *
 * A filter drops packets that follow uroce's identification pattern (ip_id.h). But the kernel makes
 * the copy before it runs the filter. Each copy costs 0.1 us for each process at the address.
 * Therefore a raw tap that has received only packets with uroce's pattern stops receiving until
 * uro_raw_tap_wake().
 */
#pragma once

#include "io/udp/sock.h"

struct uro_raw_tap;

/* The header fields of a packet that its ICRC proves. */
struct uro_raw_tap_header {
    uint32_t source; /* IPv4 address */
    uint16_t source_port;
    uint16_t identification;
    bool fragmentable; /* DF is clear */
    const uint8_t *bth;
};

enum uro_raw_tap_answer {
    URO_RAW_TAP_SAW,
    URO_RAW_TAP_DID_NOT_SEE, /* the tap was receiving, and there was no such packet */
    URO_RAW_TAP_UNKNOWN,     /* there is no tap, or it may have been stopped when the packet
                                arrived */
};

/* Opens a raw tap for an IPv4 @sock, if @rule accepts packets of other senders. The tap receives
 * RoCE packets to the address that do not follow uroce's pattern. On a shared address, it receives
 * only those to the QPN prefix of the process and to prefix 0. Returns false with errno if the raw
 * socket cannot be opened. @sock also works without a raw tap. uro_sock_close() closes the tap. */
bool uro_raw_tap_open(struct uro_sock *sock, enum uro_ip_id_rule rule);
void uro_raw_tap_close(struct uro_raw_tap *raw_tap);

/* Returns whether the tap saw a packet with that header. The result is the same for a packet that
 * the network duplicated. @raw_tap may be NULL. */
enum uro_raw_tap_answer uro_raw_tap_ask(struct uro_raw_tap *raw_tap,
                                        const struct uro_raw_tap_header *header);

/* Counts one more packet with uroce's pattern. The tap stops after REST_AFTER such packets, if it
 * has not found a requested packet, and @rule of uro_raw_tap_open() was not URO_IP_ID_FULL. */
void uro_raw_tap_count_plain(struct uro_raw_tap *raw_tap);
/* Starts the tap again after a packet without uroce's pattern. The tap has not seen packets that
 * are already in the UDP socket. */
void uro_raw_tap_wake(struct uro_raw_tap *raw_tap);
