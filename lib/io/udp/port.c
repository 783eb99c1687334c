/* SPDX-License-Identifier: BSD-3-Clause */
/* port.c - a port over UDP sockets: its operations, and how it is opened. */
#define _GNU_SOURCE /* struct mmsghdr of udp.h */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "core/limits.h"
#include "io/kernel/fib.h"
#include "io/udp/network_error.h"
#include "io/udp/raw_tap.h"
#include "io/udp/udp.h"

#define WINDOW_LEAST    8u
#define PACKET_OVERHEAD 512u /* bytes that the kernel counts for each packet beside its data */
#define SHARE_ROUNDS    16u  /* every 16th round reads from brokers and groups first */
#define UNLOOKED        2u   /* calls of arm() after a packet that do not look for more */
#define ANSWER_MS       2000 /* longest wait for an answer of the broker */

/* ---- shared addresses --------------------------------------------------- */

/* If the address of @sock has a broker, requests the QPN prefix of this port, and waits at most
 * @wait_ms for the reply. With @wait_ms 0, returns ASKED until the reply has arrived. */
static enum uro_share_result join(struct uro_udp_port *udp, struct uro_sock *sock, int wait_ms,
                                  char error[static URO_PORT_ERROR_MAX])
{
    struct uro_share *share = &udp->shares[sock - udp->socks];
    enum uro_share_result result = URO_SHARE_ASKED;
    int fd = -1;

    if (!share->pending)
        result = uro_share_ask(share, &sock->address, udp->port.qpn_prefix, wait_ms, error);
    if (result == URO_SHARE_ASKED)
        result = uro_share_answer(share, wait_ms, &fd, error);
    if (result != URO_SHARE_JOINED)
        return result;
    udp->port.qpn_prefix = (uint8_t)share->number;
    sock->share = share;
    uro_sock_start(sock, fd, &sock->address, &udp->options);
    return URO_SHARE_JOINED;
}

/* Closes @sock after its broker has ended. The next broker opens new sockets for the address, so
 * the process must release its old socket. */
static void lose(struct uro_sock *sock)
{
    uro_share_lose(sock->share);
    uro_sock_close(sock);
}

static void read_broker(struct uro_udp_port *udp, struct uro_sock *sock)
{
    if (sock->share->fd >= 0 && !sock->share->pending && !uro_rx_take_passed(&udp->rx, sock))
        lose(sock);
}

/* ---- frames ------------------------------------------------------------- */

/* Receives from one group. Successive calls use the next groups in turn. */
static uint32_t receive_group(struct uro_udp_port *udp, struct uro_pkt *pkts, uint32_t max)
{
    const struct uro_sock *group = uro_groups_next(&udp->groups);

    if (group == NULL)
        return 0;
    (void)uro_rx_take(&udp->rx, group); /* group sockets report no errors: group.c */
    return uro_rx_lend(&udp->rx, pkts, max);
}

static uint32_t take(struct uro_udp_port *udp, struct uro_pkt *pkts, uint32_t max)
{
    uint32_t count = uro_rx_lend(&udp->rx, pkts, max);
    bool listens = udp->rounds++ % SHARE_ROUNDS == 0;

    if (count == 0 && udp->undelivered.count > 0) {
        uro_rx_take_undelivered(&udp->rx, &udp->undelivered);
        return uro_rx_lend(&udp->rx, pkts, max);
    }
    /* Sometimes groups are read first, so that other traffic cannot delay them for ever. */
    if (listens && count == 0)
        count = receive_group(udp, pkts, max);
    for (uint32_t i = 0; i < udp->sock_count && count == 0; i++) {
        struct uro_sock *sock = &udp->socks[i];
        if (sock->share != NULL && listens)
            read_broker(udp, sock);
        if (sock->fd >= 0 && !uro_rx_take(&udp->rx, sock))
            (void)uro_network_error_take(sock, NULL);
        count = uro_rx_lend(&udp->rx, pkts, max);
    }
    return count > 0 ? count : receive_group(udp, pkts, max);
}

static uint32_t receive(struct uro_port *port, struct uro_pkt *pkts, uint32_t max)
{
    struct uro_udp_port *udp = uro_udp_of(port);
    const uint32_t count = take(udp, pkts, max);

    if (count > 0)
        udp->unlooked = UNLOOKED;
    return count;
}

static uint32_t tx_free_count(struct uro_port *port)
{
    return uro_udp_tx_flush(&uro_udp_of(port)->tx) ? URO_PORT_BURST : 0;
}

static void transmit(struct uro_port *port, const struct uro_tx *tx, uint32_t count)
{
    uro_udp_tx_send(&uro_udp_of(port)->tx, tx, count);
}

