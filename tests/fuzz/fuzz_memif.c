/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_memif.c - runs a memif port whose peer is controlled by the input: its messages, with
 * descriptors or without, and its writes to the shared rings and buffers. The port runs between the
 * steps of the peer. The first byte selects client or server, and whether the peer begins with an
 * established connection.
 *
 * Invariants: lent frames lie inside memory, only payload is shared, no descriptor leaks, and a
 * valid peer is served afterwards.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/memif/memif.h"
#include "support/make_frame.h"
#include "support/memif_peer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

extern uro_port_open_fn uro_memif_open;

#define STEPS_MAX      400u
#define IS_SERVER      1u /* bit of the first byte: the peer is the server, not the port */
#define IS_UP          2u
#define ENOUGH_LOOKS   20u
#define RC_WRITE_FIRST 0x06

static const uint8_t *at, *end;
static struct uro_port *port;
static struct memif_peer peer;
static bool serves; /* true if the peer is the server */
static struct uro_pkt lent[URO_PORT_BURST];
static uint32_t lent_count;

static void demand(bool condition)
{
    if (!condition)
        abort();
}

static uint8_t next(void)
{
    return at < end ? *at++ : 0;
}

static uint16_t next16(void)
{
    const uint8_t high = next();

    return (uint16_t)(high << 8 | next());
}

/* Returns a value that is small, random, or near a limit. */
static uint32_t next32(void)
{
    const uint8_t kind = next();

    if (kind < 128)
        return (uint32_t)next16();
    if (kind < 192)
        return (uint32_t)kind << 24 | (uint32_t)next16() << 8 | next();
    if (kind < 224)
        return (uint32_t)PEER_MEMORY - kind + 208u;
    return UINT32_MAX - next();
}

/* ---- the two ends ------------------------------------------------------- */

static const char *name(void)
{
    static char text[64];

    (void)snprintf(text, sizeof text, "/uroce-fuzz-%ld", (long)getpid());
    return text;
}

static int listener(void)
{
    static int fd = -1;
    static pid_t of;

    if (fd < 0 || of != getpid()) {
        fd = memif_peer_listen(name());
        of = getpid();
    }
    return fd;
}

static void open_port(void)
{
    char error[URO_PORT_ERROR_MAX], link[160];
    const struct uro_port_config config = { .device = "fuzz", .link = link, .mtu = 4224 };

    (void)snprintf(link, sizeof link, "net_memif0,socket=%s%s", name(),
                   serves ? ",role=client,rsize=5,bsize=1024" : "/s,role=server");
    port = uro_memif_open(&config, error);
    demand(port != NULL);
}

static void keep(int *where, int fd)
{
    if (*where >= 0)
        (void)close(*where);
    *where = fd;
}

static void come(void)
{
    char server[80];

    (void)snprintf(server, sizeof server, "%s/s", name());
    if (!serves && peer.control < 0)
        peer.control = memif_peer_connect(server);
    for (int fd;
         serves && (fd = accept(listener(), NULL, NULL)) >= 0;) /* keeps only the last connection */
        keep(&peer.control, fd);
}

static void go(void)
{
    keep(&peer.control, -1);
}

/* Stores the region and the ring addresses that the client sent to the server. */
static void learn(const struct uro_memif_message *message, int fd)
{
    const uint32_t offset = uro_memif_get32(message, URO_MEMIF_RING_OFFSET);

    switch (uro_memif_type_of(message)) {
    case URO_MEMIF_ADD_REGION:
        memif_peer_drop(
            &(struct memif_peer){ -1, peer.memory, peer.base, peer.size, NULL, NULL, -1, -1 });
        memif_peer_map(&peer, fd, uro_memif_get64(message, URO_MEMIF_REGION_SIZE));
        peer.to_server = peer.to_client = NULL;
        return;
    case URO_MEMIF_ADD_RING:
        if (uro_memif_get16(message, URO_MEMIF_RING_FLAGS) & URO_MEMIF_TO_SERVER) {
            peer.to_server = (void *)(peer.base + offset);
            keep(&peer.wakes_server, fd);
        } else {
            peer.to_client = (void *)(peer.base + offset);
            keep(&peer.wakes_client, fd);
        }
        return;
    default:
        if (fd >= 0)
            (void)close(fd);
    }
}

static bool say(const struct uro_memif_message *message, int fd)
{
    return peer.control >= 0 &&
           memif_peer_send(peer.control, message, sizeof *message, &fd, fd >= 0);
}

/* Sends the next message of a valid server. */
static void answer(void)
{
    struct uro_memif_message message;
    int fd;

    come();
    if (peer.control < 0)
        return;
    if (!memif_peer_receive(peer.control, &message, &fd)) {
        const struct uro_memif_message hello = memif_peer_hello();
        if (uro_memif_of(port)->step == URO_MEMIF_AWAITS_HELLO)
            (void)say(&hello, -1);
        return;
    }
    learn(&message, fd);
    message = uro_memif_message(
        uro_memif_type_of(&message) == URO_MEMIF_CONNECT ? URO_MEMIF_CONNECTED : URO_MEMIF_ACK);
    (void)say(&message, -1);
}

