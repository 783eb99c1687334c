/* SPDX-License-Identifier: BSD-3-Clause */
/* hub.h - the broker of an address that several processes share; the protocol is in
 * io/udp/hub.h. */
#pragma once

#include <time.h>

#include "io/udp/hub.h"
#include "wire/cm_msg.h"

#define HUB_MEMBERS (URO_SHARES - 2)

/* A process, by its share. */
struct hub_member {
    int fd; /* -1: nobody */
    struct uro_listened *services;
    uint32_t service_count;
};

struct hub {
    struct uro_gid address;
    struct sockaddr_un name; /* of its listener */
    int lock;                /* on the file beside it: -1, or this is the broker of the address */
    char lock_path[URO_MEET_PATH_MAX];
    char users_path[URO_MEET_PATH_MAX]; /* of the lock that each `uroce run` shares (run_hub.c) */
    int listener;
    int spare; /* a descriptor that is closed when there is no other for who asks; -1: there is none */
    int socks[URO_SHARES]; /* by share; [0] is ours, all but it and [1 .. URO_SHARES - 2] unused */
    struct hub_member members[URO_SHARES];
    uint32_t member_count;
    struct hub_goodbye *goodbye; /* the connections of members */
    time_t reports_since;        /* s */
    uint32_t reports;            /* passed on since then */
};

/* hub_members.c */

/* Where processes ask for a share. Returns 1 when this is the broker now, 0 when there is one
 * already, -1 when there can be none, which is said. */
int hub_open_listener(struct hub *hub);
/* False when the port cannot be had, which is said. */
bool hub_open_socks(struct hub *hub);
void hub_close(struct hub *hub);
/* Whether a program lives that `uroce run` started. */
bool hub_has_users(const struct hub *hub);

/* Somebody asks for a share. One that says nothing within a second is sent away. */
void hub_welcome(struct hub *hub);
/* A process has gone. */
void hub_dismiss(struct hub *hub, uint32_t share);

/* hub_route.c */

/* Whose the datagram at @bth is: a share, or 0 when nobody's. @msg: what it says of a connection;
 * of kind URO_CM_KIND_COUNT when it says nothing. */
uint32_t hub_route(const struct hub *hub, const uint8_t *bth, uint32_t length,
                   struct uro_cm_msg *msg);

/* hub_goodbye.c */

/* NULL when there is no memory. */
struct hub_goodbye *hub_goodbye_open(void);
void hub_goodbye_close(struct hub_goodbye *goodbye);
/* A message of @peer's is passed on to member @share; 0: to nobody. */
void hub_goodbye_note(struct hub_goodbye *goodbye, uint32_t share, const struct uro_gid *peer,
                      const struct uro_cm_msg *msg);
/* Member @share is dead: the peers of its connections are told. */
void hub_goodbye_say(const struct hub *hub, uint32_t share);
/* Tells those again that have not answered, when it is time; and how long that is, -1: for ever. */
void hub_goodbye_go_on(const struct hub *hub);
int hub_goodbye_wait_ms(const struct hub *hub);

/* hub_reports.c */

/* Tells the members what the network reported at a socket that none of them has. */
void hub_reports_take(struct hub *hub, uint32_t share);
/* A member got one, of something that was sent @to: @octets are to be a struct uro_hub_report. The
 * others are told. */
void hub_reports_pass(struct hub *hub, uint32_t share, const union uro_sock_address *to,
                      const uint8_t *octets, uint32_t length);
