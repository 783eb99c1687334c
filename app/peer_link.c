/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_link.c - see peer_link.h. There is one thread: only the player waits for frames. */
#define _GNU_SOURCE /* ppoll */
#include "peer_link.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "config/plugin.h"
#include "io/pcap/pcap_write.h"

#define CACHE_LINE 64u
#define NAP        URO_MS(1) /* longest sleep if the port has no wake-up, or the link is down */

static int build_engine(struct uro_peer_link *link, const struct uro_device_config *config)
{
    struct uro_engine_config wanted = { .mac = link->port->mac,
                                        .mtu = link->port->mtu,
                                        .address_count = config->gid_count,
                                        .gateway4 = config->gateway4,
                                        .gateway6 = config->gateway6,
                                        .connections = 1,
                                        .table_bits = 4 };

    for (uint32_t i = 0; i < config->gid_count; i++)
        wanted.addresses[i] = (struct uro_engine_address){ config->gids[i], config->prefix[i] };
    if (getrandom(wanted.seed, sizeof wanted.seed, 0) != (ssize_t)sizeof wanted.seed)
        return -EIO;
    size_t size = (uro_engine_size(&wanted) + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1);
    link->engine_memory = aligned_alloc(CACHE_LINE, size);
    if (link->engine_memory == NULL)
        return -ENOMEM;
    return uro_engine_init(link->engine_memory, &wanted, uro_device_now(), &link->engine);
}

static int open_capture(struct uro_peer_link *link, const char *pcap)
{
    const uro_time now = uro_device_now();
    uint64_t offset = 0;

    if (pcap == NULL)
        return 0;
    return uro_pcap_write_open(pcap, "peer", uro_host_wall_time(now, &offset) - now,
                               &link->capture);
}

bool uro_peer_link_open(struct uro_peer_link *link, const struct uro_device_config *config,
                        const char *pcap, char error[static URO_PORT_ERROR_MAX])
{
    memset(link, 0, sizeof *link);
    int failed = open_capture(link, pcap);
    if (failed != 0) {
        (void)snprintf(error, URO_PORT_ERROR_MAX, "%s: %s", pcap, strerror(-failed));
        return false;
    }
    link->port = uro_plugin_open(config, false, error);
    if (link->port != NULL) {
        failed = build_engine(link, config);
        if (failed == 0)
            return true;
        (void)snprintf(error, URO_PORT_ERROR_MAX, "cannot create the protocol engine: %s",
                       strerror(-failed));
    }
    uro_peer_link_close(link);
    return false;
}

void uro_peer_link_close(struct uro_peer_link *link)
{
    if (link->port != NULL)
        uro_port_close(link->port);
    uro_pcap_write_close(link->capture);
    free(link->engine_memory);
    memset(link, 0, sizeof *link);
}

static struct timespec timespec_of(uro_time time)
{
    return (struct timespec){ .tv_sec = (time_t)(time / 1000000000u),
                              .tv_nsec = (long)(time % 1000000000u) };
}

/* Sleeps until a frame arrives, but not longer than @most. */
static void rest(struct uro_peer_link *link, uro_time most)
{
    struct uro_port *port = link->port;
    int fds[URO_PORT_FDS_MAX];
    struct pollfd waits[URO_PORT_FDS_MAX];
    const uint32_t count = uro_port_wait_fds(port, fds);
    const bool wakes = count > 0;
    const struct timespec time = timespec_of(wakes || most < NAP ? most : NAP);

    if (wakes && !uro_port_arm(port))
        return;
    for (uint32_t i = 0; i < count; i++)
        waits[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
    (void)ppoll(waits, count, &time, NULL);
    if (wakes)
        uro_port_disarm(port);
}

bool uro_peer_link_wait(struct uro_peer_link *link, uro_time patience)
{
    const uro_time deadline = uro_device_now() + patience;
    const struct timespec nap = timespec_of(NAP);

    while (!uro_port_link_up(link->port)) {
        if (uro_device_now() > deadline)
            return false;
        (void)ppoll(NULL, 0, &nap, NULL);
    }
    uro_engine_link(link->engine, true, uro_device_now());
    return true;
}

#define FRAME_MAX 9618u

/* Passes a frame to the script in contiguous memory. */
static void input(struct uro_play *play, const struct uro_pkt *pkt, uro_time now)
{
    static uint8_t octets[FRAME_MAX];
    struct uro_pkt whole = *pkt;

    if (pkt->indirect != NULL && pkt->length <= sizeof octets) {
        uro_pkt_copy(pkt, octets, pkt->length);
        whole.octets = octets;
        whole.indirect = NULL;
    }
    uro_play_input(play, &whole, 1, now);
}

static uint32_t receive(struct uro_peer_link *link, struct uro_play *play, uro_time now)
{
    struct uro_pkt pkts[URO_PORT_BURST];
    const uint32_t count = uro_port_receive(link->port, pkts, URO_PORT_BURST);

    for (uint32_t i = 0; i < count && link->capture != NULL; i++)
        if (uro_pcap_write_pkt(link->capture, &pkts[i], now) != 0)
            (void)fprintf(stderr,
                          "uroce peer: a frame could not be written to the file of --pcap\n");
    for (uint32_t i = 0; i < count; i++)
        input(play, &pkts[i], now);
    if (count > 0)
        uro_port_release(link->port, pkts, count);
    return count;
}

static uint32_t transmit(struct uro_peer_link *link, struct uro_play *play, uro_time now)
{
    const uint32_t free_slots = uro_port_tx_free_count(link->port);
    const uint32_t count = uro_play_output(play, link->tx, free_slots, now);

    for (uint32_t i = 0; i < count && link->capture != NULL; i++)
        if (uro_pcap_write_tx(link->capture, &link->tx[i], now) != 0)
            (void)fprintf(stderr,
                          "uroce peer: a frame could not be written to the file of --pcap\n");
    if (count > 0)
        uro_port_transmit(link->port, link->tx, count);
    return count;
}

static void want_groups(struct uro_peer_link *link)
{
    const uint32_t version = uro_engine_multicast_version(link->engine);

    if (version == link->multicast_version)
        return;
    link->multicast_version = version;
    uro_port_multicast(link->port, link->macs,
                       uro_engine_multicast_macs(link->engine, link->macs, URO_ENGINE_MACS_MAX));
}

void uro_peer_link_play(struct uro_peer_link *link, struct uro_play *play)
{
    for (bool moved = true; moved || play->result == URO_PLAY_RUNNING;) {
        const uro_time now = uro_device_now();
        want_groups(link);
        moved = receive(link, play, now) > 0;
        moved |= transmit(link, play, now) > 0;
        const uro_time next = uro_play_next(play);
        if (!moved && next > now && play->result == URO_PLAY_RUNNING)
            rest(link, next - now);
    }
}
