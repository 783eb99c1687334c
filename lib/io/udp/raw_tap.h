/* SPDX-License-Identifier: BSD-3-Clause */
/* raw_tap.h - a raw socket beside a UDP socket of IPv4, which sees the header that the other hides.
 *
 * The kernel gives a raw socket its copy of a packet before the UDP socket gets the datagram: when
 * that is read, the copy waits already. So whether a packet of a foreign sender came with the
 * identification that explains its ICRC is known, and all of the ICRC is checked. It takes
 * CAP_NET_RAW.
 *
 * A filter keeps out what is like our own packets (ip_id.h), but the kernel makes the copy before
 * it asks the filter: 0.1 us for each packet, for each process at the address. A raw tap that has
 * met nothing but our like therefore rests until it is woken.
 */
#pragma once

#include "io/udp/sock.h"

struct uro_raw_tap;

/* Of a packet, what its ICRC stands for. */
struct uro_raw_tap_header {
    uint32_t source; /* address */
    uint16_t source_port;
    uint16_t identification;
    bool fragmentable; /* DF is clear */
    const uint8_t *bth;
};

enum uro_raw_tap_answer {
    URO_RAW_TAP_SAW,
    URO_RAW_TAP_DID_NOT_SEE, /* it would have */
    URO_RAW_TAP_UNKNOWN,     /* there is none, it rests, or it was not there when the packet came */
};

/* Gives @sock one, when that is of IPv4 and packets of foreign senders are wanted: of all that
 * comes, or of what comes to the share of a shared address. False, with errno, when it cannot be
 * had, and all is as without. uro_sock_close() ends it. */
bool uro_raw_tap_open(struct uro_sock *sock, enum uro_ip_id_rule rule);
void uro_raw_tap_close(struct uro_raw_tap *raw_tap);

/* @raw_tap may be NULL. What it saw it says again, of a packet that the network repeats. */
enum uro_raw_tap_answer uro_raw_tap_ask(struct uro_raw_tap *raw_tap,
                                        const struct uro_raw_tap_header *header);

/* One more packet came that is like ours: of this many in a row, and none seen, it goes to rest. */
void uro_raw_tap_count_plain(struct uro_raw_tap *raw_tap);
/* One came that is not. What waits in the UDP socket by now it has not seen. */
void uro_raw_tap_wake(struct uro_raw_tap *raw_tap);
