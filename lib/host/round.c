/* SPDX-License-Identifier: BSD-3-Clause */
/* round.c - runs one round of a device: receives frames, sends frames and delivers events.
 *
 * Programs see the completions of a round only after its ACKs have been transmitted: see
 * docs/decisions/0039.
 */
#include "host/device.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "cm/cm.h"
#include "config/netdev.h"
#include "core/shard.h"
#include "host/limits.h"
#include "host/report/pcap.h"

/* ---- frames ------------------------------------------------------------------ */

static uint32_t receive(struct uro_device *device, uro_time now)
{
    struct uro_pkt pkts[URO_PORT_BURST];
    uint32_t count = uro_port_receive(device->port, pkts, URO_PORT_BURST);

    if (count > 0) {
        uro_pcap_received(device, pkts, count, now);
        uro_engine_input(device->engine, pkts, count, now);
        uro_port_release(device->port, pkts, count);
    }
    return count;
}

/* Captures the frames that the engine has sent to itself. Returns their number. */
static uint32_t capture_local(struct uro_device *device, uro_time now)
{
    uint32_t count;
    const struct uro_pkt *pkts = uro_engine_looped(device->engine, &count);

    uro_pcap_looped(device, pkts, count, now);
    return count;
}

/* Returns whether the link has been full for so long that frames must be dropped. The link of a
 * stopped peer stays full for ever. If frames are dropped, timers run, and queue pairs fail as on
 * other links. */
static bool is_stuck(struct uro_device *device, uint32_t free_slots, uro_time now)
{
    if (free_slots > 0)
        device->full_since = 0;
    else if (device->full_since == 0)
        device->full_since = now;
    return device->full_since != 0 && now - device->full_since >= URO_LINK_STUCK;
}

/* Gives frames of the engine to the port, or drops them if the link is stuck. */
static void transmit_burst(struct uro_device *device, uint32_t count, bool stuck, uro_time now)
{
    if (stuck) {
        uro_engine_lost(device->engine, count);
        return;
    }
    if (count == 0)
        return;
    /* The clock is read again, because much time may have passed since the start of the round. */
    device->send_began =
        device->sched.call_per_send && count <= URO_SEND_TIMED ? uro_device_now() : 0;
    uro_port_transmit(device->port, device->tx, count);
    uro_pcap_sent(device, count, now);
}

static bool has_local_frames(const struct uro_device *device)
{
    uint32_t count;

    (void)uro_engine_looped(device->engine, &count);
    return count > 0;
}

/* Sends the frames of the engine. Returns the number of frames that left the engine. Adds the
 * number of frames to this device itself to @local; they need no space on the link. */
static uint32_t transmit(struct uro_device *device, uro_time now, uint32_t *local)
{
    uint32_t sent = 0;

    for (uint32_t burst = 0; burst < URO_OUTPUT_BURSTS; burst++) {
        uint32_t free_slots = uro_port_tx_free_count(device->port);
        bool stuck = is_stuck(device, free_slots, now);
        if (stuck)
            free_slots = URO_PORT_BURST;
        if (free_slots == 0 && !has_local_frames(device))
            break;
        uint32_t count = uro_engine_output(device->engine, device->tx, free_slots, now);
        transmit_burst(device, count, stuck, now);
        if (!uro_engine_acknowledges(device->engine))
            uro_engine_deliver(device->engine);
        sent += count;
        uint32_t kept = capture_local(device, now);
        *local += kept;
        if (count < free_slots && kept == 0)
            break;
    }
    return sent;
}

/* ---- link, groups, services, events ------------------------------------------- */

static void warn_of_guesses(struct uro_device *device, uro_time now)
{
    char text[URO_GUESS_TEXT_MAX];

    while (
        uro_quota_check_guesses(&device->guesses, uro_engine_counters(device->engine), now, text))
        fprintf(stderr, "uroce: %s: %s\n", device->config.name, text);
}

bool uro_round_link_changed(struct uro_device *device, bool up)
{
    struct uro_device *first = device->first_engine;

    if (up != device->counted_down)
        return false;
    device->counted_down = !up;
    return up ? atomic_fetch_sub(&first->engines_down, 1) == 1
              : atomic_fetch_add(&first->engines_down, 1) == 0;
}

