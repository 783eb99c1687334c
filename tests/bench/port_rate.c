/* SPDX-License-Identifier: BSD-3-Clause */
/* port_rate.c - measures frames per second through two ports, without an engine.
 *
 *   port_rate LINK PEER LENGTH SECONDS [icrc]      one way, between two processes
 *   port_rate LINK self LENGTH SECONDS [icrc]      out of a port and in again (net_ring0)
 *   port_rate LINK PEER LENGTH SECONDS inside      both ports in one thread: the cost of both
 *   port_rate LINK PEER LENGTH SECONDS pingpong    round trips of one frame
 *
 * LENGTH is the length of a frame in bytes. The frame has the headers of an ACK, because every link
 * copies an ACK. With pingpong, LENGTH may be A+B, which sends two frames together, with an ICRC.
 * The program prints one line of JSON. If the plug-in of a link is not installed, the program needs
 * UROCE_DPDK_PLUGIN, UROCE_MEMIF_PLUGIN or UROCE_PACKET_PLUGIN.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "system/port_kit.h"
#include "wire/ether.h"
#include "wire/ip.h"

#define BTH      12u
#define RC_ACK   0x11 /* opcode */
#define PATIENCE 0.2  /* time until a frame in flight counts as lost, seconds */
#define HEAD     (URO_ETHER_LEN + URO_IPV4_LEN + URO_UDP_LEN + BTH)

struct options {
    const char *link;
    const char *peer;
    uint32_t length;
    uint32_t second; /* length of the second frame of a pingpong; 0: no second frame */
    double seconds;
    bool icrc;
    bool pingpong;
    bool inside;
};

static uint8_t body[KIT_FRAME_MAX];

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void describe(struct uro_tx *tx, uint32_t length, bool icrc)
{
    static const struct uro_ether ether = { .dest = { { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff } },
                                            .source = { { 2, 0, 0, 0, 0, 1 } },
                                            .type = URO_ETHERTYPE_IPV4 };
    const uint16_t behind_ip = (uint16_t)(length - URO_ETHER_LEN - URO_IPV4_LEN);
    const struct uro_ip ip = { .dont_fragment = true,
                               .hop_limit = 64,
                               .protocol = URO_IPPROTO_UDP,
                               .payload_length = behind_ip,
                               .source = uro_gid_from_ipv4((uint8_t[]){ 10, 10, 0, 1 }),
                               .dest = uro_gid_from_ipv4((uint8_t[]){ 10, 10, 0, 2 }) };
    const struct uro_udp udp = { .source_port = 0xc000,
                                 .dest_port = URO_ROCE_PORT,
                                 .length = behind_ip };

    *tx = (struct uro_tx){ .head_length = HEAD,
                           .network_at = URO_ETHER_LEN,
                           .icrc = icrc,
                           .payload_length = length - HEAD - (icrc ? 4 : 0),
                           .span_count = 1 };
    tx->spans[0] = (struct uro_span){ body, tx->payload_length };
    (void)uro_ether_put(tx->head, &ether);
    (void)uro_ip_put(tx->head + URO_ETHER_LEN, &ip);
    uro_udp_encode(tx->head + URO_ETHER_LEN + URO_IPV4_LEN, &udp);
    tx->head[HEAD - BTH] = RC_ACK;
}

static uint32_t receive(struct uro_port *port, uint32_t *length)
{
    struct uro_pkt pkts[URO_PORT_BURST];
    uint32_t count = uro_port_receive(port, pkts, URO_PORT_BURST);

    if (count > 0) {
        *length = pkts[0].length;
        uro_port_release(port, pkts, count);
    }
    return count;
}

/* Frames of one ping-pong exchange. */
struct trip {
    struct uro_tx tx[2];
    uint32_t count;
};

static void describe_trip(struct trip *trip, const struct options *options)
{
    trip->count = options->second > 0 ? 2 : 1;
    describe(&trip->tx[0], options->length, options->icrc);
    if (trip->count > 1)
        describe(&trip->tx[1], options->second, options->icrc);
}

static void give(struct uro_port *port, const struct trip *trip)
{
    while (uro_port_tx_free_count(port) < trip->count) {
    }
    uro_port_transmit(port, trip->tx, trip->count);
}

/* Takes all frames of an exchange. Returns false, and drops the frames, when some are missing after
 * the time limit. */
static bool take(struct uro_port *port, const struct trip *trip)
{
    double until = 0;
    uint32_t length;

    for (uint32_t come = 0, looks = 0; come < trip->count;) {
        come += receive(port, &length);
        (void)uro_port_tx_free_count(port);
        if (++looks % 1024 != 0)
            continue;
        if (until == 0)
            until = now() + PATIENCE;
        else if (come < trip->count && now() > until)
            return false;
    }
    return true;
}

