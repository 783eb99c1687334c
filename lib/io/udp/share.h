/* SPDX-License-Identifier: BSD-3-Clause */
/* share.h - a process at an address that several processes share. Connects the process to the
 * broker (hub.h), and locks its services. */
#pragma once

#include "engine/engine.h"
#include "engine/port.h"
#include "io/udp/hub.h"

struct uro_share {
    int fd;                             /* connection to the broker, or -1 */
    bool pending;                       /* a request for a QPN prefix is pending */
    uint32_t wanted;                    /* the requested QPN prefix; 0: any */
    struct uro_hub_directory directory; /* directory of the broker's socket, as last found */
    uint32_t number;
    struct uro_gid address;
    struct uro_listened *services; /* services that were set last; also sent to the next broker */
    uint32_t service_count;
    bool services_unsent; /* the services could not be sent to the broker yet */
    uint8_t *record;      /* body of the last record; URO_HUB_RECORD bytes */
};

enum uro_share_result {
    URO_SHARE_JOINED,
    URO_SHARE_ASKED, /* the broker has not answered yet */
    URO_SHARE_NO_BROKER,
    URO_SHARE_TAKEN, /* another process has the requested QPN prefix */
    URO_SHARE_REFUSED
};

/* Requests the QPN prefix @wanted (0: any) from the broker of @address. If too many processes
 * connect to the broker, tries again for @wait_ms. Returns ASKED, NO_BROKER, or REFUSED with a
 * sentence in @error. */
URO_NODISCARD enum uro_share_result uro_share_ask(struct uro_share *share,
                                                  const struct uro_gid *address, uint32_t wanted,
                                                  int wait_ms,
                                                  char error[static URO_PORT_ERROR_MAX]);

/* Waits at most @wait_ms for the answer. After JOINED the socket is in *@sock. After TAKEN and
 * REFUSED a sentence is in @error, and the broker may be asked again. Returns ASKED only if
 * @wait_ms is 0. */
URO_NODISCARD enum uro_share_result uro_share_answer(struct uro_share *share, int wait_ms,
                                                     int *sock,
                                                     char error[static URO_PORT_ERROR_MAX]);

/* Ends the connection to the broker. Another broker may be asked afterwards. */
void uro_share_lose(struct uro_share *share);
void uro_share_leave(struct uro_share *share);

/* Sends the broker the services that this process listens for. */
void uro_share_services(struct uro_share *share, const struct uro_listened *services,
                        uint32_t count);
/* Sends the services to the broker again if that was not possible before. Call it from time to
 * time. */
void uro_share_repeat(struct uro_share *share);

/* Takes the next datagram or report that the broker passed on. Its body is in share->record.
 * *@octets is 0 if there is no record. Returns false if the broker has ended. */
URO_NODISCARD bool uro_share_take(struct uro_share *share, struct uro_hub_header *header,
                                  uint32_t *octets);

/* Sends the broker a packet that another process should have received. */
void uro_share_pass(const struct uro_share *share, const union uro_sock_address *from,
                    uint8_t traffic_class, const uint8_t *octets, uint32_t length);

/* Sends the broker a report about an undelivered packet, for the other processes. */
void uro_share_report(const struct uro_share *share, const struct uro_sock_report *report);

/* ---- services ---------------------------------------------------------- */

/* At most one of the processes that share an address listens for a service.
 *
 * The process that listens holds a lock on a file whose name contains network namespace, address
 * and service, in a directory of the user (hub.h). The kernel releases the lock when the
 * process dies. The broker is not involved, so a lock holds even while there is no broker. */

struct uro_service_lock {
    int fd;
    struct uro_listened service;
};

/* The locks of one port. Initialized with zero, it has no locks. */
struct uro_service_locks {
    struct uro_service_lock *all;
    uint32_t count;
};

/* These functions implement lock_service() and unlock_service() of struct uro_port_ops. They do
 * nothing at an address that is not shared. */
URO_NODISCARD int uro_service_lock_take(struct uro_port *port, const struct uro_listened *service);
void uro_service_lock_release(struct uro_port *port, const struct uro_listened *service);

/* Closes all descriptors. This releases the locks, except in a forked child, whose parent keeps
 * them. */
void uro_service_lock_close(struct uro_service_locks *locks);
