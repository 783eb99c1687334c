/* SPDX-License-Identifier: BSD-3-Clause */
/* share.h - a process' side of an address that several processes use: see hub.h. */
#pragma once

#include "io/udp/hub.h"

struct uro_share {
    int fd; /* to the broker, or -1 */
    uint32_t number;
    struct uro_gid address;
    struct uro_listened *services; /* as told last, to be told again to another broker */
    uint32_t service_count;
    uint8_t *record; /* URO_HUB_RECORD octets */
};

enum uro_share_result {
    URO_SHARE_JOINED,
    URO_SHARE_NO_BROKER,
    URO_SHARE_TAKEN, /* @wanted is another process' */
    URO_SHARE_REFUSED
};

/* Asks the broker of @address for @wanted (0: any) and for its socket. With TAKEN and REFUSED a sentence is in
 * @error. */
URO_NODISCARD enum uro_share_result uro_share_join(struct uro_share *share,
                                                   const struct uro_gid *address, uint32_t wanted,
                                                   int *sock,
                                                   char error[static URO_PORT_ERROR_MAX]);
void uro_share_leave(struct uro_share *share);

/* Tells the broker what is listened for. */
void uro_share_services(struct uro_share *share, const struct uro_listened *services,
                        uint32_t count);

/* The next datagram or report that the broker passed on, in share->record what is behind the header; 0 octets when
 * there is none. False when the broker is gone. */
URO_NODISCARD bool uro_share_take(struct uro_share *share, struct uro_hub_header *header,
                                  uint32_t *octets);

/* A packet that is another process': the broker passes it on. */
void uro_share_pass(const struct uro_share *share, const union uro_sock_address *from,
                    uint8_t traffic_class, const uint8_t *octets, uint32_t length);

/* What the network reports, of any process' packet: the broker passes it on. */
void uro_share_report(const struct uro_share *share, const struct uro_sock_report *report);
