/* SPDX-License-Identifier: BSD-3-Clause */
/* engines_kit.c - see engines_kit.h. */
#include "engines_kit.h"

#include <sys/eventfd.h>

#include "wire/icrc.h"

static const struct uro_mac own_mac = { { 2, 0, 0, 0, 0, 1 } };
static const struct uro_mac other_mac = { { 2, 0, 0, 0, 0, 2 } };
static const struct uro_mac group_mac = { { 1, 0, 0x5e, 0, 0, 9 } };

/* ---- the inner port ------------------------------------------------------- */

struct engines_kit_inner inner;

static uint32_t inner_receive(struct uro_port *port, struct uro_pkt *pkts, uint32_t max)
{
    uint32_t count = inner.arrived - inner.next;

    (void)port;
    inner.receives++;
    inner.max = max;
    if (inner.lent != 0)
        fail_msg("received again before release()");
    if (count > max)
        count = max;
    for (uint32_t i = 0; i < count; i++)
        pkts[i] = (struct uro_pkt){ .octets = inner.arrives[inner.next + i].octets,
                                    .length = inner.arrives[inner.next + i].length,
                                    .summed = true };
    inner.next += count;
    inner.lent = count;
    if (inner.during_receive != NULL)
        inner.during_receive();
    return count;
}

/* Overwrites the frames, because the link uses their memory again. */
static void inner_release(struct uro_port *port, struct uro_pkt *pkts, uint32_t count)
{
    (void)port;
    if (count != inner.lent)
        fail_msg("%u of %u frames were released", count, inner.lent);
    for (uint32_t i = 0; i < count; i++) {
        if (pkts[i].octets != inner.arrives[inner.next - count + i].octets)
            fail_msg("another frame was released");
        memset(inner.arrives[inner.next - count + i].octets, 0xee, FRAME);
    }
    inner.lent = 0;
}

static uint32_t inner_tx_free_count(struct uro_port *port)
{
    (void)port;
    return inner.tx_free;
}

static void inner_transmit(struct uro_port *port, const struct uro_tx *tx, uint32_t count)
{
    (void)port;
    assert_in_range(count, 1, inner.tx_free);
    assert_in_range(inner.sent_count + count, 0, MANY);
    inner.tx_free -= count;
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(uro_tx_length(&tx[i]), FRAME);
        uro_tx_write(&tx[i], inner.sent[inner.sent_count++]);
    }
}

static uint32_t inner_wait_fds(struct uro_port *port, int fds[static URO_PORT_FDS_MAX])
{
    (void)port;
    for (uint32_t i = 0; i < inner.wait_fd_count; i++)
        fds[i] = inner.fd;
    return inner.wait_fd_count;
}

static bool inner_arm(struct uro_port *port)
{
    (void)port;
    inner.armed++;
    return !inner.ready && inner.next == inner.arrived;
}

static void inner_disarm(struct uro_port *port)
{
    (void)port;
    inner.disarmed++;
}

static bool inner_link_up(struct uro_port *port)
{
    (void)port;
    return !inner.down;
}

static bool inner_gone(struct uro_port *port)
{
    (void)port;
    return inner.gone;
}

static void inner_multicast(struct uro_port *port, const struct uro_mac *macs, uint32_t count)
{
    (void)port;
    assert_in_range(count, 0, MACS_MAX);
    memcpy(inner.macs, macs, count * sizeof *macs);
    inner.mac_count = count;
    inner.multicasts++;
}

static void inner_forked(struct uro_port *port)
{
    (void)port;
    inner.forked++;
}

/* After this call, a call of the port crashes. */
static void inner_close(struct uro_port *port)
{
    inner.closed++;
    port->ops = NULL;
}

const struct uro_port_ops inner_ops = {
    .datapath = { .receive = inner_receive,
                  .release = inner_release,
                  .tx_free_count = inner_tx_free_count,
                  .transmit = inner_transmit },
    .sleep = { .wait_fds = inner_wait_fds, .arm = inner_arm, .disarm = inner_disarm },
    .control = { .close = inner_close,
                 .forked = inner_forked,
                 .link_up = inner_link_up,
                 .gone = inner_gone,
                 .multicast = inner_multicast },
};

/* ---- the ports under test -------------------------------------------------- */

struct uro_port *ports[URO_STEER_ENGINES_MAX];

void reset_inner(void)
{
    memset(&inner, 0, sizeof inner);
    inner.port = (struct uro_port){ .ops = &inner_ops,
                                    .mac = own_mac,
                                    .mtu = MTU,
                                    .window = 9,
                                    .flags = URO_PORT_WAKES_DOWN | URO_PORT_CALL_PER_SEND };
    inner.tx_free = URO_PORT_BURST;
    inner.wait_fd_count = 1;
    inner.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
}

void open_ports(uint32_t engines)
{
    ports[0] = uro_engines_port_open(&inner.port, engines);
    assert_non_null(ports[0]);
    for (uint32_t i = 1; i < engines; i++) {
        ports[i] = uro_engines_port_join(ports[0], i);
        assert_non_null(ports[i]);
    }
}

int start_engines(void **state)
{
    (void)state;
    reset_inner();
    open_ports(ENGINES);
    return 0;
}

void close_engine(uint32_t engine)
{
    uro_port_close(ports[engine]);
    ports[engine] = NULL;
}

int stop_engines(void **state)
{
    (void)state;
    for (uint32_t i = URO_STEER_ENGINES_MAX; i-- > 0;)
        if (ports[i] != NULL)
            close_engine(i);
    assert_int_equal(inner.closed, 1);
    assert_int_equal(inner.lent, 0);
    return close(inner.fd);
}

