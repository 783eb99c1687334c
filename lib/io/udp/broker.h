/* SPDX-License-Identifier: BSD-3-Clause */
/* broker.h - the broker of an address that several processes share; hub.h has the protocol.
 *
 * The broker makes a socket for each QPN prefix, gives the sockets to the processes, and keeps a
 * descriptor of each socket. So if a process dies, the sockets keep their order in the kernel, and
 * the filter stays right. The broker reads packets only from its own socket, which gets the packets
 * to queue pair 1. It also reads the ICMP errors of the sockets that no process has.
 *
 *   broker.c             the listener, the sockets, and the processes that have them; decides which
 *                        process gets a datagram or an ICMP error
 *   broker_disconnect.c  disconnects the peers of a process that died
 */
#pragma once

#include "io/udp/hub.h"
#include "wire/cm_msg.h"

#define URO_BROKER_MEMBERS (URO_QPN_PREFIXES - 2)

/* A process that has a QPN prefix. */
struct uro_broker_member {
    int fd; /* connection of the process; -1: no process has the prefix */
    struct uro_listened *services;
    uint32_t service_count;
};

struct uro_broker {
    struct uro_gid address;
    struct sockaddr_un name; /* address of the listener */
    int lock;                /* lock on the file next to the listener; -1: none */
    int claim; /* socket whose name shows that the user has a broker of the address; -1: none */
    char lock_path[URO_HUB_DIRECTORY_PATH_MAX];
    char users_path[URO_HUB_DIRECTORY_PATH_MAX]; /* path of the lock that each `uroce run` shares */
    int listener;
    int spare; /* a descriptor to close when no other is left for a new process; -1: none */
    int socks[URO_QPN_PREFIXES]; /* sockets by prefix; [0]: of the broker; the last is -1 */
    struct uro_broker_member members[URO_QPN_PREFIXES];
    uint32_t member_count;
    struct uro_broker_disconnect *disconnect; /* the connections of members */
    int64_t reports_since;                    /* second of the last ICMP report */
    uint32_t reports;                         /* ICMP reports in that second */
    int64_t (*clock_s)(void);                 /* returns the monotonic time in seconds */
};

/* Makes this process the broker of @address. Returns 1. Returns 0 if the address already has a
 * broker, or -1 with a sentence in @error. The caller must close the broker in each case. */
URO_NODISCARD int uro_broker_open(struct uro_broker *broker, const struct uro_gid *address,
                                  int64_t (*clock_s)(void), char error[static URO_PORT_ERROR_MAX]);
void uro_broker_close(struct uro_broker *broker);

/* Runs the broker until there has been no member for @idle_ms (-1: for ever), and no program that
 * `uroce run` started is alive. A process of the same user with another XDG_RUNTIME_DIR may need
 * the address. If @idle_ms is not -1, the broker then ends earlier: as soon as there is neither a
 * member nor such a program. */
void uro_broker_serve(struct uro_broker *broker, int idle_ms);

/* ---- for broker*.c only -------------------------------------------------- */

/* broker.c */

/* Returns the prefix of the member that must get the datagram at @bth, or 0. The broker does not
 * check the datagram, because the member checks all of it. Writes the message of connection
 * management to @msg. The kind of @msg is URO_CM_KIND_COUNT if the datagram has no such message. */
uint32_t uro_broker_route(const struct uro_broker *broker, const uint8_t *bth, uint32_t length,
                          struct uro_cm_msg *msg);

/* broker_disconnect.c */

/* Allocates the state. Returns NULL when there is no memory. */
struct uro_broker_disconnect *uro_broker_disconnect_open(void);
void uro_broker_disconnect_close(struct uro_broker_disconnect *disconnect);
/* Updates the connections and requests after a message of @peer that the broker passes on to member
 * @prefix. 0: no member gets the message. */
void uro_broker_disconnect_note(struct uro_broker_disconnect *disconnect, uint32_t prefix,
                                const struct uro_gid *peer, const struct uro_cm_msg *msg);
/* Disconnects the peers of member @prefix after its process has ended. */
void uro_broker_disconnect_begin(const struct uro_broker *broker, uint32_t prefix);
/* Sends the DREQs that are due to the peers that have not answered. */
void uro_broker_disconnect_repeat(const struct uro_broker *broker);
/* Returns the time until the next DREQ is due, in ms; -1: never. */
int uro_broker_disconnect_wait_ms(const struct uro_broker *broker);
