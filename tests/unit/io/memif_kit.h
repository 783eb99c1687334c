/* SPDX-License-Identifier: BSD-3-Clause */
/* memif_kit.h - memif ports of one process, driven by one thread, for test_memif*.c. */
#pragma once

#include <sys/types.h>

#include "engine/port.h"
#include "support/memif_peer.h"

#define KIT_STEPS     20u /* more than it takes two sides to find each other */
#define KIT_FRAME_MAX 9618u

/* The abstract name that ports of this process, or of another one, are at. */
const char *kit_name(void);
const char *kit_name_of(pid_t process);
extern uro_port_open_fn uro_memif_open;

/* Opens "net_memif0,socket=..." with @words behind it; fails the test with the port's own words. */
struct uro_port *kit_open(const char *words, uint32_t mtu);
/* Expects that it does not open; the returned sentence is valid until the next call. */
const char *kit_refused(const char *words);
void kit_close(struct uro_port **port);

/* Looks at both until both are up; false after KIT_STEPS. */
bool kit_meet(struct uro_port *a, struct uro_port *b);
/* The same when @client may have looked in vain before: it sleeps until it tries again. */
bool kit_find(struct uro_port *client, struct uro_port *server);
/* Sleeps, as a device does, until the link is @up; false when nothing wakes it for a second. */
bool kit_sleep_until(struct uro_port *port, bool up);
/* Whether a sleep on what the port names would end within @ms. */
bool kit_wakes(struct uro_port *port, int ms);

/* Frame @number of @length octets of a type of its own; and a RoCE packet with @payload octets.
 * They stay until the next of them. */
const struct uro_tx *kit_plain(uint32_t number, uint32_t length);
const struct uro_tx *kit_data(uint32_t number, uint32_t payload);

struct kit_frame {
    uint32_t length;
    bool shared;
    uint8_t octets[KIT_FRAME_MAX];
};

void kit_send(struct uro_port *port, const struct uro_tx *tx);
/* The next frame; false when there is none. */
bool kit_take(struct uro_port *port, struct kit_frame *frame);
/* Fails unless @port has exactly this frame next. */
void kit_expect(struct uro_port *port, const struct uro_tx *tx, bool shared);
/* Frames go both ways. */
void kit_works(struct uro_port *a, struct uro_port *b);

/* How many descriptors the process has, and pieces of memory that somebody made a file of. */
unsigned kit_fds(void);
unsigned kit_maps(void);

/* A peer written by hand that has said INIT and heard HELLO and ACK of @server; and one that is
 * connected. */
struct memif_peer kit_peer_known(struct uro_port *server);
struct memif_peer kit_peer_up(struct uro_port *server);
/* Says it, drives @port, hears the answer's type; 0: none. */
unsigned kit_ask(struct uro_port *port, int control, const struct uro_memif_message *message,
                 int fd);
/* The connection of @port has ended with @reason; drops the peer. */
void kit_ended(struct uro_port *port, struct memif_peer *peer, const char *reason);
/* Likewise a server that @client is up with; @listener is its socket. */
struct memif_peer kit_peer_serve(struct uro_port *client, int listener);
