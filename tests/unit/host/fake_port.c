/* SPDX-License-Identifier: BSD-3-Clause */
/* fake_port.c - see fake_port.h. */
#include "fake_port.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "wire/ether.h"
#include "wire/icmp.h"

#define VISIBLE __attribute__((visibility("default")))

VISIBLE struct fake_port fake = { .lock = PTHREAD_MUTEX_INITIALIZER,
                                  .changed = PTHREAD_COND_INITIALIZER,
                                  .event = -1,
                                  .link_up = true,
                                  .tx_free_count = URO_PORT_BURST,
                                  .close_pipe = -1 };

static void enter(void)
{
    assert(pthread_mutex_lock(&fake.lock) == 0);
}

static void leave(void)
{
    assert(pthread_cond_broadcast(&fake.changed) == 0);
    assert(pthread_mutex_unlock(&fake.lock) == 0);
}

/* The caller holds the lock. */
static void ring(void)
{
    const uint64_t one = 1;

    if (fake.event >= 0)
        assert(write(fake.event, &one, sizeof one) == sizeof one);
}

static void fake_close(struct uro_port *port)
{
    assert(port == &fake.port);
    enter();
    fake.closes++;
    if (fake.close_pipe >= 0)
        assert(write(fake.close_pipe, "c", 1) == 1);
    leave();
}

static uint32_t fake_receive(struct uro_port *port, struct uro_pkt *pkts, uint32_t max)
{
    uint32_t count = 0;

    assert(port == &fake.port && max <= URO_PORT_BURST);
    enter();
    fake.receives++;
    for (; count < max && fake.head + count != fake.tail; count++) {
        uint32_t slot = (fake.head + count) % FAKE_QUEUE;
        pkts[count] = (struct uro_pkt){ .octets = fake.queue[slot], .length = fake.lengths[slot] };
    }
    if (fake.completes != NULL)
        *fake.completes += count;
    void (*receiving)(void) = fake.receiving;
    leave();
    if (receiving != NULL)
        receiving();
    return count;
}

static void fake_release(struct uro_port *port, struct uro_pkt *pkts, uint32_t count)
{
    (void)port;
    (void)pkts;
    enter();
    fake.head += count;
    leave();
}

static uint32_t fake_tx_free_count(struct uro_port *port)
{
    (void)port;
    return fake_read(&fake.tx_free_count);
}

/* Returns whether the frame is a membership report. A device sends a report when it starts, and a
 * second report within a second. */
static bool is_report(const uint8_t *frame)
{
    static const uint8_t routers[6] = { 0x33, 0x33, 0, 0, 0, 0x16 };

    return memcmp(frame, routers, sizeof routers) == 0;
}

static void fake_transmit(struct uro_port *port, const struct uro_tx *tx, uint32_t count)
{
    (void)port;
    enter();
    assert(count > 0 && count <= fake.tx_free_count);
    for (uint32_t i = 0; i < count; i++) {
        uint8_t frame[FAKE_FRAME_MAX];
        const uint32_t length = uro_tx_length(&tx[i]);
        assert(length <= sizeof frame);
        uro_tx_write(&tx[i], frame);
        if (is_report(frame)) {
            fake.reports++;
            continue;
        }
        memcpy(fake.last, frame, length);
        fake.last_length = length;
        fake.sent++;
        fake.sender = gettid();
    }
    void (*sends)(void) = fake.sends;
    leave();
    if (sends != NULL)
        sends();
}

static uint32_t fake_wait_fds(struct uro_port *port, int fds[static URO_PORT_FDS_MAX])
{
    (void)port;
    fds[0] = fake.event;
    return fake.event >= 0 ? 1 : 0;
}

static bool fake_arm(struct uro_port *port)
{
    (void)port;
    enter();
    fake.arms++;
    fake.received_by_arm = fake.receives;
    fake.armed = fake.head == fake.tail;
    bool armed = fake.armed;
    leave();
    return armed;
}

VISIBLE void fake_count_in(const uint64_t *counter)
{
    enter();
    fake.completes = (uint64_t *)(uintptr_t)counter;
    leave();
}

VISIBLE void fake_call_receiving(void (*receiving)(void))
{
    enter();
    fake.receiving = receiving;
    leave();
}

VISIBLE bool fake_is_armed(void)
{
    enter();
    bool armed = fake.armed;
    leave();
    return armed;
}

static void fake_disarm(struct uro_port *port)
{
    uint64_t value;

    (void)port;
    enter();
    fake.armed = false;
    (void)!read(fake.event, &value, sizeof value);
    leave();
}

static bool fake_link_up(struct uro_port *port)
{
    (void)port;
    enter();
    fake.link_looks++;
    bool up = fake.link_up;
    leave();
    return up;
}

static bool fake_gone(struct uro_port *port)
{
    (void)port;
    enter();
    bool gone = fake.gone;
    leave();
    return gone;
}

static void fake_multicast(struct uro_port *port, const struct uro_mac *macs, uint32_t count)
{
    (void)port;
    enter();
    assert(count <= FAKE_MACS);
    memcpy(fake.macs, macs, count * sizeof *macs);
    fake.mac_count = count;
    fake.multicasts++;
    leave();
}

static int fake_lock_service(struct uro_port *port, const struct uro_listened *what)
{
    (void)port;
    enter();
    fake.service_locks++;
    fake.locked_service = *what;
    int error = fake.lock_error;
    leave();
    return error;
}

static void fake_unlock_service(struct uro_port *port, const struct uro_listened *what)
{
    (void)port;
    enter();
    fake.service_unlocks++;
    fake.locked_service = *what;
    leave();
}

