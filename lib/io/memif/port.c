/* SPDX-License-Identifier: BSD-3-Clause */
/* port.c - a port over shared memory: its operations, sleeping, and how it is opened. */
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "io/memif/control.h"
#include "io/memif/memif.h"

#define ETHER_OVERHEAD 18u /* header and one VLAN tag */
#define RETRY_NS       20000000
#define MEET_MS        100 /* longest wait for the handshake of six steps when opening */
#define LOOKS          8   /* number of checks; they and their pauses take a few microseconds */
#define LOOK_PAUSES    16

static bool link_up(struct uro_port *port)
{
    struct uro_memif *memif = uro_memif_of(port);

    uro_memif_tend(memif);
    return uro_memif_is_up(memif);
}

/* ---- sleeping ----------------------------------------------------------- */

static uint32_t wait_fds(struct uro_port *port, int fds[static URO_PORT_FDS_MAX])
{
    fds[0] = uro_memif_of(port)->epoll;
    return 1;
}

/* Starts or stops the retry timer. Setting the timer also clears an expiration. */
static void set_timer(struct uro_memif *memif, bool on)
{
    const struct itimerspec when = { .it_value = { .tv_nsec = on ? RETRY_NS : 0 } };

    if (memif->timer < 0 || memif->timer_runs == on)
        return;
    memif->timer_runs = on;
    (void)timerfd_settime(memif->timer, 0, &when, NULL);
}

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
/* ISB waits for some cycles; YIELD often does not wait. */
#elif defined(__aarch64__)
    __asm__ __volatile__("isb" : : : "memory");
#else
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* Looks for frames once more before sleeping. A sender without a fence between publishing a frame
 * and checking our request to be woken may have missed the request. Its frame may not be visible
 * yet, but becomes visible in a moment. */
static bool look_again(const struct uro_memif *memif)
{
    for (unsigned i = 0; i < LOOKS; i++) {
        if (uro_memif_peek(memif))
            return true;
        for (unsigned pause = 0; pause < LOOK_PAUSES; pause++)
            relax();
    }
    return false;
}

/* Prepares for sleep. Returns false if there is work. After a sleep that a frame ended, the
 * control connection is not examined: useless system calls would delay the thread that waits for
 * the frame. */
static bool arm(struct uro_port *port)
{
    struct uro_memif *memif = uro_memif_of(port);
    const bool was_up = uro_memif_is_up(memif);

    /* If a control event is pending, it ends the next sleep at once. */
    if (!memif->rung || !was_up || memif->complaint != NULL)
        uro_memif_tend(memif);
    if (uro_memif_is_up(memif) != was_up)
        return false;
    if (!was_up) {
        set_timer(memif, true);
        return true;
    }
    uro_memif_arm(memif, true);
    return !look_again(memif);
}

static void disarm(struct uro_port *port)
{
    struct uro_memif *memif = uro_memif_of(port);

    uro_memif_arm(memif, false);
    memif->rung = uro_memif_was_rung(memif->epoll, memif->in.doorbell);
    set_timer(memif, false);
}

/* ---- opening and closing ------------------------------------------------ */

static void close_waiting(struct uro_memif *memif)
{
    if (memif->called >= 0)
        (void)close(memif->called);
    if (memif->timer >= 0)
        (void)close(memif->timer);
    if (memif->epoll >= 0)
        (void)close(memif->epoll);
    memif->called = memif->timer = memif->epoll = -1;
    uro_memif_peer_fd_stop(&memif->peer_fd);
}

static void forked(struct uro_port *port)
{
    struct uro_memif *memif = uro_memif_of(port);

    uro_memif_leave_forked(memif);
    uro_memif_listen_forked(memif);
    close_waiting(memif);
}

static void close_port(struct uro_port *port)
{
    struct uro_memif *memif = uro_memif_of(port);

    uro_memif_leave(memif, "closed");
    uro_memif_unlisten(memif);
    close_waiting(memif);
    free(memif->heads);
    free(memif->longest);
    free(memif->longest_out);
    free(memif);
}

static const struct uro_port_ops ops = {
    .datapath = {
        .receive = uro_memif_receive,
        .release = uro_memif_release,
        .tx_free_count = uro_memif_tx_free_count,
        .transmit = uro_memif_transmit,
    },
    .sleep = { .wait_fds = wait_fds, .arm = arm, .disarm = disarm },
    .control = { .close = close_port, .forked = forked, .link_up = link_up },
};

