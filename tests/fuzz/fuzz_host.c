/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_host.c - see fuzz_host.h. */
#include "fuzz_host.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "config/plugin.h"
#include "host/device.h"
#include "host/waiter.h"

#define DEVICES                                                                                    \
    "uroce0:cable0;ip=10.0.0.1/24,fd00::1/64;seed=1 "                                              \
    "uroce1:cable1;ip=10.0.0.2/24,fd00::2/64;seed=2"
#define QUEUE      256u
#define ROUNDS_MAX 256u
#define TIMERS_MAX 20000u

struct end {
    struct uro_port port;
    struct end *other;
    uint8_t *queue[QUEUE]; /* frames on their way to this end, each in memory of its size */
    uint32_t lengths[QUEUE];
    uint32_t head, tail;
};

static struct end ends[FUZZ_DEVICES];
static uro_time now = URO_MS(1000);
static bool link_up = true;
static uint32_t lost_mask;
static uint32_t sent;
static void (*watcher)(const uint8_t *octets, uint32_t length);

void fuzz_demand(bool condition)
{
    if (!condition)
        abort();
}

/* ---- in place of clock.c -------------------------------------------------------------------- */

uro_time uro_device_now(void)
{
    return now;
}

uint64_t uro_host_wall_clock(void)
{
    return now;
}

uint64_t uro_host_wall_time(uro_time at, uint64_t *offset)
{
    *offset = 0;
    return at;
}

/* ---- in place of progress.c, service.c and waiter.c -------------------------------- */

void uro_progress_lock(struct uro_device *device)
{
    (void)pthread_mutex_lock(&device->mutex);
}

bool uro_progress_lock_until(struct uro_device *device, const struct timespec *until)
{
    (void)until;
    return pthread_mutex_lock(&device->mutex) == 0;
}

bool uro_device_shares_port(const struct uro_device *device)
{
    (void)device;
    return false;
}

void uro_device_lock(struct uro_device *device)
{
    (void)pthread_mutex_lock(&device->mutex);
}

void uro_device_unlock(struct uro_device *device)
{
    (void)pthread_mutex_unlock(&device->mutex);
}

void uro_service_wake(struct uro_device *device)
{
    (void)device;
}

void uro_service_wake_all(struct uro_device *device)
{
    (void)device;
}

void uro_service_run(struct uro_device *device)
{
    (void)device;
}

void uro_device_hand_over(struct uro_device *device)
{
    (void)device;
}

int uro_waiter_signal_fd(const struct uro_device *device)
{
    (void)device;
    return eventfd(0, EFD_CLOEXEC);
}

void uro_device_wait_begin(struct uro_device *device)
{
    (void)device;
}

void uro_device_wait_end(void *device)
{
    (void)device;
}

const void *uro_device_wait(struct uro_device *device, const struct uro_event_source *source,
                            bool *interrupted)
{
    (void)device;
    (void)source;
    *interrupted = false;
    return NULL;
}

bool uro_device_wait_fds(struct uro_device *device, struct pollfd *fds, nfds_t count, int ms,
                         const sigset_t *mask, int *ready)
{
    (void)device;
    (void)mask;
    *ready = poll(fds, count, ms);
    return true;
}

bool uro_device_had_waiter(const struct uro_device *device)
{
    (void)device;
    return false;
}

void uro_device_polled(struct uro_device *device)
{
    (void)device;
}

void uro_device_progress(struct uro_device *device, bool posted)
{
    uint32_t received;

    (void)posted;
    uro_device_lock(device);
    (void)uro_round_run(device, true, now, &received);
    uro_device_unlock(device);
}

/* ---- the cable, in place of plugin.c --------------------------------------------------------- */

static struct end *end_of(struct uro_port *port)
{
    return URO_CONTAINER_OF(port, struct end, port);
}

static void drop_first(struct end *end)
{
    free(end->queue[end->head++ % QUEUE]);
}

static void close_end(struct uro_port *port)
{
    struct end *end = end_of(port);

    while (end->head != end->tail)
        drop_first(end);
}

static uint32_t receive(struct uro_port *port, struct uro_pkt *pkts, uint32_t max)
{
    struct end *end = end_of(port);
    uint32_t count = 0;

    for (; count < max && end->head + count != end->tail; count++) {
        uint32_t slot = (end->head + count) % QUEUE;
        pkts[count] = (struct uro_pkt){ .octets = end->queue[slot], .length = end->lengths[slot] };
    }
    return count;
}

static void release(struct uro_port *port, struct uro_pkt *pkts, uint32_t count)
{
    (void)pkts;
    while (count-- > 0)
        drop_first(end_of(port));
}

static uint32_t tx_free_count(struct uro_port *port)
{
    const struct end *to = end_of(port)->other;
    uint32_t left = QUEUE - (to->tail - to->head);

    return left < URO_PORT_BURST ? left : URO_PORT_BURST;
}

