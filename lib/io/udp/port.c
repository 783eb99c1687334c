/* SPDX-License-Identifier: BSD-3-Clause */
/* port.c - the plug-in's one symbol: a port over UDP sockets.
 *
 *     udp[,gso=yes|no][,gro=yes|no][,ident=any|plain]     and ip=, which the host takes
 */
#define _GNU_SOURCE /* strsep */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <poll.h>
#include <sys/epoll.h>

#include "io/udp/udp.h"

__attribute__((visibility("default"))) struct uro_port *uro_port_open(
    const struct uro_port_config *config, char error[static URO_PORT_ERROR_MAX]);

static uint32_t receive(struct uro_port *port, struct uro_pkt *pkts, uint32_t room)
{
    struct uro_udp *udp = uro_udp_of(port);
    uint32_t count = uro_rx_lend(&udp->rx, pkts, room);

    for (uint32_t i = 0; i < udp->sock_count && count == 0; i++) {
        uro_rx_take(&udp->rx, &udp->socks[i]);
        count = uro_rx_lend(&udp->rx, pkts, room);
    }
    return count;
}

static void release(struct uro_port *port, struct uro_pkt *pkts, uint32_t count)
{
    (void)port;
    (void)pkts;
    (void)count;
}

static uint32_t room(struct uro_port *port)
{
    return uro_udp_tx_flush(&uro_udp_of(port)->tx) ? URO_PORT_BURST : 0;
}

static void transmit(struct uro_port *port, const struct uro_tx *tx, uint32_t count)
{
    uro_udp_tx_send(&uro_udp_of(port)->tx, tx, count);
}

static int wait_fd(struct uro_port *port)
{
    return uro_udp_of(port)->epoll;
}

static bool arm(struct uro_port *port)
{
    struct uro_udp *udp = uro_udp_of(port);
    struct epoll_event events[URO_UDP_SOCKS_MAX];

    if (udp->rx.first < udp->rx.count)
        return false;
    int ready = epoll_wait(udp->epoll, events, URO_UDP_SOCKS_MAX, 0);
    for (int i = 0; i < ready; i++)
        if ((events[i].events & EPOLLERR) != 0)
            (void)uro_sock_take_errors(&udp->socks[events[i].data.u32], udp->tx.verbose);
    return ready <= 0;
}

static void disarm(struct uro_port *port)
{
    (void)port;
}

static bool link_up(struct uro_port *port)
{
    (void)port;
    return true;
}

/* An address that the kernel has no more may come back. */
static bool gone(struct uro_port *port)
{
    (void)port;
    return false;
}

static void multicast(struct uro_port *port, const struct uro_mac *macs, uint32_t count)
{
    (void)port;
    (void)macs;
    (void)count;
}

static void close_port(struct uro_port *port)
{
    struct uro_udp *udp = uro_udp_of(port);

    for (uint32_t i = 0; i < udp->sock_count; i++)
        uro_sock_close(&udp->socks[i]);
    if (udp->epoll >= 0)
        (void)close(udp->epoll);
    uro_rx_close(&udp->rx);
    uro_udp_tx_close(&udp->tx);
    free(udp);
}

static const struct uro_port_ops ops = {
    .name = "udp",
    .close = close_port,
    .receive = receive,
    .release = release,
    .room = room,
    .transmit = transmit,
    .wait_fd = wait_fd,
    .arm = arm,
    .disarm = disarm,
    .link_up = link_up,
    .gone = gone,
    .multicast = multicast,
};

/* ---- opening ------------------------------------------------------------ */

struct words {
    struct uro_sock_options sock;
    bool strict;
};

struct word {
    const char *key;
    const char *values[2]; /* the first is the default */
};

static const struct word known[] = {
    { "gso", { "yes", "no" } },
    { "gro", { "yes", "no" } },
    { "ident", { "any", "plain" } },
};

static int read_word(const char *key, const char *value, bool *second,
                     char error[static URO_PORT_ERROR_MAX])
{
    for (size_t i = 0; i < URO_ARRAY_LEN(known); i++) {
        if (strcmp(key, known[i].key) != 0)
            continue;
        for (int k = 0; k < 2; k++)
            if (strcmp(value, known[i].values[k]) == 0) {
                second[i] = k == 1;
                return 0;
            }
        (void)snprintf(error, URO_PORT_ERROR_MAX, "link udp: %s=%.40s: must be %s or %s", key,
                       value, known[i].values[0], known[i].values[1]);
        return -1;
    }
    (void)snprintf(error, URO_PORT_ERROR_MAX,
                   "link udp: unknown word \"%.40s\"; known: ip= gso= gro= ident=", key);
    return -1;
}

static int read_words(const char *link, struct words *words, char error[static URO_PORT_ERROR_MAX])
{
    bool second[URO_ARRAY_LEN(known)] = { false };
    char copy[256];
    char *rest = copy, *word;

    (void)snprintf(copy, sizeof copy, "%s", link);
    (void)strsep(&rest, ",");
    while ((word = strsep(&rest, ",")) != NULL) {
        char *value = word;
        const char *key = strsep(&value, "=");
        if (strcmp(key, "ip") == 0)
            continue;
        if (read_word(key, value != NULL ? value : "", second, error) != 0)
            return -1;
    }
    *words =
        (struct words){ { .segments = !second[0], .coalesces = !second[1] }, .strict = second[2] };
    return 0;
}

static bool has_address(const struct uro_udp *udp, const struct uro_gid *gid)
{
    for (uint32_t i = 0; i < udp->sock_count; i++)
        if (uro_gid_equal(&udp->socks[i].address, gid))
            return true;
    return false;
}

static int open_socks(struct uro_udp *udp, const struct uro_port_config *config,
                      const struct words *words, char error[static URO_PORT_ERROR_MAX])
{
    for (uint32_t i = 0; i < config->address_count; i++) {
        const struct uro_gid *address = &config->addresses[i];
        if (has_address(udp, address))
            continue;
        struct uro_sock *sock = &udp->socks[udp->sock_count];
        if (uro_sock_open(sock, address, &words->sock, error) != 0)
            return -1;
        struct epoll_event event = { .events = EPOLLIN, .data.u32 = udp->sock_count++ };
        if (epoll_ctl(udp->epoll, EPOLL_CTL_ADD, sock->fd, &event) != 0) {
            (void)snprintf(error, URO_PORT_ERROR_MAX, "link udp: no file descriptor left");
            return -1;
        }
    }
    return 0;
}

struct uro_port *uro_port_open(const struct uro_port_config *config,
                               char error[static URO_PORT_ERROR_MAX])
{
    struct uro_udp *udp = calloc(1, sizeof *udp);
    struct words words;

    error[0] = '\0';
    if (udp == NULL) {
        (void)snprintf(error, URO_PORT_ERROR_MAX, "link udp: out of memory");
        return NULL;
    }
    udp->port = (struct uro_port){ .ops = &ops, .mac = config->mac, .mtu = config->mtu };
    udp->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (read_words(config->link, &words, error) != 0 ||
        open_socks(udp, config, &words, error) != 0) {
        close_port(&udp->port);
        return NULL;
    }
    if (!uro_rx_open(&udp->rx, &config->mac, words.strict) ||
        !uro_udp_tx_open(&udp->tx, udp->socks, udp->sock_count, config->mtu, config->verbose)) {
        (void)snprintf(error, URO_PORT_ERROR_MAX, "link udp: out of memory");
        close_port(&udp->port);
        return NULL;
    }
    return &udp->port;
}
