/* SPDX-License-Identifier: BSD-3-Clause */
/* round.c - one round of a device: one clock reading, frames in, frames out, events.
 *
 * Programs see the completions of a round when its ACKs have been transmitted, not before: see docs/decisions/0039. */
#include <stdio.h>
#include <stdlib.h>

#include "cm/cm.h"
#include "host/capture.h"
#include "host/device.h"
#include "host/limits.h"
#include "host/unmapped.h"

static uint32_t receive(struct uro_device *device, uro_time now)
{
    struct uro_pkt pkts[URO_PORT_BURST];
    const struct uro_port_ops *ops = device->port->ops;
    uint32_t count = ops->receive(device->port, pkts, URO_PORT_BURST);

    if (count > 0) {
        if (device->capture != NULL)
            uro_capture_received(device, pkts, count, now);
        uro_engine_input(device->engine, pkts, count, now);
        uro_port_release(device->port, pkts, count);
    }
    return count;
}

/* Frames to ourselves: nothing is left to do but to keep a copy. */
static uint32_t looped(struct uro_device *device, uro_time now)
{
    uint32_t count;
    const struct uro_pkt *pkts = uro_engine_looped(device->engine, &count);

    if (count > 0 && device->capture != NULL)
        uro_capture_received(device, pkts, count, now);
    return count;
}

/* A peer that was stopped leaves the link full for ever. Frames are lost then, as on any other, so
 * that timers run and queue pairs learn that nobody answers. */
static bool is_stuck(struct uro_device *device, uint32_t room, uro_time now)
{
    if (room > 0)
        device->full_since = 0;
    else if (device->full_since == 0)
        device->full_since = now;
    return device->full_since != 0 && now - device->full_since >= URO_LINK_STUCK;
}

/* What the engine had to send: to the port, or nowhere. */
static void hand_over(struct uro_device *device, uint32_t count, bool stuck, uro_time now)
{
    if (stuck) {
        uro_engine_lost(device->engine, count);
        return;
    }
    if (count > 0 && device->capture != NULL)
        uro_capture_sent(device, device->tx, count, now);
    if (count == 0)
        return;
    /* The round may have done much before. */
    device->send_began =
        device->sched.call_per_send && count <= URO_SEND_TIMED ? uro_device_now() : 0;
    device->port->ops->transmit(device->port, device->tx, count);
}

static bool keeps_some(const struct uro_device *device)
{
    uint32_t count;

    (void)uro_engine_looped(device->engine, &count);
    return count > 0;
}

/* Returns how many frames left by the port; adds those that went to ourselves to @kept. What was kept is heard
 * whether the link has room or not. */
static uint32_t transmit(struct uro_device *device, uro_time now, uint32_t *kept)
{
    uint32_t sent = 0;

    for (uint32_t burst = 0; burst < URO_OUTPUT_BURSTS; burst++) {
        uint32_t room = device->port->ops->room(device->port);
        bool stuck = is_stuck(device, room, now);
        if (stuck)
            room = URO_PORT_BURST;
        if (room == 0 && !keeps_some(device))
            break;
        uint32_t count = uro_engine_output(device->engine, device->tx, room, now);
        hand_over(device, count, stuck, now);
        if (!uro_engine_acknowledges(device->engine))
            uro_engine_deliver(device->engine);
        sent += count;
        uint32_t local = looped(device, now);
        *kept += local;
        if (count < room && local == 0)
            break;
    }
    return sent;
}

static void look_for_guesses(struct uro_device *device, uro_time now)
{
    char text[URO_SUSPECT_TEXT_MAX];

    while (uro_suspect_look(&device->suspect, uro_engine_counters(device->engine), now, text))
        fprintf(stderr, "uroce: %s: %s\n", device->config.name, text);
}

static void check_link(struct uro_device *device, uro_time now)
{
    device->link_checked = now;
    uro_capture_flush(device);
    bool up = device->port->ops->link_up(device->port);
    uro_engine_set_mtu(device->engine, device->port->mtu);
    if (up != device->link_up) {
        device->link_up = up;
        if (up)
            device->link_was_up = true;
        uro_engine_link(device->engine, up, now);
        uro_host_sink()->port_event(device,
                                    up ? URO_PORT_ACTIVE : URO_PORT_ERR); /* rule PORT.EVENT */
    }
    if (!up && !uro_device_gone(device) && uro_port_gone(device->port)) {
        atomic_store(&device->gone, true);
        uro_host_sink()->port_event(device, URO_PORT_GONE); /* rule PORT.GONE */
    }
}

