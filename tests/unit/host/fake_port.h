/* SPDX-License-Identifier: BSD-3-Clause */
/* fake_port.h - a plug-in whose ports a test controls. uroce loads it as liburoce-udp.so.
 *
 * The device receives the frames that a test injects. The port counts the frames that the device
 * sends, and keeps the last frame. fake_wait() waits for an action of a device thread without
 * sleeping.
 */
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "engine/engine.h"
#include "engine/port.h"

#define FAKE_FRAME_MAX 2048u
#define FAKE_QUEUE     64u
#define FAKE_MACS      64u

struct fake_port {
    struct uro_port port;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int event; /* eventfd, readable while frames wait; -1 for a port that can only be polled */
    bool armed;
    uint8_t queue[FAKE_QUEUE][FAKE_FRAME_MAX];
    uint32_t lengths[FAKE_QUEUE];
    uint32_t head, tail;

    bool mended;           /* links with "broken" open */
    bool breaks_otherwise; /* links with "broken" fail with another error message */
    bool link_up;
    bool gone;               /* the link never comes up again */
    unsigned flags;          /* flags of the next port */
    int lock_error;          /* result of each lock_service() */
    uint32_t carries;        /* MTU of the route to any peer */
    uint32_t tx_free_count;  /* result of each tx_free_count() */
    uint64_t *completes;     /* counter of fake_count_in(), or NULL */
    void (*sends)(void);     /* function that is called for each burst, or NULL */
    void (*receiving)(void); /* function that is called for each receive(), or NULL */

    bool let_open; /* links with "slow" may open */
    /* Counts of the device's actions. */
    uint32_t begins; /* calls of open() */
    uint32_t opens, closes, receives, arms, link_looks, sent;
    uint32_t multicasts,
        reports; /* calls of multicast(), and membership reports, which `sent` does not count */
    uint32_t received_by_arm; /* .receives at the last arm() */
    uint32_t services;        /* services in the last call of services(); 0 before the first call */
    uint32_t service_locks, service_unlocks, forks, ways;
    struct uro_listened locked_service; /* service of the last lock or unlock */
    pid_t opener, sender;               /* threads */
    char opener_name[16];
    sigset_t opener_signals; /* signals blocked in the thread that opened the port */
    uint8_t last[FAKE_FRAME_MAX];
    uint32_t last_length;
    struct uro_mac macs[FAKE_MACS]; /* MAC addresses of the requested groups */
    uint32_t mac_count;
    int close_pipe; /* gets a byte when the port is closed; -1: none */
};

/* The only port of this process, open or not. A link with "broken" in its text fails to open. A
 * link with "polled" has no descriptor. A link with "slow" opens only after fake_let_open(). */
extern struct fake_port fake;
extern struct uro_port_driver fake_drivers[]; /* the first has the links fake0, fake1, ... */

/* Empties the queue, and sets `receives`, `arms`, `link_looks` and `sent` to 0. The device can send
 * a burst afterwards. */
void fake_reset(void);

/* Injects an echo request from 10.0.0.2 to 10.0.0.1. If @to is the MAC address of the port, the
 * engine replies with one frame at once. */
void fake_inject_echo(const struct uro_mac *to);

/* Increments *@counter for each frame that is received from now on, as if the frame completed
 * something. */
void fake_count_in(const uint64_t *counter);

/* Sets .receiving, even while the device may be in receive(). */
void fake_call_receiving(void (*receiving)(void));

/* Returns whether the device has armed the port. */
bool fake_is_armed(void);

/* Sets the link state and wakes the device to read it. */
void fake_set_link(bool up);

/* Lets links with "slow" open from now on. */
void fake_let_open(void);

/* Waits until *@counter, one of the numbers above, is at least @value. */
void fake_wait(const uint32_t *counter, uint32_t value);
uint32_t fake_read(const uint32_t *counter);
