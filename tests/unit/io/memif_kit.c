/* SPDX-License-Identifier: BSD-3-Clause */
/* memif_kit.c - see memif_kit.h. */
#define _GNU_SOURCE /* accept4 */
#include "support/check.h"

#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/make_frame.h"
#include "support/patience.h"
#include "unit/io/memif_kit.h"

#define RC_WRITE_MIDDLE 0x07
#define ETHER_TYPE      0x88b5 /* local experiments */

const char *kit_name_of(pid_t process)
{
    static _Thread_local char name[64];

    (void)snprintf(name, sizeof name, "/uroce-unit-%ld", (long)process);
    return name;
}

const char *kit_name(void)
{
    return kit_name_of(getpid());
}

/* ---- ports -------------------------------------------------------------- */

static char error[URO_PORT_ERROR_MAX];

static struct uro_port *try_open(const char *words, uint32_t mtu)
{
    char link[700];
    const struct uro_port_config config = { .device = "kit", .link = link, .mtu = mtu };

    if (strstr(words, "socket=") != NULL)
        (void)snprintf(link, sizeof link, "net_memif0,%s", words);
    else
        (void)snprintf(link, sizeof link, "net_memif0,socket=%s,%s", kit_name(), words);
    memset(error, 0, sizeof error);
    return uro_memif_open(&config, error);
}

struct uro_port *kit_open(const char *words, uint32_t mtu)
{
    struct uro_port *port = try_open(words, mtu);

    if (port == NULL)
        fail_msg("%s: %s", words, error);
    return port;
}

const char *kit_refused(const char *words)
{
    struct uro_port *port = try_open(words, 0);

    if (port != NULL)
        fail_msg("%s: opens", words);
    assert_non_null(memchr(error, '\0', sizeof error));
    return error;
}

void kit_close(struct uro_port **port)
{
    if (*port != NULL)
        uro_port_close(*port);
    *port = NULL;
}

bool kit_meet(struct uro_port *a, struct uro_port *b)
{
    for (unsigned i = 0; i < KIT_STEPS; i++) {
        const bool a_up = uro_port_link_up(a), b_up = uro_port_link_up(b);
        if (a_up && b_up)
            return true;
    }
    return false;
}