static uint32_t send(struct uro_port *port, const struct uro_tx *tx)
{
    uint32_t free_slots = uro_port_tx_free_count(port);

    if (free_slots > 0)
        uro_port_transmit(port, tx, free_slots);
    return free_slots;
}

/* Polls a link, so that it can connect to its peer. */
static void look_for_peer(struct uro_port *port)
{
    if (port != NULL)
        (void)uro_port_link_up(port);
}

/* Runs the other process: sends, or returns frames, for ever. */
static void serve(const struct options *options)
{
    static struct uro_tx tx[URO_PORT_BURST];
    struct uro_port *port = kit_open(options->peer, 0);
    struct trip trip;

    describe_trip(&trip, options);
    for (uint32_t i = 0; i < URO_PORT_BURST; i++)
        describe(&tx[i], options->length, options->icrc);
    while (!uro_port_link_up(port)) {
    }
    while (!options->pingpong)
        send(port, tx);
    for (;;) {
        if (take(port, &trip))
            give(port, &trip);
    }
}

/* Counts the frames that arrive at @port. Sends them from @out, if this process sends. */
static void count_frames(struct uro_port *port, struct uro_port *out, const struct options *options)
{
    static struct uro_tx tx[URO_PORT_BURST];
    uint64_t frames = 0;
    uint64_t rounds = 0;
    uint32_t length = 0;

    for (uint32_t i = 0; i < URO_PORT_BURST; i++)
        describe(&tx[i], options->length, options->icrc);
    while (receive(port, &length) == 0) {
        look_for_peer(port);
        look_for_peer(out);
        if (out != NULL)
            send(out, tx);
        else
            uro_port_tx_free_count(port);
    }
    double start = now();
    double end = start + options->seconds;
    while (rounds++ % 1024 != 0 || now() < end) {
        if (out != NULL)
            send(out, tx);
        frames += receive(port, &length);
    }
    double took = now() - start;
    printf("{\"link\": \"%s\", \"length\": %u, \"icrc\": %s, \"frames_per_s\": %.0f, "
           "\"gbit_per_s\": %.2f, \"ns_per_frame\": %.1f}\n",
           options->link, length, options->icrc ? "true" : "false", (double)frames / took,
           (double)frames * length * 8e-9 / took, took * 1e9 / (double)frames);
}

static void count_round_trips(struct uro_port *port, const struct options *options)
{
    struct trip trip;
    uint64_t trips = 0;

    describe_trip(&trip, options);
    while (!uro_port_link_up(port)) {
    }
    do /* until the peer answers */
        give(port, &trip);
    while (!take(port, &trip));
    double start = now();
    while (now() - start < options->seconds) {
        give(port, &trip);
        if (!take(port, &trip)) {
            fprintf(stderr, "port_rate: a frame was lost\n");
            exit(1);
        }
        trips++;
    }
    printf("{\"link\": \"%s\", \"length\": %u, \"round_trip_us\": %.2f}\n", options->link,
           options->length, (now() - start) * 1e6 / (double)trips);
}

int main(int argc, char **argv)
{
    struct options options = { 0 };

    if (argc < 5) {
        fprintf(stderr,
                "usage: port_rate LINK PEER|self LENGTH[+LENGTH] SECONDS [icrc|inside|pingpong]\n");
        return 2;
    }
    options.link = argv[1];
    options.peer = argv[2];
    char *more;
    options.length = (uint32_t)strtoul(argv[3], &more, 10);
    options.second = *more == '+' ? (uint32_t)strtoul(more + 1, NULL, 10) : 0;
    options.seconds = strtod(argv[4], NULL);
    options.icrc = options.second > 0 || (argc > 5 && strcmp(argv[5], "icrc") == 0);
    options.pingpong = argc > 5 && strcmp(argv[5], "pingpong") == 0;
    if (options.length < KIT_FRAME_MIN || options.length > KIT_FRAME_MAX ||
        (options.second > 0 && !options.pingpong) ||
        (options.second > 0 && (options.second < KIT_FRAME_MIN || options.second > KIT_FRAME_MAX)))
        return 2;

    options.inside = argc > 5 && strcmp(argv[5], "inside") == 0;

    bool self = strcmp(options.peer, "self") == 0;
    bool alone = self || options.inside;
    pid_t peer = alone ? 0 : fork();
    if (peer == 0 && !alone) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        serve(&options);
    }
    /* In one process a memif server must be opened before its client. */
    bool peer_first = options.inside && strstr(options.peer, "server") != NULL;
    struct uro_port *out = peer_first ? kit_open(options.peer, 0) : NULL;
    struct uro_port *port = kit_open(options.link, 0);
    if (self)
        out = port;
    else if (options.inside && !peer_first)
        out = kit_open(options.peer, 0);
    if (options.pingpong)
        count_round_trips(port, &options);
    else
        count_frames(port, out, &options);
    uro_port_close(port);
    if (options.inside)
        uro_port_close(out);
    if (peer > 0)
        kit_kill(peer);
    return 0;
}