static void check_link(struct uro_device *device, uro_time now)
{
    device->link_checked_at = now;
    uro_pcap_flush(device);
    bool up = uro_port_link_up(device->port);
    uro_engine_set_mtu(device->engine, device->port->mtu);
    if (up != device->link_up) {
        const uint32_t speed = up ? uro_netdev_speed(&device->config) : device->speed;
        const bool other_speed = device->link_was_up && speed != device->speed;
        device->link_up = up;
        device->speed = speed;
        if (up) {
            device->link_was_up = true;
        } else {
            device->link_down_since = now;
            uro_count(uro_engine_shard(device->engine)->counters, URO_COUNT_LINK_DOWNED);
        }
        uro_engine_link(device->engine, up, now);
        device->events_delivered++;
        if (uro_round_link_changed(device, up))
            uro_host_event_handlers()->port_event(
                device->first_engine, up ? URO_PORT_ACTIVE : URO_PORT_ERR); /* rule PORT.EVENT */
        if (other_speed)
            uro_host_event_handlers()->port_event(device, URO_PORT_SPEED);
    }
    if (!up && !uro_device_gone(device) && uro_port_gone(device->port) &&
        !atomic_exchange(&device->gone, true))
        uro_host_event_handlers()->port_event(device, URO_PORT_GONE); /* rule PORT.GONE */
    uro_show_state(device, URO_STATS_RUNNING);
    uro_impair_update(device);
    if (uro_show_objects(device, now)) /* check again soon */
        device->link_checked_at -= uro_round_link_interval(device) - URO_SHOW_INTERVAL;
}

/* The handler takes locks that must be taken before the engine lock. So the caller must not hold
 * the engine lock. */
void uro_round_report_removal(struct uro_device *device, bool *reported)
{
    const struct uro_conn_handlers *handlers = uro_host_conn_handlers();

    if (*reported || !uro_device_gone(device) || handlers == NULL)
        return;
    *reported = true;
    handlers->removed(device);
}

void uro_round_multicast(struct uro_device *device)
{
    struct uro_port *port = device->port;
    struct uro_gid groups[URO_PORT_GROUPS_MAX];

    device->multicast_version = uro_engine_multicast_version(device->engine);
    if (uro_port_takes_groups(port)) {
        uro_port_groups(port, groups,
                        uro_engine_groups(device->engine, groups, URO_PORT_GROUPS_MAX));
        return;
    }
    uro_port_multicast(
        port, device->macs,
        uro_engine_multicast_macs(device->engine, device->macs, URO_ENGINE_MACS_MAX));
}

/* Announces the services to the port. When out of memory, the next round tries again. */
static void announce_services(struct uro_device *device)
{
    const uint32_t count = uro_engine_service_count(device->engine);
    const uint32_t version = uro_engine_services_version(device->engine);
    struct uro_listened *services = NULL;

    if (uro_port_takes_services(device->port)) {
        services = malloc((count + 1) * sizeof *services);
        if (services == NULL)
            return;
        uro_port_services(device->port, services,
                          uro_engine_services(device->engine, services, count));
    }
    free(services);
    device->services_version = version;
}

uro_time uro_round_link_interval(const struct uro_device *device)
{
    return device->link_up ? URO_LINK_CHECK_INTERVAL : URO_LINK_DOWN_INTERVAL;
}

/* Reports connection events. Without handlers, the program does not use connections. */
static void report_connections(struct uro_device *device)
{
    const struct uro_conn_handlers *handlers = uro_host_conn_handlers();
    struct uro_conn_event event;
    struct uro_resolve *resolve;

    if (handlers == NULL)
        return;
    for (; uro_conn_event(uro_engine_cm(device->engine), &event); device->events_delivered++)
        handlers->conn_event(device, &event);
    for (; (resolve = uro_engine_resolved(device->engine)) != NULL; device->events_delivered++)
        handlers->resolved(device, resolve);
}