/* Returns the descriptors to wait for, first the sockets in the order of `socks`. The sockets are
 * not in an epoll instance, because then the kernel would make another call for each received
 * packet. */
static uint32_t wait_fds(struct uro_port *port, int fds[static URO_PORT_FDS_MAX])
{
    const struct uro_udp_port *udp = uro_udp_of(port);
    uint32_t count = udp->sock_count;

    for (uint32_t i = 0; i < udp->sock_count; i++) {
        fds[i] = udp->socks[i].fd; /* -1 while its broker has ended: poll() ignores it */
        if (udp->socks[i].share != NULL)
            fds[count++] = udp->socks[i].share->fd;
    }
    if (udp->groups.count > 0)
        fds[count++] = udp->groups.epoll;
    return count;
}

_Static_assert(2 * URO_UDP_SOCKS_MAX + 1 <= URO_PORT_FDS_MAX, "sockets, their brokers, and groups");

/* Takes all error reports, because a pending report would end a poll() at once. Returns whether
 * neither a frame nor a report was waiting. */
static bool look(struct uro_udp_port *udp)
{
    struct pollfd looks[URO_PORT_FDS_MAX];
    int fds[URO_PORT_FDS_MAX];
    const uint32_t count = wait_fds(&udp->port, fds);

    for (uint32_t i = 0; i < count; i++)
        looks[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
    int ready = poll(looks, count, 0);
    for (uint32_t i = 0; ready > 0 && i < udp->sock_count; i++)
        if ((looks[i].revents & POLLERR) != 0)
            (void)uro_network_error_take(&udp->socks[i], NULL);
    return ready <= 0;
}

/* Returns whether the port can sleep. While packets come, it does not look first, to save a system
 * call: a packet or a report that is waiting ends the sleep at once. The host arms the port after
 * the round that received a packet, and again before it sleeps. So from the third call without a
 * packet on, this function looks. */
static bool arm(struct uro_port *port)
{
    struct uro_udp_port *udp = uro_udp_of(port);

    if (udp->rx.first < udp->rx.count || udp->undelivered.count > 0)
        return false;
    udp->rx.many = true; /* an ACK and an answer often wait together after a sleep */
    if (udp->unlooked == 0)
        return look(udp);
    udp->unlooked--;
    return true;
}

/* Sets the MTU of the port. This is the configured MTU, or the MTU of the interfaces if that was
 * lowered below it after the port was opened. rule PORT.MTU */
static void keep_mtu(struct uro_udp_port *udp)
{
    uint32_t now = udp->addresses.mtu;

    if (udp->mtu_then == 0)
        udp->mtu_then = now;
    udp->port.mtu = now != 0 && now < udp->mtu_then && now < udp->mtu ? now : udp->mtu;
}

/* Returns whether at least one of the addresses is present, on any interface. */
static bool is_there(struct uro_udp_port *udp)
{
    uint32_t absent = 0;

    if (uro_addresses_look(&udp->addresses, udp->socks, udp->sock_count) > 0) {
        for (uint32_t i = 0; i < udp->sock_count; i++)
            uro_sock_set_multicast(udp->socks[i].fd, &udp->socks[i].address);
        uro_groups_renew(&udp->groups, udp->socks, udp->sock_count, &udp->options);
    }
    for (uint32_t i = 0; i < udp->sock_count; i++)
        absent += udp->socks[i].absent;
    return absent < udp->sock_count;
}

/* Returns whether the link is up. The link is down from the end of a broker until the port reaches
 * another broker. It is down for at least one call, even if another broker is there at once,
 * because packets in flight are lost. Each later call looks for a new broker. */
static bool link_up(struct uro_port *port)
{
    struct uro_udp_port *udp = uro_udp_of(port);
    char error[URO_PORT_ERROR_MAX];
    bool up = is_there(udp);

    keep_mtu(udp);

    for (uint32_t i = 0; i < udp->sock_count; i++) {
        struct uro_sock *sock = &udp->socks[i];
        bool said = sock->reported_down;
        sock->reported_down = sock->fd < 0;
        if (sock->fd >= 0) {
            if (sock->share != NULL)
                uro_share_repeat(sock->share);
            continue;
        }
        if (!said || join(udp, sock, 0, error) != URO_SHARE_JOINED) {
            up = false;
            continue;
        }
        /* The next two calls may fail if the process has lost the privilege since. */
        (void)uro_sock_busy_poll(sock, udp->options.busy_poll, error);
        (void)uro_raw_tap_open(sock, udp->options.idents);
        uro_share_services(sock->share, sock->share->services, sock->share->service_count);
    }
    return up;
}

static bool lost_broker(struct uro_port *port)
{
    const struct uro_udp_port *udp = uro_udp_of(port);
    bool lost = false;

    for (uint32_t i = 0; i < udp->sock_count; i++)
        lost |= udp->socks[i].fd < 0 && udp->socks[i].share != NULL;
    return lost;
}

static void services(struct uro_port *port, const struct uro_listened *all, uint32_t count)
{
    struct uro_udp_port *udp = uro_udp_of(port);
    struct uro_listened *some = malloc((count + 1) * sizeof *some);

    if (some == NULL)
        return; /* out of memory: the broker keeps the old list, as in uro_share_services() */
    for (uint32_t i = 0; i < udp->sock_count; i++) {
        const struct uro_sock *sock = &udp->socks[i];
        uint32_t here = 0;
        if (sock->share == NULL)
            continue;
        for (uint32_t k = 0; k < count; k++)
            if (uro_gid_is_zero(&all[k].address) || uro_gid_equal(&all[k].address, &sock->address))
                some[here++] = all[k];
        uro_share_services(sock->share, some, here);
    }
    free(some);
}

static void groups(struct uro_port *port, const struct uro_gid *gids, uint32_t count)
{
    struct uro_udp_port *udp = uro_udp_of(port);

    uro_groups_set(&udp->groups, gids, count, udp->socks, udp->sock_count, &udp->options);
}

static void close_socks(struct uro_udp_port *udp)
{
    for (uint32_t i = 0; i < udp->sock_count; i++) {
        uro_sock_close(&udp->socks[i]);
        if (udp->socks[i].share != NULL)
            uro_share_leave(udp->socks[i].share);
    }
    udp->sock_count = 0;
}

/* Closes all descriptors without sending anything and without changing a socket. A forked child
 * closes its copies in this way, while the parent continues to use the sockets. So after the parent
 * has died, other processes can listen, get its QPN prefix, and start another broker. */
static void close_descriptors(struct uro_port *port)
{
    struct uro_udp_port *udp = uro_udp_of(port);

    close_socks(udp);
    uro_service_lock_close(&udp->service_locks);
    uro_groups_close(&udp->groups);
    uro_addresses_close(&udp->addresses);
    if (udp->groups.epoll >= 0)
        (void)close(udp->groups.epoll);
    udp->groups.epoll = -1;
}

static void close_port(struct uro_port *port)
{
    struct uro_udp_port *udp = uro_udp_of(port);

    close_descriptors(port);
    uro_rx_close(&udp->rx);
    uro_udp_tx_close(&udp->tx);
    free(udp);
}

static const struct uro_port_ops ops = {
    .datapath = { .receive = receive, .tx_free_count = tx_free_count, .transmit = transmit },
    .sleep = { .wait_fds = wait_fds, .arm = arm },
    .control = {
        .close = close_port,
        .forked = close_descriptors,
        .link_up = link_up,
        .groups = groups,
        .services = services,
        .lock_service = uro_service_lock_take,
        .unlock_service = uro_service_lock_release,
        .route_mtu = uro_route_mtu,
        .lost_broker = lost_broker,
    },
};

/* Returns the number of packets that fit in the smallest receive buffer of the port. The buffer of
 * the peer is assumed to have the same size. It overflows if the window is larger and the peer's
 * process is not scheduled. The kernel counts memory, not payload: up to twice the length of a
 * packet, and its own data. */
static uint32_t window_of(const struct uro_udp_port *udp)
{
    uint32_t least = URO_WINDOW_DEFAULT;

    for (uint32_t i = 0; i < udp->sock_count; i++) {
        uint32_t packets = udp->socks[i].receive_buffer / (2 * udp->port.mtu + PACKET_OVERHEAD);
        least = packets < least ? packets : least;
    }
    return least < WINDOW_LEAST ? WINDOW_LEAST : least;
}

/* ---- opening ------------------------------------------------------------ */

static bool has_address(const struct uro_udp_port *udp, const struct uro_gid *gid)
{
    for (uint32_t i = 0; i < udp->sock_count; i++)
        if (uro_gid_equal(&udp->socks[i].address, gid))
            return true;
    return false;
}

/* Opens a raw tap, which allows the full ICRC check of packets from other senders. Fails only with
 * ident=full. */
static int open_raw_tap(struct uro_sock *sock, enum uro_ip_id_rule rule,
                        char error[static URO_PORT_ERROR_MAX])
{
    char text[URO_GID_TEXT_MAX];

    if (uro_raw_tap_open(sock, rule) || rule != URO_IP_ID_FULL)
        return 0;
    (void)snprintf(error, URO_PORT_ERROR_MAX,
                   "link udp: ident=full needs a raw socket for %s: %s; give the process "
                   "CAP_NET_RAW, or use ident=any, which checks less of other senders' packets",
                   uro_gid_text(&sock->address, text), strerror(errno));
    return -1;
}

/* Opens a socket. If the address has a broker and @alone is false, opens a shared socket. Otherwise
 * opens a socket for this process alone. */
static enum uro_share_result open_sock(struct uro_udp_port *udp, struct uro_sock *sock, bool alone,
                                       char error[static URO_PORT_ERROR_MAX])
{
    enum uro_share_result result = alone ? URO_SHARE_NO_BROKER : join(udp, sock, ANSWER_MS, error);

    if (result == URO_SHARE_REFUSED || result == URO_SHARE_TAKEN)
        return result;
    if (result == URO_SHARE_NO_BROKER) {
        int fd = uro_sock_bind(&sock->address, false, error);
        if (fd < 0)
            return URO_SHARE_REFUSED;
        uro_sock_start(sock, fd, &sock->address, &udp->options);
    }
    if (!uro_sock_busy_poll(sock, udp->options.busy_poll, error) ||
        open_raw_tap(sock, udp->options.idents, error) != 0)
        return URO_SHARE_REFUSED;
    return URO_SHARE_JOINED;
}

static enum uro_share_result open_each(struct uro_udp_port *udp,
                                       const struct uro_port_config *config, bool alone,
                                       char error[static URO_PORT_ERROR_MAX])
{
    enum uro_share_result result = URO_SHARE_JOINED;

    for (uint32_t i = 0; i < config->address_count && result == URO_SHARE_JOINED; i++) {
        if (has_address(udp, &config->addresses[i]))
            continue;
        struct uro_sock *sock = &udp->socks[udp->sock_count++];
        *sock = (struct uro_sock){ .fd = -1,
                                   .address = config->addresses[i],
                                   .recent_peers = &udp->tx.recent_peers,
                                   .undelivered = &udp->undelivered,
                                   .verbose = config->verbose };
        result = open_sock(udp, sock, alone, error);
    }
    return result;
}

/* Opens all sockets with the same QPN prefix, because a queue pair may use any of the addresses.
 * The first broker grants its lowest free prefix. When another process has this prefix at another
 * address, tries the next higher prefix at all addresses. */
static int open_socks(struct uro_udp_port *udp, const struct uro_port_config *config, bool alone,
                      char error[static URO_PORT_ERROR_MAX])
{
    enum uro_share_result result;

    while ((result = open_each(udp, config, alone, error)) == URO_SHARE_TAKEN &&
           udp->port.qpn_prefix < URO_QPN_PREFIXES - 2) {
        close_socks(udp);
        udp->port.qpn_prefix++;
    }
    return result == URO_SHARE_JOINED ? 0 : -1;
}

struct uro_port *uro_udp_open(const struct uro_port_config *config,
                              char error[static URO_PORT_ERROR_MAX])
{
    struct uro_udp_port *udp = calloc(1, sizeof *udp);
    struct uro_udp_options options;

    error[0] = '\0';
    if (udp == NULL) {
        (void)snprintf(error, URO_PORT_ERROR_MAX, "link udp: out of memory");
        return NULL;
    }
    udp->port = (struct uro_port){ .ops = &ops,
                                   .mac = config->mac,
                                   .mtu = config->mtu,
                                   .flags = URO_PORT_CALL_PER_SEND | URO_PORT_ONE_QPN_PREFIX };
    udp->mtu = config->mtu;
    udp->groups.epoll = epoll_create1(EPOLL_CLOEXEC);
    uro_addresses_open(&udp->addresses);
    if (uro_udp_options_read(config->link, &options, error) != 0) {
        close_port(&udp->port);
        return NULL;
    }
    udp->options = options.sock;
    if (open_socks(udp, config, options.alone != 0, error) != 0) {
        close_port(&udp->port);
        return NULL;
    }
    if (!uro_rx_open(&udp->rx, &config->mac, udp->socks, udp->sock_count, options.sock.idents) ||
        !uro_udp_tx_open(&udp->tx, udp->socks, udp->sock_count, config->mtu)) {
        (void)snprintf(error, URO_PORT_ERROR_MAX, "link udp: out of memory");
        close_port(&udp->port);
        return NULL;
    }
    udp->port.window = window_of(udp);
    return &udp->port;
}

uint32_t uro_route_mtu(struct uro_port *port, const struct uro_gid *from, const struct uro_gid *to)
{
    /* The kernel needs the interface of a link-local address. */
    const uint32_t interface = uro_gid_is_link_local(from) ? uro_sock_interface(from) : 0;

    (void)port;
    return uro_gid_is_multicast(to) ? 0 : uro_fib_mtu(from, to, interface);
}