/* Sends message number @step of a valid client. */
static void say_next(unsigned step)
{
    struct uro_memif_message message = memif_peer_init(0, "");
    int fd = -1;

    come();
    if (step == 1)
        message = memif_peer_region(0, PEER_MEMORY), fd = peer.memory;
    else if (step == 2)
        message = memif_peer_ring(true, PEER_TO_SERVER), fd = peer.wakes_server;
    else if (step == 3)
        message = memif_peer_ring(false, PEER_TO_CLIENT), fd = peer.wakes_client;
    else if (step > 3)
        message = uro_memif_message(URO_MEMIF_CONNECT);
    (void)say(&message, fd);
}

static bool connect_them(void)
{
    for (unsigned i = 0; i < ENOUGH_LOOKS && !uro_port_link_up(port); i++) {
        if (serves) {
            uro_memif_of(port)->since -= uro_memif_of(port)->control < 0 ? 20 : 0;
            answer();
        } else if (i < 6) { /* the condition of the loop runs the port before each message */
            say_next(i);
        }
    }
    return uro_memif_is_up(uro_memif_of(port));
}

/* ---- frames of the port ------------------------------------------------- */

static bool in_memory(const uint8_t *from, uint32_t length)
{
    const struct uro_memif *memif = uro_memif_of(port);

    for (unsigned i = 0; i < URO_MEMIF_REGIONS; i++)
        if (memif->regions[i].base != NULL && from >= memif->regions[i].base &&
            from + length <= memif->regions[i].base + memif->regions[i].size)
            return true;
    return false;
}

/* Reads the packet as the engine does. The head is in memory of exactly the size of the head. */
static void look_at(const struct uro_pkt *pkt)
{
    const uint32_t head_length = pkt->indirect != NULL ? URO_FRAME_HEAD : pkt->length;
    uint8_t *head = malloc(head_length > 0 ? head_length : 1);
    static uint8_t whole[URO_MEMIF_LONGEST];
    struct uro_frame frame;

    demand(head != NULL && pkt->length <= URO_MEMIF_LONGEST);
    memcpy(head, pkt->octets, head_length);
    if (pkt->indirect != NULL)
        demand(uro_frame_is_data(head, pkt->length) && in_memory(pkt->indirect, pkt->length));
    uro_pkt_copy(pkt, whole, pkt->length);
    if (uro_frame_network(head, pkt->length, &frame) == URO_FRAME_OK &&
        frame.ether.type != URO_ETHERTYPE_ARP && frame.ip.protocol == URO_IPPROTO_UDP) {
        if (pkt->indirect != NULL)
            frame.indirect = pkt->indirect + URO_ETHER_LEN;
        (void)!uro_frame_roce(&frame);
    }
    free(head);
}

static void give_back(void)
{
    if (lent_count > 0)
        uro_port_release(port, lent, lent_count);
    lent_count = 0;
}

static void receive(uint8_t how)
{
    give_back();
    lent_count = uro_port_receive(port, lent, 1 + how % URO_PORT_BURST);
    for (uint32_t i = 0; i < lent_count; i++)
        look_at(&lent[i]);
    if (how & 0x80) /* keeps the frames lent during the next steps */
        return;
    give_back();
}

static void transmit(uint32_t length)
{
    static uint8_t body[4300];
    struct uro_tx tx = { .head_length = 42, .span_count = 1, .spans = { { body, length % 4200 } } };
    const uint32_t free_slots = uro_port_tx_free_count(port);

    demand(free_slots <= URO_PORT_BURST);
    tx.payload_length = tx.spans[0].length;
    tx.head[13] = (uint8_t)length;
    for (uint32_t i = 0; i < free_slots && i < 3; i++)
        uro_port_transmit(port, &tx, 1);
}

/* Arms the port once. An armed port that is up must have a ring whose frames wake it. */
static void sleep_once(void)
{
    if (uro_port_arm(port))
        demand(!uro_memif_is_up(uro_memif_of(port)) || uro_memif_of(port)->in.ring != NULL);
    uro_port_disarm(port);
}

/* ---- steps of the peer -------------------------------------------------- */

static void say_anything(void)
{
    static const unsigned places[] = { 2, 4, 6, 8, 12, 34, 36, 44 };
    struct uro_memif_message message = uro_memif_message(next() % 10);
    const uint8_t kind = next();
    uint8_t octets[256] = { 0 };
    int fds[8], own = -1;
    unsigned count = kind >> 6;

    if (kind & 1)
        message = memif_peer_region(next() % 20, next32());
    else if (kind & 2)
        message = memif_peer_ring(next() & 1, next32());
    for (unsigned patches = kind >> 2 & 3; patches > 0; patches--)
        message.octets[places[next() % URO_ARRAY_LEN(places)]] = next();
    if (kind & 32)
        own = kind & 16 ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : memif_peer_file(next32(), 0);
    for (unsigned i = 0; i < count; i++)
        fds[i] = own >= 0 ? own : i == 0 ? peer.memory : peer.wakes_server;
    if (count > 0 && fds[0] < 0)
        count = 0;
    memcpy(octets, &message, sizeof message);
    if (peer.control >= 0)
        (void)memif_peer_send(peer.control, octets, kind == 0xff ? next() : sizeof message, fds,
                              count);
    if (own >= 0)
        (void)close(own);
}