static enum uro_tx_way way_of(char to)
{
    if (to == '*')
        return URO_TX_BOTH;
    return to == 'w' ? URO_TX_WIRE : URO_TX_SHARED;
}

struct uro_tx tx_of(char to, uint32_t number)
{
    static const uint8_t padding[PAYLOAD - 4];
    struct uro_tx tx = { .way = way_of(to),
                         .head_length = HEAD + 4,
                         .icrc = true,
                         .network_at = URO_ETHER_LEN,
                         .payload_length = sizeof padding,
                         .span_count = 1,
                         .spans = { { padding, sizeof padding } } };
    const struct uro_ip ip = { .dont_fragment = true,
                               .hop_limit = 64,
                               .protocol = URO_IPPROTO_UDP,
                               .payload_length = FRAME - URO_ETHER_LEN - URO_IPV4_LEN };
    const struct uro_udp udp = { .dest_port = URO_ROCE_PORT, .length = ip.payload_length };
    struct uro_bth bth = { .opcode = 0x04, .pkey = URO_PKEY_DEFAULT, .dest_qpn = 9 };
    const struct uro_mac *mac = to == 'w' ? &other_mac : &own_mac;

    if (to == '*')
        bth.dest_qpn = URO_QPN_MULTICAST, mac = &group_mac;
    else if (to != 'w')
        bth.dest_qpn = to == '0' ? 1 : (uint32_t)(to - '0') << URO_QPN_OWN_BITS | 9;
    memcpy(tx.head, mac, sizeof *mac);
    uro_put_be16(tx.head + 12, URO_ETHERTYPE_IPV4);
    (void)uro_ip_put(tx.head + URO_ETHER_LEN, &ip);
    uro_udp_encode(tx.head + URO_ETHER_LEN + URO_IPV4_LEN, &udp);
    uro_bth_encode(tx.head + HEAD - URO_BTH_LEN, &bth);
    uro_put_be32(tx.head + AT_NUMBER, number);
    return tx;
}

void arrive_one(char to, uint32_t number)
{
    const struct uro_tx tx = tx_of(to, number);

    assert_in_range(inner.arrived, 0, MANY - 1);
    uro_tx_write(&tx, inner.arrives[inner.arrived].octets);
    inner.arrives[inner.arrived++].length = FRAME;
}

void arrive(const char *frames)
{
    for (; *frames != '\0'; frames += 2)
        arrive_one(frames[0], (uint32_t)frames[1]);
}

void transmit(uint32_t engine, const char *frames)
{
    struct uro_tx burst[URO_PORT_BURST];
    uint32_t count = 0;

    for (; *frames != '\0'; frames += 2)
        burst[count++] = tx_of(frames[0], (uint32_t)frames[1]);
    assert_in_range(uro_port_tx_free_count(ports[engine]), count, URO_PORT_BURST);
    uro_port_transmit(ports[engine], burst, count);
}

uint32_t number_in(const uint8_t *octets, uint32_t length)
{
    if (length != FRAME || uro_get_le32(octets + FRAME - 4) !=
                               uro_icrc(octets + URO_ETHER_LEN, false, FRAME - URO_ETHER_LEN - 4))
        fail_msg("a frame of %u bytes is damaged", length);
    return uro_get_be32(octets + AT_NUMBER);
}

static char text[MANY + 1];

const char *letters(const struct uro_pkt *pkts, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        text[i] = (char)number_in(pkts[i].octets, pkts[i].length);
    text[count] = '\0';
    return text;
}

const char *received(uint32_t engine)
{
    struct uro_pkt pkts[URO_PORT_BURST];
    const uint32_t count = uro_port_receive(ports[engine], pkts, URO_PORT_BURST);

    (void)letters(pkts, count);
    if (count > 0)
        uro_port_release(ports[engine], pkts, count);
    return text;
}

const char *sent(void)
{
    for (uint32_t i = 0; i < inner.sent_count; i++)
        text[i] = (char)number_in(inner.sent[i], FRAME);
    text[inner.sent_count] = '\0';
    inner.sent_count = 0;
    return text;
}

bool wakes(uint32_t engine)
{
    int fds[URO_PORT_FDS_MAX];
    struct pollfd polled[URO_PORT_FDS_MAX];
    const uint32_t count = uro_port_wait_fds(ports[engine], fds);

    for (uint32_t i = 0; i < count; i++)
        polled[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
    return poll(polled, count, 0) > 0;
}

void fill_ring_from_link(void)
{
    for (uint32_t i = 0; i < RING_SLOTS; i++)
        arrive_one('2', i);
    for (uint32_t i = 0; i < RING_SLOTS; i += URO_PORT_BURST)
        assert_string_equal(received(0), "");
    assert_int_equal(inner.next, inner.arrived);
}

uint32_t fill_ring(uint32_t from)
{
    uint32_t number = 0;

    while (uro_port_tx_free_count(ports[from]) > 0) {
        struct uro_tx burst[5];
        for (uint32_t i = 0; i < 5; i++)
            burst[i] = tx_of('2', number++);
        uro_port_transmit(ports[from], burst, 5);
        assert_in_range(number, 0, 2 * RING_SLOTS);
    }
    return number;
}

uint32_t receive_numbers(uint32_t engine, uint32_t first)
{
    struct uro_pkt pkts[URO_PORT_BURST];
    const uint32_t count = uro_port_receive(ports[engine], pkts, URO_PORT_BURST);

    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(number_in(pkts[i].octets, pkts[i].length), first + i);
    if (count > 0)
        uro_port_release(ports[engine], pkts, count);
    return count;
}