static uint32_t fake_route_mtu(struct uro_port *port, const struct uro_gid *from,
                               const struct uro_gid *to)
{
    (void)port;
    (void)from;
    (void)to;
    enter();
    fake.ways++;
    uint32_t carries = fake.carries;
    leave();
    return carries;
}

static void fake_forked(struct uro_port *port)
{
    (void)port;
    fake.forks++; /* no lock is needed, because only one thread runs during fork() */
}

static void fake_services(struct uro_port *port, const struct uro_listened *all, uint32_t count)
{
    (void)port;
    (void)all;
    pthread_mutex_lock(&fake.lock);
    fake.services = count;
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.lock);
}

static const struct uro_port_ops ops = {
    .datapath = {
        .receive = fake_receive,
        .release = fake_release,
        .tx_free_count = fake_tx_free_count,
        .transmit = fake_transmit,
    },
    .sleep = { .wait_fds = fake_wait_fds, .arm = fake_arm, .disarm = fake_disarm },
    .control = {
        .close = fake_close,
        .forked = fake_forked,
        .link_up = fake_link_up,
        .gone = fake_gone,
        .multicast = fake_multicast,
        .services = fake_services,
        .lock_service = fake_lock_service,
        .unlock_service = fake_unlock_service,
        .route_mtu = fake_route_mtu,
    },
};

static struct uro_port *fake_open(const struct uro_port_config *config,
                                  char error[static URO_PORT_ERROR_MAX])
{
    if (strstr(config->link, "broken") != NULL && !fake.mended) {
        (void)snprintf(error, URO_PORT_ERROR_MAX, "%s is %s; mend it", config->link,
                       fake.breaks_otherwise ? "wet" : "broken");
        return NULL;
    }
    enter();
    fake.begins++;
    assert(pthread_cond_broadcast(&fake.changed) == 0);
    while (strstr(config->link, "slow") != NULL && !fake.let_open)
        assert(pthread_cond_wait(&fake.changed, &fake.lock) == 0);
    fake.opens++;
    fake.opener = gettid();
    (void)pthread_getname_np(pthread_self(), fake.opener_name, sizeof fake.opener_name);
    (void)pthread_sigmask(SIG_BLOCK, NULL, &fake.opener_signals);
    if (strstr(config->link, "polled") == NULL)
        fake.event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    fake.port = (struct uro_port){
        .ops = &ops, .mac = config->mac, .mtu = config->mtu, .flags = fake.flags
    };
    leave();
    return &fake.port;
}

#define DRIVER(name)                                                                               \
    {                                                                                              \
        .prefix = (name), .text = "a port of the test", .default_mtu = URO_PORT_MTU_DEFAULT,       \
        .flags = URO_DRIVER_NUMBERED | URO_DRIVER_OTHER_OPTIONS, .open = fake_open                 \
    }

VISIBLE struct uro_port_driver fake_drivers[] = { DRIVER("fake"), DRIVER("polled"),
                                                  DRIVER("broken"), DRIVER("slow") };

VISIBLE const struct uro_port_plugin uro_port_plugin = { URO_PORT_PLUGIN_VERSION,
                                                         URO_ARRAY_LEN(fake_drivers),
                                                         fake_drivers };

VISIBLE void fake_reset(void)
{
    enter();
    fake.head = fake.tail = 0;
    fake.receives = fake.arms = fake.link_looks = fake.sent = 0;
    fake.tx_free_count = URO_PORT_BURST;
    leave();
}

VISIBLE void fake_inject_echo(const struct uro_mac *to)
{
    static const uint8_t ours[4] = { 10, 0, 0, 1 }, theirs[4] = { 10, 0, 0, 2 };
    const struct uro_icmp icmp = { .kind = URO_ICMP_ECHO_REQUEST,
                                   .echo_id = 7,
                                   .echo_data = (const uint8_t *)"abcd",
                                   .echo_length = 4 };
    const struct uro_ether ether = { .dest = *to,
                                     .source = { { 2, 0, 0, 0, 0, 2 } },
                                     .type = URO_ETHERTYPE_IPV4 };
    const struct uro_ip ip = { .hop_limit = 64,
                               .protocol = URO_IPPROTO_ICMP,
                               .payload_length = URO_ICMP_ECHO_HEADER + 4,
                               .source = uro_gid_from_ipv4(theirs),
                               .dest = uro_gid_from_ipv4(ours) };

    enter();
    assert(fake.tail - fake.head < FAKE_QUEUE);
    uint8_t *frame = fake.queue[fake.tail % FAKE_QUEUE];
    size_t length = uro_ether_put(frame, &ether);
    length += uro_ip_put(frame + length, &ip);
    length += uro_icmp_encode_echo(frame + length, &ip, &icmp);
    fake.lengths[fake.tail++ % FAKE_QUEUE] = (uint32_t)length;
    ring();
    leave();
}

VISIBLE void fake_let_open(void)
{
    enter();
    fake.let_open = true;
    leave();
}

VISIBLE void fake_set_link(bool up)
{
    enter();
    fake.link_up = up;
    ring();
    leave();
}

VISIBLE uint32_t fake_read(const uint32_t *counter)
{
    enter();
    uint32_t value = *counter;
    leave();
    return value;
}

VISIBLE void fake_wait(const uint32_t *counter, uint32_t value)
{
    enter();
    while (*counter < value)
        assert(pthread_cond_wait(&fake.changed, &fake.lock) == 0);
    leave();
}