bool kit_wakes(struct uro_port *port, int ms)
{
    int fds[URO_PORT_FDS_MAX];
    struct pollfd looks[URO_PORT_FDS_MAX];
    uint32_t count = uro_port_wait_fds(port, fds);

    for (uint32_t i = 0; i < count; i++)
        looks[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
    return poll(looks, count, (int)patience((unsigned)ms)) > 0;
}

static bool sleeps(struct uro_port *port)
{
    bool woken = !uro_port_arm(port) || kit_wakes(port, 1000);

    uro_port_disarm(port);
    return woken;
}

bool kit_find(struct uro_port *client, struct uro_port *server)
{
    for (unsigned i = 0; i < KIT_STEPS; i++)
        if (kit_meet(client, server))
            return true;
        else if (!sleeps(client))
            return false;
    return false;
}

bool kit_sleep_until(struct uro_port *port, bool up)
{
    for (unsigned i = 0; i < 10 * KIT_STEPS && uro_port_link_up(port) != up; i++)
        if (!sleeps(port))
            return false;
    return uro_port_link_up(port) == up;
}

/* ---- frames ------------------------------------------------------------- */

static uint8_t body[KIT_FRAME_MAX];

static void fill_body(uint32_t number, uint32_t length)
{
    for (uint32_t i = 0; i < length; i++)
        body[i] = (uint8_t)(number * 31 + i * 7 + (i >> 8));
}

const struct uro_tx *kit_plain(uint32_t number, uint32_t length)
{
    static struct uro_tx tx;

    assert_true(length >= 18);
    tx = (struct uro_tx){ .head_length = 18,
                          .payload_length = length - 18,
                          .span_count = 1,
                          .spans = { { body, length - 18 } } };
    fill_body(number, length);
    memset(tx.head, 2, 12);
    uro_put_be16(tx.head + 12, ETHER_TYPE);
    uro_put_be32(tx.head + 14, number);
    return &tx;
}

const struct uro_tx *kit_data(uint32_t number, uint32_t payload)
{
    static struct uro_tx tx;
    static uint8_t made[MADE_FRAME_MAX];
    struct uro_frame frame = {
        .op = &uro_opcodes[RC_WRITE_MIDDLE],
        .ether = { .dest = { { 2 } }, .source = { { 2, 1 } }, .type = URO_ETHERTYPE_IPV4 },
        .ip = { .hop_limit = 64,
                .source = uro_gid_from_ipv4((const uint8_t[]){ 10, 0, 0, 1 }),
                .dest = uro_gid_from_ipv4((const uint8_t[]){ 10, 0, 0, 2 }) },
        .udp = { .source_port = 49152, .dest_port = URO_ROCE_PORT },
        .bth = { .opcode = RC_WRITE_MIDDLE, .dest_qpn = 17, .psn = number, .pkey = 0xffff },
        .payload = body,
        .payload_length = payload,
    };

    assert_true(payload % 4 == 0 && payload < 4200);
    fill_body(number, payload);
    uint32_t length = make_frame(&frame, made);
    tx = (struct uro_tx){ .icrc = true,
                          .network_at = URO_ETHER_LEN,
                          .head_length = (uint16_t)(length - URO_ICRC_LEN - payload),
                          .payload_length = payload,
                          .span_count = 1,
                          .spans = { { body, payload } } };
    memcpy(tx.head, made, tx.head_length);
    return &tx;
}

void kit_send(struct uro_port *port, const struct uro_tx *tx)
{
    assert_true(uro_port_tx_free_count(port) > 0);
    uro_port_transmit(port, tx, 1);
}

bool kit_take(struct uro_port *port, struct kit_frame *frame)
{
    struct uro_pkt pkt;

    if (uro_port_receive(port, &pkt, 1) == 0)
        return false;
    assert_true(pkt.length <= KIT_FRAME_MAX);
    frame->length = pkt.length;
    frame->indirect = pkt.indirect != NULL;
    uro_pkt_copy(&pkt, frame->octets, pkt.length);
    uro_port_release(port, &pkt, 1);
    return true;
}

void kit_expect(struct uro_port *port, const struct uro_tx *tx, bool indirect)
{
    static struct kit_frame frame;
    static uint8_t octets[KIT_FRAME_MAX];
    uint32_t length = uro_tx_length(tx);

    memset(octets, 0, sizeof octets);
    uro_tx_write(tx, octets);
    assert_true(kit_take(port, &frame));
    assert_int_equal(frame.length, length < 60 ? 60 : length);
    assert_memory_equal(frame.octets, octets, frame.length);
    assert_int_equal(frame.indirect, indirect);
}

void kit_works(struct uro_port *a, struct uro_port *b)
{
    static uint32_t number;

    for (unsigned i = 0; i < 3; i++) {
        const struct uro_tx *tx = kit_data(++number, 800);
        kit_send(a, tx);
        kit_expect(b, tx, true);
        tx = kit_plain(++number, 200);
        kit_send(b, tx);
        kit_expect(a, tx, false);
    }
}

unsigned kit_fds(void)
{
    DIR *folder = opendir("/proc/self/fd");
    unsigned count = 0;

    assert_non_null(folder);
    while (readdir(folder) != NULL)
        count++;
    (void)closedir(folder);
    return count;
}

unsigned kit_maps(void)
{
    FILE *file = fopen("/proc/self/maps", "r");
    char line[512];
    unsigned count = 0;

    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL)
        count += strstr(line, "/memfd:") != NULL;
    (void)fclose(file);
    return count;
}

/* ---- peers by hand ------------------------------------------------------ */

unsigned kit_ask(struct uro_port *port, int control, const struct uro_memif_message *message,
                 int fd)
{
    struct uro_memif_message answer;

    assert_true(memif_peer_send(control, message, sizeof *message, &fd, fd >= 0));
    (void)uro_port_link_up(port);
    return memif_peer_receive(control, &answer, NULL) ? uro_memif_type_of(&answer) : 0;
}