/* Checks for changes of the link, the multicast groups and the services, which are rare. */
static void check_changes(struct uro_device *device, uro_time now)
{
    if (now - device->link_checked_at >= uro_round_link_interval(device)) {
        check_link(device, now);
        warn_of_guesses(device, now);
        uro_quota_check_bounds(device);
    }
    if (uro_engine_multicast_version(device->engine) != device->multicast_version)
        uro_round_multicast(device);
    if (uro_engine_services_version(device->engine) != device->services_version)
        announce_services(device);
}

static void report_events(struct uro_device *device)
{
    struct uro_event event;
    const struct uro_record *record = uro_record_of(uro_engine_shard(device->engine)->counters);

    if (record->failure_count != device->failures_seen.count)
        uro_log_failures(device);

    while (uro_engine_event(device->engine, &event)) {
        uro_host_event_handlers()->engine_event(device, &event);
        device->sched.event_delivered = true;
        device->events_delivered++;
    }
}

uro_time uro_round_next(const struct uro_device *device)
{
    if (device->closed)
        return URO_TIME_NEVER;
    const uro_time engine = uro_engine_next(device->engine);
    const uro_time port = uro_port_next(device->port);

    return engine < port ? engine : port;
}

/* ---- the round ---------------------------------------------------------------- */

uint64_t uro_round_served(const struct uro_device *device)
{
    const uint64_t *value = uro_engine_counters(device->engine)->value;

    return value[URO_COUNT_RX_WRITES] + value[URO_COUNT_RX_READS] + value[URO_COUNT_RX_ATOMICS];
}

/* Records the time of a send. Engine lock held. */
static void note_sent(struct uro_device *device, uro_time ended)
{
    struct uro_sched_vars vars = uro_sched_load(&device->shared);

    uro_sched_on_send(&vars, device->send_began, ended);
    device->send_began = 0;
    URO_SCHED_STORE(&device->shared, &vars, send_cost);
    atomic_store_explicit(&device->shared.sent_at, ended, memory_order_relaxed);
}

static uint32_t send(struct uro_device *device, uro_time now)
{
    uint32_t local = 0;
    uint32_t sent = transmit(device, now, &local);
    if (sent > 0)
        note_sent(device, uro_device_now());
    return sent + local;
}

uint32_t uro_round_send(struct uro_device *device, uro_time now)
{
    if (device->closed)
        return 0;
    uro_unmapped_touch(device);
    uint32_t moved = send(device, now);
    uro_unmapped_touch(NULL);
    return moved;
}

uint32_t uro_round_run(struct uro_device *device, bool receives, uro_time now, uint32_t *received)
{
    *received = 0;
    if (device->closed)
        return 0;
    check_changes(device, now);
    uro_unmapped_touch(device);
    if (receives)
        *received = receive(device, now);
    uint32_t sent = send(device, now);
    uro_unmapped_touch(NULL);
    report_events(device);
    report_connections(device);
    return *received + sent;
}

/* ---- the round of a poll ---------------------------------------------------------- */

static uint64_t completions(const struct uro_device *device)
{
    return uro_engine_counters(device->engine)->value[URO_COUNT_COMPLETIONS];
}

/* Receives until the peer's WRITE changes the count @served. Receives once more after the time
 * limit, because the peer may have run on this processor. Returns the number of frames received.
 * Engine lock held. */
static uint32_t await_reply(struct uro_device *device, uint64_t served)
{
    struct uro_sched_vars vars = uro_sched_load(&device->shared);
    uro_time until = uro_sched_reply_until(&vars, uro_device_now());
    uint32_t received, all = 0;
    bool last = false;

    while (!last && uro_round_served(device) == served) {
        last = uro_device_now() >= until;
        if (last)
            (void)sched_yield();
        (void)uro_round_run(device, true, uro_device_now(), &received);
        all += received;
    }
    uro_sched_on_reply(&device->sched, uro_round_served(device) != served);
    return all;
}

uint32_t uro_round_of_poll(struct uro_device *device, bool receives, uro_time now)
{
    uint64_t completed = completions(device), served = uro_round_served(device);
    uint32_t received;

    (void)uro_round_run(device, receives, now, &received);
    if (uro_sched_reply(&device->sched, completions(device) != completed, served,
                        uro_round_served(device)) == URO_REPLY_AWAITED)
        received += await_reply(device, served);
    return received;
}
