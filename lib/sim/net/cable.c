/* SPDX-License-Identifier: BSD-3-Clause */
/* cable.c - see cable.h for the contract. */
#include "sim/net/cable.h"

#include <string.h>

#include "wire/frame.h"

#define PS_PER_NS        1000u
#define CE               3u /* both ECN bits */
#define CORRUPT_BITS_MAX 3u

static bool partitioned(const struct sim_cable *cable)
{
    const struct sim_cable_config *config = &cable->config;

    return config->partition_every != 0 && cable->world->now >= config->partition_from &&
           (cable->world->now - config->partition_from) % config->partition_every <
               config->partition_for;
}

static bool lost(struct sim_cable *cable)
{
    if (partitioned(cable))
        return true;
    if (cable->losing == 0 && sim_world_chance(&cable->rng, cable->config.loss_probability))
        cable->losing =
            cable->config.lose_run > 1 ? 1 + uro_rng_below(&cable->rng, cable->config.lose_run) : 1;
    if (cable->losing == 0)
        return false;
    cable->losing--;
    return true;
}

/* Returns whether the frame is UDP. Only RoCE itself can detect damage in such a frame. */
static bool guarded(const struct sim_world_frame *frame, struct uro_frame *decoded)
{
    return uro_frame_network(frame->bytes, frame->length, decoded) == URO_FRAME_OK &&
           decoded->ether.type != URO_ETHERTYPE_ARP && decoded->ip.protocol == URO_IPPROTO_UDP;
}

/* May truncate or corrupt the frame. Returns the frame, or a shorter new frame in its place. */
static struct sim_world_frame *damage(struct sim_cable *cable, struct sim_world_frame *frame)
{
    struct uro_frame decoded;