void kit_ended(struct uro_port *port, struct memif_peer *peer, const char *reason)
{
    char said[URO_MEMIF_REASON + 1];

    assert_false(uro_port_link_up(port));
    assert_true(memif_peer_ended(peer->control, said));
    if (strcmp(said, reason) != 0)
        fail_msg("\"%s\" is not \"%s\"", said, reason);
    memif_peer_drop(peer);
}

struct memif_peer kit_peer_known(struct uro_port *server)
{
    struct memif_peer peer = memif_peer_make();
    struct uro_memif_message message = memif_peer_init(0, "");

    peer.control = memif_peer_connect(kit_name());
    assert_true(peer.control >= 0);
    (void)uro_port_link_up(server);
    assert_int_equal(kit_ask(server, peer.control, &message, -1), URO_MEMIF_HELLO);
    assert_true(memif_peer_receive(peer.control, &message, NULL));
    assert_int_equal(uro_memif_type_of(&message), URO_MEMIF_ACK);
    return peer;
}

struct memif_peer kit_peer_up(struct uro_port *server)
{
    struct memif_peer peer = kit_peer_known(server);
    const struct uro_memif_message region = memif_peer_region(0, PEER_MEMORY),
                                   out = memif_peer_ring(true, PEER_TO_SERVER),
                                   in = memif_peer_ring(false, PEER_TO_CLIENT),
                                   connect = uro_memif_message(URO_MEMIF_CONNECT);

    assert_int_equal(kit_ask(server, peer.control, &region, peer.memory), URO_MEMIF_ACK);
    assert_int_equal(kit_ask(server, peer.control, &out, peer.wakes_server), URO_MEMIF_ACK);
    assert_int_equal(kit_ask(server, peer.control, &in, peer.wakes_client), URO_MEMIF_ACK);
    assert_int_equal(kit_ask(server, peer.control, &connect, -1), URO_MEMIF_CONNECTED);
    assert_true(uro_port_link_up(server));
    return peer;
}

/* Returns the next message of the client, and the descriptor of the message in *@fd. */
static struct uro_memif_message expect(struct uro_port *client, int control, unsigned type, int *fd)
{
    struct uro_memif_message message;

    (void)uro_port_link_up(client);
    assert_true(memif_peer_receive(control, &message, fd));
    assert_int_equal(uro_memif_type_of(&message), type);
    return message;
}

struct memif_peer kit_peer_serve(struct uro_port *client, int listener)
{
    const struct uro_memif_message hello = memif_peer_hello(),
                                   ack = uro_memif_message(URO_MEMIF_ACK),
                                   connected = uro_memif_message(URO_MEMIF_CONNECTED);
    struct memif_peer peer = { .control = accept4(listener, NULL, NULL, SOCK_CLOEXEC) };
    struct uro_memif_message message;
    int memory, fd;

    assert_true(peer.control >= 0);
    assert_true(memif_peer_send(peer.control, &hello, sizeof hello, NULL, 0));
    (void)expect(client, peer.control, URO_MEMIF_INIT, &fd);
    assert_true(memif_peer_send(peer.control, &ack, sizeof ack, NULL, 0));
    message = expect(client, peer.control, URO_MEMIF_ADD_REGION, &memory);
    memif_peer_map(&peer, memory, uro_memif_get64(&message, URO_MEMIF_REGION_SIZE));
    assert_true(memif_peer_send(peer.control, &ack, sizeof ack, NULL, 0));
    message = expect(client, peer.control, URO_MEMIF_ADD_RING, &peer.wakes_server);
    peer.to_server = (void *)(peer.base + uro_memif_get32(&message, URO_MEMIF_RING_OFFSET));
    assert_true(memif_peer_send(peer.control, &ack, sizeof ack, NULL, 0));
    message = expect(client, peer.control, URO_MEMIF_ADD_RING, &peer.wakes_client);
    peer.to_client = (void *)(peer.base + uro_memif_get32(&message, URO_MEMIF_RING_OFFSET));
    assert_true(memif_peer_send(peer.control, &ack, sizeof ack, NULL, 0));
    (void)expect(client, peer.control, URO_MEMIF_CONNECT, &fd);
    assert_true(memif_peer_send(peer.control, &connected, sizeof connected, NULL, 0));
    assert_true(uro_port_link_up(client));
    return peer;
}
