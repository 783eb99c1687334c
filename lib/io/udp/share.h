/* SPDX-License-Identifier: BSD-3-Clause */
/* share.h - a process' side of an address that several processes use: see hub.h. */
#pragma once

#include "io/udp/hub.h"

struct uro_share {
    int fd;                             /* to the broker, or -1 */
    bool asked;                         /* it was asked for a share, and has not answered yet */
    uint32_t wanted;                    /* then: which; 0: any */
    struct uro_hub_directory directory; /* where it was met last */
    uint32_t number;
    struct uro_gid address;
    struct uro_listened *services; /* as told last, to be told again to another broker */
    uint32_t service_count;
    bool services_unsaid; /* the broker had no room for the services */
    uint8_t *record;      /* URO_HUB_RECORD bytes */
};

enum uro_share_result {
    URO_SHARE_JOINED,
    URO_SHARE_ASKED, /* the broker has not answered yet */
    URO_SHARE_NO_BROKER,
    URO_SHARE_TAKEN, /* the wanted one is another process' */
    URO_SHARE_REFUSED
};

/* Asks the broker of @address for @wanted (0: any). When too many ask at once it tries again for so
 * long; 0: it does not wait. Returns ASKED, NO_BROKER, or REFUSED with a sentence in @error. */
URO_NODISCARD enum uro_share_result uro_share_ask(struct uro_share *share,
                                                  const struct uro_gid *address, uint32_t wanted,
                                                  int wait_ms,
                                                  char error[static URO_PORT_ERROR_MAX]);

/* Takes the answer, and with JOINED the socket, for which it waits so long at most; 0: it does not.
 * With TAKEN and REFUSED a sentence is in @error, and the broker may be asked again. */
URO_NODISCARD enum uro_share_result uro_share_answer(struct uro_share *share, int wait_ms,
                                                     int *sock,
                                                     char error[static URO_PORT_ERROR_MAX]);

/* Ends the connection to the broker; another one may be asked. */
void uro_share_lose(struct uro_share *share);
void uro_share_leave(struct uro_share *share);

/* Tells the broker what is listened for. */
void uro_share_services(struct uro_share *share, const struct uro_listened *services,
                        uint32_t count);
/* Sends the services to the broker again if it had no room for them. Call it from time to time. */
void uro_share_repeat(struct uro_share *share);

/* The next datagram or report that the broker passed on, in share->record what is behind the
 * header; 0 octets when there is none. False when the broker is gone. */
URO_NODISCARD bool uro_share_take(struct uro_share *share, struct uro_hub_header *header,
                                  uint32_t *octets);

/* A packet that is another process': the broker passes it on. */
void uro_share_pass(const struct uro_share *share, const union uro_sock_address *from,
                    uint8_t traffic_class, const uint8_t *octets, uint32_t length);

/* What the network reports, of any process' packet: the broker passes it on. */
void uro_share_report(const struct uro_share *share, const struct uro_sock_report *report);
