/* SPDX-License-Identifier: BSD-3-Clause */
/* memif_kit.h - memif ports of one process, driven by one thread, for test_memif*.c. */
#pragma once

#include <sys/types.h>

#include "engine/port.h"
#include "support/memif_peer.h"

#define KIT_STEPS     20u /* more steps than two sides need to connect */
#define KIT_FRAME_MAX 9618u

/* Returns the abstract socket name of ports of this process, or of another process. */
const char *kit_name(void);
const char *kit_name_of(pid_t process);
extern uro_port_open_fn uro_memif_open;

/* Opens "net_memif0,socket=..." followed by @words. If that fails, fails the test with the port's
 * message. */
struct uro_port *kit_open(const char *words, uint32_t mtu);
/* Expects that the port does not open. The returned message is valid until the next call. */
const char *kit_refused(const char *words);
void kit_close(struct uro_port **port);

/* Polls both ports until both links are up. Returns false after KIT_STEPS. */
bool kit_meet(struct uro_port *a, struct uro_port *b);
/* Does the same for a client whose earlier attempt to connect may have failed. Sleeps until the
 * client tries again. */
bool kit_find(struct uro_port *client, struct uro_port *server);
/* Sleeps, as a device does, until the link is @up. Returns false when nothing wakes it for a
 * second. */
bool kit_sleep_until(struct uro_port *port, bool up);
/* Returns whether a sleep on the port's descriptors would end within @ms. */
bool kit_wakes(struct uro_port *port, int ms);

/* kit_plain() returns a frame of @length bytes with an EtherType for experiments. kit_data()
 * returns a RoCE packet with @payload bytes. Both contain @number. The frame is valid until the
 * next call of either function. */
const struct uro_tx *kit_plain(uint32_t number, uint32_t length);
const struct uro_tx *kit_data(uint32_t number, uint32_t payload);

struct kit_frame {
    uint32_t length;
    bool indirect;
    uint8_t octets[KIT_FRAME_MAX];
};

void kit_send(struct uro_port *port, const struct uro_tx *tx);
/* Takes the next frame. Returns false when there is none. */
bool kit_take(struct uro_port *port, struct kit_frame *frame);
/* Fails the test unless this frame is the next frame of @port. */
void kit_expect(struct uro_port *port, const struct uro_tx *tx, bool indirect);
/* Checks that frames arrive in both directions. */
void kit_works(struct uro_port *a, struct uro_port *b);

/* These functions return the number of descriptors of the process, and of its mappings of
 * memfds. */
unsigned kit_fds(void);
unsigned kit_maps(void);

/* These functions return a hand-written peer of @server. The first has sent INIT and got HELLO and
 * ACK. The second is connected. */
struct memif_peer kit_peer_known(struct uro_port *server);
struct memif_peer kit_peer_up(struct uro_port *server);
/* Sends the message, drives @port, and returns the type of the reply; 0: no reply. */
unsigned kit_ask(struct uro_port *port, int control, const struct uro_memif_message *message,
                 int fd);
/* Checks that the connection of @port has ended with @reason, and drops the peer. */
void kit_ended(struct uro_port *port, struct memif_peer *peer, const char *reason);
/* Returns a hand-written server that is connected to @client; @listener is its socket. */
struct memif_peer kit_peer_serve(struct uro_port *client, int listener);