    if (!guarded(frame, &decoded))
        return frame;
    if (sim_world_chance(&cable->rng, cable->config.truncate_probability)) {
        uint32_t length = sim_world_between(&cable->rng, 1, frame->length - 1);
        struct sim_world_frame *cut = sim_world_copy_frame(cable->world, frame->bytes, length);
        sim_world_free_frame(cable->world, frame);
        frame = cut;
    }
    if (sim_world_chance(&cable->rng, cable->config.corrupt_probability)) {
        uint32_t bits = sim_world_between(&cable->rng, 1, CORRUPT_BITS_MAX);
        for (uint32_t i = 0; i < bits; i++) {
            uint32_t bit = uro_rng_below(&cable->rng, frame->length * 8);
            frame->bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
    }
    return frame;
}

static uint64_t queued_bytes(const struct sim_cable *cable)
{
    uro_time now = cable->world->now;

    return cable->busy_until > now
               ? (cable->busy_until - now) * PS_PER_NS / cable->config.ps_per_byte
               : 0;
}

/* May mark the frame CE as a router does: changes the IPv4 checksum, not the ICRC. */
static void mark(struct sim_cable *cable, struct sim_world_frame *frame)
{
    const struct sim_cable_config *config = &cable->config;
    struct uro_frame decoded;
    uint8_t header[URO_IP_LEN_MAX];

    bool marks = sim_world_chance(&cable->rng, config->ce_probability) ||
                 (config->mark_above != 0 && queued_bytes(cable) > config->mark_above);
    if (!marks || !guarded(frame, &decoded))
        return;
    decoded.ip.traffic_class |= CE;
    size_t length = uro_ip_put(header, &decoded.ip);
    memcpy(frame->bytes + (decoded.network - frame->bytes), header, length);
}

/* Returns the time at which the frame leaves the bottleneck, or NEVER if its queue is full. */
static uro_time departure(struct sim_cable *cable, uint32_t length)
{
    const struct sim_cable_config *config = &cable->config;
    uro_time now = cable->world->now;

    if (config->ps_per_byte == 0)
        return now;
    uro_time from = cable->busy_until > now ? cable->busy_until : now;
    bool limited = config->queue_bytes != 0 && now >= config->faults_from;
    if (limited && queued_bytes(cable) + length > config->queue_bytes)
        return URO_TIME_NEVER;
    cable->busy_until = from + (uro_time)length * config->ps_per_byte / PS_PER_NS;
    return cable->busy_until;
}

static uro_time wander(struct sim_cable *cable)
{
    const struct sim_cable_config *config = &cable->config;
    uro_time extra = 0;

    if (config->jitter != 0)
        extra = uro_rng_u64(&cable->rng) % (config->jitter + 1);
    if (!config->keep_order && sim_world_chance(&cable->rng, config->late_probability)) {
        extra += uro_rng_u64(&cable->rng) % (config->late_max + 1);
    }
    return config->one_way_delay + extra;
}

static void insert(struct sim_cable *cable, struct sim_world_frame *frame)
{
    struct sim_world_frame **link = &cable->flying;

    if (cable->last != NULL && cable->last->due <= frame->due)
        link = &cable->last->next;
    while (*link != NULL && (*link)->due <= frame->due)
        link = &(*link)->next;
    frame->next = *link;
    *link = frame;
    if (frame->next == NULL)
        cable->last = frame;
}

static void carry(struct sim_cable *cable, struct sim_world_frame *frame)
{
    uro_time left = URO_TIME_NEVER;

    cable->counts.frames++;
    if (!lost(cable)) {
        frame = damage(cable, frame);
        left = departure(cable, frame->length);
    }
    if (left == URO_TIME_NEVER) {
        cable->counts.lost++;
        sim_world_free_frame(cable->world, frame);
        return;
    }
    mark(cable, frame);
    frame->due = left + wander(cable);
    if (cable->config.keep_order && cable->last != NULL && cable->last->due > frame->due)
        frame->due = cable->last->due;
    insert(cable, frame);
}

static void cable_accept(struct sim_node *node, struct sim_world_frame *frame)
{
    struct sim_cable *cable = URO_CONTAINER_OF(node, struct sim_cable, node);

    unsigned quirks = cable->config.quirks;
    if (cable->world->now < cable->config.faults_from)
        quirks &= ~SIM_QUIRK_LOSSY;
    sim_quirks_rewrite(&cable->quirks, frame, quirks, cable->entered++);
    if (cable->down) {
        cable->counts.lost++;
        sim_world_free_frame(cable->world, frame);
        return;
    }
    if (cable->world->now < cable->config.faults_from) {
        frame->due = departure(cable, frame->length) + cable->config.one_way_delay;
        insert(cable, frame);
        return;
    }
    if (sim_world_chance(&cable->rng, cable->config.duplicate_probability)) {
        cable->counts.duplicated++;
        carry(cable, sim_world_copy_frame(cable->world, frame->bytes, frame->length));
    }
    carry(cable, frame);
}

static uro_time cable_next(const struct sim_node *node)
{
    const struct sim_cable *cable = URO_CONTAINER_OF(node, struct sim_cable, node);
    return cable->flying != NULL ? cable->flying->due : URO_TIME_NEVER;
}

static void cable_run(struct sim_node *node)
{
    struct sim_cable *cable = URO_CONTAINER_OF(node, struct sim_cable, node);

    while (cable->flying != NULL && cable->flying->due <= cable->world->now) {
        struct sim_world_frame *frame = cable->flying;
        cable->flying = frame->next;
        if (cable->flying == NULL)
            cable->last = NULL;
        frame->next = NULL;
        cable->to->accept(cable->to, frame);
    }
}

void sim_cable_init(struct sim_cable *cable, struct sim_world *world,
                    const struct sim_cable_config *config, struct sim_node *to)
{
    memset(cable, 0, sizeof *cable);
    cable->node.accept = cable_accept;
    cable->world = world;
    cable->to = to;
    cable->config = *config;
    uro_rng_init_number(&cable->rng, uro_rng_u64(&world->rng));
    sim_world_add(world, &cable->node, cable_next, cable_run);
}

void sim_cable_fini(struct sim_cable *cable)
{
    while (cable->flying != NULL) {
        struct sim_world_frame *frame = cable->flying;
        cable->flying = frame->next;
        sim_world_free_frame(cable->world, frame);
    }
    cable->last = NULL;
}

void sim_cable_calm(struct sim_cable *cable)
{
    struct sim_cable_config calm = { .quirks = cable->config.quirks & ~SIM_QUIRK_LOSSY,
                                     .one_way_delay = cable->config.one_way_delay,
                                     .jitter = cable->config.jitter,
                                     .keep_order = true,
                                     .ps_per_byte = cable->config.ps_per_byte };
    cable->config = calm;
    cable->losing = 0;
}

/* ---- switches -------------------------------------------------------------------------------- */

static void switch_accept(struct sim_node *node, struct sim_world_frame *frame)
{
    struct sim_switch *sw = URO_CONTAINER_OF(node, struct sim_switch, node);
    struct sim_node *last = sw->ports[sw->port_count - 1].to;

    for (uint32_t i = 0; i < sw->port_count; i++) {
        struct sim_switch_port *port = &sw->ports[i];
        if (memcmp(frame->bytes, port->mac.octets, sizeof port->mac.octets) == 0) {
            port->to->accept(port->to, frame);
            return;
        }
    }
    for (uint32_t i = 0; i + 1 < sw->port_count; i++) {
        struct sim_node *to = sw->ports[i].to;
        to->accept(to, sim_world_copy_frame(sw->world, frame->bytes, frame->length));
    }
    last->accept(last, frame);
}

void sim_switch_init(struct sim_switch *sw, struct sim_world *world)
{
    *sw = (struct sim_switch){ .node.accept = switch_accept, .world = world };
}

void sim_switch_add(struct sim_switch *sw, const struct uro_mac *mac, struct sim_node *to)
{
    URO_ASSERT(sw->port_count < SIM_SWITCH_PORTS_MAX);
    sw->ports[sw->port_count++] = (struct sim_switch_port){ *mac, to };
}

/* ---- outages --------------------------------------------------------------------------------- */

static void set_link(struct sim_outages *outages, const struct sim_outage_link *link, bool up)
{
    struct sim_world *world = outages->world;

    outages->down = up ? NULL : link;
    sim_world_note(world, "link %u is %s", (unsigned)(link - outages->links), up ? "up" : "down");
    for (uint32_t i = 0; i < link->cable_count; i++)
        link->cables[i]->down = !up;
    for (uint32_t i = 0; i < link->host_count; i++) {
        (void)!uroce_engine_link(link->hosts[i]->engine, up, world->now);
        sim_host_events(link->hosts[i]);
    }
}

static void outages_run(struct sim_node *node)
{
    struct sim_outages *outages = URO_CONTAINER_OF(node, struct sim_outages, node);
    bool up = outages->down != NULL;
    uint32_t chosen = uro_rng_below(&outages->rng, outages->link_count);

    set_link(outages, up ? outages->down : &outages->links[chosen], up);
    node->due =
        outages->world->now +
        URO_US(1 + uro_rng_below(&outages->rng, up ? outages->wait_max : outages->down_max));
}

void sim_outages_init(struct sim_outages *outages, struct sim_world *world, uint64_t seed,
                      uint32_t wait_max, uint32_t down_max)
{
    memset(outages, 0, sizeof *outages);
    outages->world = world;
    outages->wait_max = wait_max;
    outages->down_max = down_max;
    uro_rng_init_number(&outages->rng, seed);
    outages->node.due = URO_TIME_NEVER;
    sim_world_add(world, &outages->node, NULL, outages_run);
}

struct sim_outage_link *sim_outages_add(struct sim_outages *outages)
{
    URO_ASSERT(outages->link_count < SIM_OUTAGES_LINKS_MAX);
    if (outages->link_count == 0 && outages->wait_max > 0)
        outages->node.due =
            outages->world->now + URO_US(1 + uro_rng_below(&outages->rng, outages->wait_max));
    return &outages->links[outages->link_count++];
}

void sim_outages_calm(struct sim_outages *outages)
{
    outages->node.due = URO_TIME_NEVER;
    if (outages->down != NULL)
        set_link(outages, outages->down, true);
}