/* Returns the MAC address: configured, or a default that differs between server and client. */
static struct uro_mac choose_mac(const struct uro_memif *memif,
                                 const struct uro_port_config *config)
{
    if (config->has_mac)
        return config->mac;
    if (memif->options.has_mac)
        return memif->options.mac;
    return (struct uro_mac){ { 2, 0, 0, 0, 0, memif->options.server ? 1 : 2 } };
}

static int start_waiting(struct uro_memif *memif, char error[static URO_PORT_ERROR_MAX])
{
    memif->epoll = epoll_create1(EPOLL_CLOEXEC);
    bool fine = memif->epoll >= 0;

    if (memif->options.server) {
        fine =
            fine && uro_memif_watch(memif->epoll, memif->called) &&
            (memif->listener == NULL || uro_memif_watch(memif->epoll, uro_memif_listen_fd(memif)));
    } else {
        memif->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
        fine = fine && uro_memif_watch(memif->epoll, memif->timer);
    }
    if (fine)
        return 0;
    (void)snprintf(error, URO_PORT_ERROR_MAX,
                   "link net_memif: no file descriptor is left; raise `ulimit -n`");
    return -1;
}

static int open_port(struct uro_memif *memif, const struct uro_port_config *config,
                     char error[static URO_PORT_ERROR_MAX])
{
    uint32_t mtu = config->mtu == 0 ? URO_PORT_MTU_MEMORY : config->mtu;

    memif->port.mtu = mtu < URO_PORT_MTU_MAX ? mtu : URO_PORT_MTU_MAX;
    memif->frame_max = memif->port.mtu + ETHER_OVERHEAD;
    if (uro_memif_options_read(config->link, memif->frame_max, &memif->options, error) != 0)
        return -1;
    memif->heads = aligned_alloc(64, (size_t)URO_PORT_BURST * URO_MEMIF_WHOLE);
    memif->longest = malloc(URO_MEMIF_LONGEST);
    memif->longest_out = malloc(URO_MEMIF_LONGEST);
    if (memif->heads == NULL || memif->longest == NULL || memif->longest_out == NULL) {
        (void)snprintf(error, URO_PORT_ERROR_MAX, "link net_memif: out of memory");
        return -1;
    }
    memif->port.mac = choose_mac(memif, config);
    uro_memif_peer_fd_start(&memif->peer_fd);
    if (uro_memif_peer_fd_waits(&memif->peer_fd))
        memif->options.user = geteuid();
    if (memif->options.server && uro_memif_listen(memif, error) != 0)
        return -1;
    if (memif->options.server && memif->listener == NULL)
        fprintf(stderr,
                "uroce: %s: link net_memif: socket=%s: the process that this one was forked from "
                "listens there; the link is down until that process ends\n",
                config->device, memif->options.path);
    return start_waiting(memif, error);
}

/* If a server is running, connects to it before the program sends anything. Otherwise datagrams
 * would be lost. */
static void meet(struct uro_memif *memif)
{
    uro_memif_tend(memif);
    if (memif->own_process)
        return;
    for (unsigned ms = 0; ms < MEET_MS && memif->control >= 0 && !uro_memif_is_up(memif); ms++) {
        struct pollfd control = { .fd = memif->control, .events = POLLIN };
        (void)poll(&control, 1, 1);
        uro_memif_tend(memif);
    }
}

struct uro_port *uro_memif_open(const struct uro_port_config *config,
                                char error[static URO_PORT_ERROR_MAX])
{
    struct uro_memif *memif = malloc(sizeof *memif);

    error[0] = '\0';
    if (memif == NULL) {
        (void)snprintf(error, URO_PORT_ERROR_MAX, "link net_memif: out of memory");
        return NULL;
    }
    *memif = (struct uro_memif){ .port = { .ops = &ops,
                                           .flags = URO_PORT_AWAITS_PEER | URO_PORT_WAKES_DOWN },
                                 .verbose = config->verbose,
                                 .waits = config->forked,
                                 .epoll = -1,
                                 .timer = -1,
                                 .control = -1,
                                 .offered = -1,
                                 .called = -1,
                                 .peer_fd = { .file = -1 },
                                 .in = { .doorbell = -1 },
                                 .out = { .doorbell = -1 } };
    for (uint32_t i = 0; i < URO_MEMIF_REGIONS; i++)
        memif->regions[i].fd = -1;
    if (open_port(memif, config, error) == 0) {
        meet(memif);
        return &memif->port;
    }
    close_port(&memif->port);
    return NULL;
}