static void write_index(void)
{
    const uint8_t which = next();
    struct uro_memif_ring *ring = which & 1 ? peer.to_server : peer.to_client;
    const uint16_t value = which & 2 ? (uint16_t)(next() % 70) : next16();

    if (ring == NULL)
        return;
    if (which & 4)
        atomic_store(&ring->flags, value);
    else if (which & 8)
        atomic_store(&ring->head,
                     (uint16_t)(which & 16 ? atomic_load(&ring->head) + value : value));
    else
        atomic_store(&ring->tail,
                     (uint16_t)(which & 16 ? atomic_load(&ring->tail) + value : value));
}

static void write_desc(void)
{
    const uint8_t which = next();
    struct uro_memif_ring *ring = which & 1 ? peer.to_server : peer.to_client;
    struct uro_memif_desc desc = { .flags = which >> 1 & 1, .region = which & 128 ? next() : 0 };

    if (ring == NULL)
        return;
    desc.length = next32();
    desc.offset = which & 4 ? next32() : memif_peer_buffer(which & 1, which >> 3);
    memif_peer_put(ring, which >> 3, desc);
}

/* Writes a valid frame, in which the input may change a byte. */
static void write_frame(void)
{
    static uint8_t made[MADE_FRAME_MAX], payload[4096];
    const uint8_t which = next();
    struct uro_frame frame = {
        .ether = { .dest = { { 2 } }, .type = which & 1 ? URO_ETHERTYPE_IPV6 : URO_ETHERTYPE_IPV4 },
        .ip = { .v6 = which & 1, .hop_limit = 64 },
        .udp = { .dest_port = URO_ROCE_PORT },
        .bth = { .opcode = next(), .pkey = 0xffff, .dest_qpn = next() },
        .payload = payload,
        .payload_length = next16() % 1900,
    };
    const uint32_t slot = next(), place = memif_peer_buffer(!serves, slot);

    if (uro_opcodes[frame.bth.opcode].name == NULL)
        frame.bth.opcode = RC_WRITE_FIRST;
    frame.op = &uro_opcodes[frame.bth.opcode];
    frame.bth.pad_count = (uint8_t)(-frame.payload_length & 3);
    const uint32_t length = make_frame(&frame, made);
    if (which & 2)
        made[next() % 128] = next();
    if (peer.base == NULL || place + length > peer.size)
        return;
    memcpy(peer.base + place, made, length);
    if (which & 4 && !serves)
        memif_peer_put(peer.to_server, slot,
                       (struct uro_memif_desc){ .length = length, .offset = place });
}

static void ring_doorbell(void)
{
    const uint64_t value = next();
    int fd = value & 1 ? peer.wakes_server : peer.wakes_client;

    if (fd >= 0)
        (void)!write(fd, &value, sizeof value);
}

static void step(void)
{
    const uint8_t what = next();

    switch (what % 16) {
    case 0:
        say_anything();
        break;
    case 1:
        (serves) ? answer() : say_next(next() % 5);
        break;
    case 2:
        go();
        come();
        break;
    case 3:
        uro_memif_of(port)->since -= next() * 8;
        break;
    case 4:
        sleep_once();
        break;
    case 5:
        ring_doorbell();
        break;
    case 6:
    case 7:
        transmit(next16());
        break;
    case 8:
    case 9:
        write_index();
        break;
    case 10:
    case 11:
        write_desc();
        break;
    case 12:
        write_frame();
        break;
    case 13:
    case 14:
        receive(next());
        break;
    default:
        (void)uro_port_link_up(port);
    }
}

/* Checks that a valid peer is served, whatever happened before. */
static void serve_a_good_one(void)
{
    give_back();
    go();
    uro_memif_of(port)->since -= 1000;
    (void)uro_port_link_up(port);
    if (!serves) {
        memif_peer_drop(&peer);
        peer = memif_peer_make();
    }
    demand(connect_them());
    demand(uro_port_tx_free_count(port) > 0);
    transmit(1000);
    demand(atomic_load(serves ? &peer.to_server->head : &peer.to_client->tail) != 0);
}

static int lowest_free(void)
{
    int fd = dup(STDERR_FILENO);

    demand(fd >= 0);
    (void)close(fd);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    at = data;
    end = data + size;
    (void)listener();
    const int before = lowest_free();
    const uint8_t first = next();
    serves = first & IS_SERVER;
    peer = (struct memif_peer){ -1, -1, NULL, 0, NULL, NULL, -1, -1 };
    if (!serves)
        peer = memif_peer_make();
    open_port();
    if (first & IS_UP)
        demand(connect_them());
    for (unsigned i = 0; i < STEPS_MAX && at < end; i++)
        step();
    serve_a_good_one();
    uro_port_close(port);
    memif_peer_drop(&peer);
    demand(lowest_free() == before);
    return 0;
}