static void carry(struct end *to, const struct uro_tx *tx)
{
    const uint32_t length = uro_tx_length(tx);
    uint8_t *frame = malloc(length);

    fuzz_demand(frame != NULL && to->tail - to->head < QUEUE);
    uro_tx_write(tx, frame);
    if (watcher != NULL)
        watcher(frame, length);
    if (!link_up || to->port.ops == NULL || (lost_mask >> sent++ % 32 & 1)) {
        free(frame);
        return;
    }
    to->queue[to->tail % QUEUE] = frame;
    to->lengths[to->tail++ % QUEUE] = length;
}

static void transmit(struct uro_port *port, const struct uro_tx *tx, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        carry(end_of(port)->other, &tx[i]);
}

static bool is_up(struct uro_port *port)
{
    (void)port;
    return link_up;
}

static const struct uro_port_ops ops = {
    .datapath = { .receive = receive,
                  .release = release,
                  .tx_free_count = tx_free_count,
                  .transmit = transmit },
    .control = { .close = close_end, .link_up = is_up },
};

static const struct uro_port_driver driver = { .prefix = "cable",
                                               .text = "a cable between two devices",
                                               .flags =
                                                   URO_DRIVER_NUMBERED | URO_DRIVER_OTHER_OPTIONS,
                                               .default_mtu = URO_PORT_MTU_DEFAULT };

const struct uro_port_driver *uro_plugin_find(const char *link,
                                              char error[static URO_PORT_ERROR_MAX])
{
    (void)link;
    error[0] = '\0';
    return &driver;
}

struct uro_port *uro_plugin_open(const struct uro_device_config *config, bool forked,
                                 char error[static URO_PORT_ERROR_MAX])
{
    const uint32_t which = config->link[strlen("cable")] == '1';
    struct end *end = &ends[which];

    (void)forked;
    error[0] = '\0';
    end->other = &ends[!which];
    end->port = (struct uro_port){ .ops = &ops, .mac = config->mac, .mtu = config->mtu };
    return &end->port;
}

/* ---- functions for fuzz targets -------------------------------------------------------------- */

struct uro_device *const *fuzz_host_devices(void)
{
    static bool configured;

    if (!configured)
        fuzz_demand(setenv("UROCE_DEVICES", DEVICES, 1) == 0);
    configured = true;
    return uro_host_devices();
}

void fuzz_host_pass(uro_time how_long)
{
    now += how_long;
}

/* Runs each engine once. Returns whether more work is due now. */
static bool run_all(void)
{
    bool more = false;

    for (uint32_t i = 0; i < FUZZ_DEVICES; i++) {
        struct uro_device *device = fuzz_host_devices()[i];
        if (!uro_device_started(device))
            continue;
        uro_device_progress(device, true);
        more = more || uro_engine_next(uro_device_engine(device)) <= now ||
               ends[i].head != ends[i].tail || uro_engine_rung(uro_device_engine(device));
    }
    return more;
}

void fuzz_host_settle(void)
{
    for (uint32_t i = 0; i < ROUNDS_MAX && run_all(); i++)
        ;
}

static bool connected(void)
{
    bool any = false;

    for (uint32_t i = 0; i < FUZZ_DEVICES; i++) {
        struct uro_device *device = fuzz_host_devices()[i];
        any = any || (uro_device_started(device) &&
                      uro_engine_cm(uro_device_engine(device))->by_id.count > 0);
    }
    return any;
}

static uro_time next_due(void)
{
    uro_time first = URO_TIME_NEVER;

    for (uint32_t i = 0; i < FUZZ_DEVICES; i++) {
        struct uro_device *device = fuzz_host_devices()[i];
        if (!uro_device_started(device))
            continue;
        uro_time next = uro_engine_next(uro_device_engine(device));
        first = next < first ? next : first;
    }
    return first;
}

void fuzz_host_forget_connections(void)
{
    for (uint32_t i = 0; connected(); i++) {
        uro_time next = next_due();
        fuzz_demand(i < TIMERS_MAX && next != URO_TIME_NEVER);
        now = next > now ? next : now;
        fuzz_host_settle();
    }
}

void fuzz_host_lose(uint32_t mask)
{
    lost_mask = mask;
}

void fuzz_host_link(bool up)
{
    link_up = up;
}

void fuzz_host_remove(uint32_t which)
{
    struct uro_device *device = fuzz_host_devices()[which];
    bool reported = uro_device_gone(device);

    atomic_store(&device->gone, true);
    uro_round_report_removal(device, &reported);
}

void fuzz_host_restore(void)
{
    for (uint32_t i = 0; i < FUZZ_DEVICES; i++)
        atomic_store(&fuzz_host_devices()[i]->gone, false);
}

void fuzz_host_watch(void (*seen)(const uint8_t *octets, uint32_t length))
{
    watcher = seen;
}
