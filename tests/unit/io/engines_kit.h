/* SPDX-License-Identifier: BSD-3-Clause */
/* engines_kit.h - the ports of the engines of one device, around an inner port of the test. Frames
 * are written as text, two characters each: the destination, and a letter that the frame carries.
 */
#pragma once

#include "support/check.h"

#include <poll.h>
#include <unistd.h>

#include "core/shard.h"
#include "engine/engine.h"
#include "io/engines/port.h"
#include "io/engines/steer.h"
#include "wire/ether.h"

#define ENGINES    3u
#define HEAD       (URO_ETHER_LEN + URO_IPV4_LEN + URO_UDP_LEN + URO_BTH_LEN)
#define PAYLOAD    8u
#define FRAME      (HEAD + PAYLOAD + 4u)
#define AT_NUMBER  HEAD /* offset of the number, big endian */
#define MTU        1500u
#define FRAME_MAX  (MTU + URO_ETHER_LEN_MAX)
#define MANY       2048u
#define MACS_MAX   8u
#define RING_SLOTS 512u

/* The inner port. A test writes what the port does, and reads what was called. */
struct engines_kit_inner {
    struct uro_port port;
    struct {
        uint32_t length;
        uint8_t octets[FRAME_MAX + 64];
    } arrives[MANY]; /* frames to receive */
    uint32_t arrived, next, lent;
    uint8_t sent[MANY][FRAME];
    uint32_t sent_count, tx_free;
    uint32_t receives, max; /* calls of receive(), and the argument max of the last call */
    uint32_t armed, disarmed, closed, forked, multicasts, wait_fd_count;
    bool down, gone, ready; /* ready: arm() returns false */
    struct uro_mac macs[MACS_MAX];
    uint32_t mac_count;
    void (*during_receive)(void);
    int fd;
};

extern struct engines_kit_inner inner;
extern const struct uro_port_ops inner_ops;
extern struct uro_port *ports[URO_STEER_ENGINES_MAX]; /* NULL: closed */

void reset_inner(void);
void open_ports(uint32_t engines);
int start_engines(void **state);
void close_engine(uint32_t engine);
int stop_engines(void **state);
/* Describes an RC SEND ONLY with the number @number. @to: '0' + N, a QPN of this device with the
 * prefix N (1 to 16); '0', QP 1 of this device; 'w', a host on the link; '*', a group. */
struct uro_tx tx_of(char to, uint32_t number);
/* Makes a frame arrive on the link. */
void arrive_one(char to, uint32_t number);
void arrive(const char *frames);
void transmit(uint32_t engine, const char *frames);
/* Returns the number in a frame. Fails the test if the frame is damaged. Calls no assert otherwise,
 * because cmocka's asserts are slow. */
uint32_t number_in(const uint8_t *octets, uint32_t length);
const char *letters(const struct uro_pkt *pkts, uint32_t count);
/* Calls receive() and release() once. Returns the letters of the frames. */
const char *received(uint32_t engine);
/* Returns the letters of the frames that left by the link since the last call. */
const char *sent(void);
bool wakes(uint32_t engine);
/* Makes frames arrive on the link until the ring of engine 1 is full. Their numbers begin at 0.
 * Engine 0 receives the frames from the link and puts them into the ring. */
void fill_ring_from_link(void);
/* Fills the ring of engine 1 with frames of engine @from, numbered from 0. Returns how many. The
 * last frames wait for space. */
uint32_t fill_ring(uint32_t from);
/* Receives at most a burst of frames, which must have the numbers from @first on. Returns how
 * many. */
uint32_t receive_numbers(uint32_t engine, uint32_t first);