/* What connections mean by it takes the locks of commands, which stand before the engine's. */
void uro_round_tell_gone(struct uro_device *device, bool *told)
{
    const struct uro_conn_sink *sink = uro_host_conn_sink();

    if (*told || !uro_device_gone(device) || sink == NULL)
        return;
    *told = true;
    sink->removed(device);
}

void uro_round_multicast(struct uro_device *device)
{
    struct uro_port *port = device->port;
    struct uro_gid groups[URO_PORT_GROUPS_MAX];

    device->multicast_version = uro_engine_multicast_version(device->engine);
    if (port->ops->groups != NULL) {
        port->ops->groups(port, groups,
                          uro_engine_groups(device->engine, groups, URO_PORT_GROUPS_MAX));
        return;
    }
    uro_port_multicast(
        port, device->macs,
        uro_engine_multicast_macs(device->engine, device->macs, URO_ENGINE_MACS_MAX));
}

/* Announces the services to the port. When out of memory, the next round tries again. */
static void tell_services(struct uro_device *device)
{
    const uint32_t count = uro_engine_service_count(device->engine);
    const uint32_t version = uro_engine_services_version(device->engine);
    struct uro_listened *services = NULL;

    if (device->port->ops->services != NULL) {
        services = malloc((count + 1) * sizeof *services);
        if (services == NULL)
            return;
        device->port->ops->services(device->port, services,
                                    uro_engine_services(device->engine, services, count));
    }
    free(services);
    device->services_version = version;
}

uro_time uro_round_link_interval(const struct uro_device *device)
{
    return device->link_up ? URO_LINK_CHECK_INTERVAL : URO_LINK_DOWN_INTERVAL;
}

/* Without a sink nobody listens, connects or resolves. */
static void tell_connections(struct uro_device *device)
{
    const struct uro_conn_sink *sink = uro_host_conn_sink();
    struct uro_conn_event event;
    struct uro_resolve *resolve;

    if (sink == NULL)
        return;
    while (uro_conn_event(uro_engine_cm(device->engine), &event))
        sink->conn_event(device, &event);
    while ((resolve = uro_engine_resolved(device->engine)) != NULL)
        sink->resolved(device, resolve);
}

/* What changes seldom. */
static void look_around(struct uro_device *device, uro_time now)
{
    if (now - device->link_checked >= uro_round_link_interval(device)) {
        check_link(device, now);
        look_for_guesses(device, now);
        uro_bound_look(device);
    }
    if (uro_engine_multicast_version(device->engine) != device->multicast_version)
        uro_round_multicast(device);
    if (uro_engine_services_version(device->engine) != device->services_version)
        tell_services(device);
}

static void tell(struct uro_device *device)
{
    struct uro_event event;

    while (uro_engine_event(device->engine, &event)) {
        uro_host_sink()->engine_event(device, &event);
        device->sched.event_delivered = true;
    }
}

/* Records the time of a send. Engine lock held. */
static void note_sent(struct uro_device *device, uro_time ended)
{
    struct uro_sched_words words = uro_sched_load(&device->shared);

    uro_sched_on_send(&words, device->send_began, ended);
    device->send_began = 0;
    URO_SCHED_STORE(&device->shared, &words, send_cost);
    atomic_store_explicit(&device->shared.sent_at, ended, memory_order_relaxed);
}

static uint32_t send(struct uro_device *device, uro_time now)
{
    uint32_t kept = 0;
    uint32_t sent = transmit(device, now, &kept);
    if (sent > 0)
        note_sent(device, uro_device_now());
    return sent + kept;
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
    look_around(device, now);
    uro_unmapped_touch(device);
    if (receives)
        *received = receive(device, now);
    uint32_t sent = send(device, now);
    uro_unmapped_touch(NULL);
    tell(device);
    tell_connections(device);
    return *received + sent;
}
