/* SPDX-License-Identifier: BSD-3-Clause */
/* engine.c - core, connections, neighbours and group membership behind a few functions. */
#include "engine/engine.h"

#include <errno.h>
#include <string.h>

#include "base/mark.h"
#include "core/limits.h"
#include "core/prefetch.h"
#include "core/req.h"
#include "core/shard.h"
#include "engine/demux.h"
#include "engine/loopback.h"
#include "engine/port.h"
#include "engine/resolve.h"

#define TABLE_BITS_DEFAULT 14u
#define CONNECTIONS        4096u
#define BUCKET_AHEAD       8u /* the bucket of the QPN table is prefetched this many frames ahead */
#define QP_AHEAD           4u /* the queue pair is prefetched this many frames ahead */
#define GUESSES            8u /* more than BUCKET_AHEAD - QP_AHEAD */

struct uro_engine {
    struct uro_shard shard;
    struct uro_engine_config config;
    struct uro_neigh neigh;
    struct uro_resolver resolver;
    struct uro_loop loop;
    struct uro_member member;
    struct uro_gsi gsi;
    struct uro_cm *cm;
    struct uro_demux demux;
};

static_assert(URO_LOOP_FRAMES >= URO_PORT_BURST, "the loop takes as many frames as a port");
static_assert(URO_ENGINE_ADDRESSES_MAX == URO_SHARD_GIDS_MAX,
              "both constants are the size of the same table");

static size_t align(size_t size)
{
    return (size + 63) & ~(size_t)63;
}

static uint8_t table_bits(const struct uro_engine_config *config)
{
    return config->table_bits != 0 ? config->table_bits : TABLE_BITS_DEFAULT;
}

/* Returns a random CA GUID. A REQ with a GUID and QPN that are in use ends the connection of that
 * queue pair, so an attacker must not know the GUID. It is not made from the MAC address, which
 * is public. */
static uint64_t draw_guid(const uint8_t seed[static URO_RNG_SEED_BYTES])
{
    uint8_t other[URO_RNG_SEED_BYTES];
    struct uro_rng rng;

    URO_MARK("CM.GUID");
    memcpy(other, seed, sizeof other);
    other[0] ^= 2; /* a seed that differs from the seed of the connection manager */
    uro_rng_init(&rng, other);
    return uro_rng_u64(&rng);
}

static struct uro_cm_config cm_config(const struct uro_engine_config *config)
{
    struct uro_cm_config cm = { .connections = config->connections,
                                .services = config->services,
                                .qpn_prefix = config->qpn_prefix };

    if (cm.connections == 0)
        cm.connections = CONNECTIONS;
    memcpy(cm.seed, config->seed, sizeof cm.seed);
    cm.seed[0] ^= 1; /* a seed that differs from the seed of the transport */
    cm.guid = draw_guid(cm.seed);
    return cm;
}

/* The offsets of the parts of an engine's memory. */
struct layout {
    size_t tables;
    size_t loop;
    size_t cm;
    size_t reorder_buffer;
    size_t hops;
    size_t record;
    size_t size;
};

static struct layout lay_out(const struct uro_engine_config *config)
{
    const struct uro_shard_config shard = { .table_bits = table_bits(config) };
    const struct uro_cm_config cm = cm_config(config);
    struct layout layout = { .tables = align(sizeof(struct uro_engine)) };

    layout.loop = layout.tables + align(uro_shard_table_size(&shard));
    layout.cm = layout.loop + align(uro_loop_size(config->mtu));
    layout.reorder_buffer = layout.cm + align(uro_cm_size(&cm));
    layout.hops = layout.reorder_buffer + align(uro_reorder_size(config->reorder_buffer));
    layout.record = layout.hops + align(uro_neigh_size(config));
    layout.size = layout.record + (config->record == NULL ? align(sizeof(struct uro_record)) : 0);
    return layout;
}

size_t uro_engine_size(const struct uro_engine_config *config)
{
    return lay_out(config).size;
}

static bool valid(const struct uro_engine_config *config)
{
    return config->mtu >= URO_PORT_MTU_MIN && config->mtu <= URO_PORT_MTU_MAX &&
           config->address_count >= 1 && config->address_count <= URO_ENGINE_ADDRESSES_MAX &&
           config->window <= URO_WINDOW_MAX && config->reorder_buffer <= URO_REORDER_MAX &&
           config->hops <= URO_NEIGH_HOPS_MAX && config->groups <= URO_MCAST_GROUPS_MAX &&
           config->qpn_prefix < URO_QPN_PREFIXES - 1 && config->vlan <= URO_VLAN_MAX &&
           table_bits(config) >= 4 && table_bits(config) <= 20;
}

static void start_cm(struct uro_engine *e, void *memory, uro_time now)
{
    struct uro_cm_config cm = cm_config(&e->config);

    cm.path_mtu = uro_conn_mtu_code(uro_shard_path_mtu(&e->shard));
    e->cm = uro_cm_init(memory, &cm, e->shard.counters, now);
    uro_gsi_init(&e->gsi, &e->shard, &e->neigh, e->cm);
    e->demux = (struct uro_demux){ &e->shard, &e->neigh, &e->member, &e->gsi };
}

int uro_engine_init(void *memory, const struct uro_engine_config *config, uro_time now,
                    struct uro_engine **engine)
{
    struct uro_engine *e = memory;

    if (!valid(config))
        return -EINVAL;
    struct uro_shard_config shard = { .mac = config->mac,
                                      .mtu = config->mtu,
                                      .window = config->window,
                                      .vlan = config->vlan,
                                      .retry_7_forever = config->retry_7_forever,
                                      .timeout_least = config->timeout_least,
                                      .source_port = config->source_port,
                                      .qpn_prefix = config->qpn_prefix,
                                      .one_qpn_prefix = config->one_qpn_prefix,
                                      .keys = config->keys,
                                      .table_bits = table_bits(config),
                                      .gid_count = config->address_count };
    if (shard.window == 0)
        shard.window = URO_WINDOW_DEFAULT;
    memcpy(shard.seed, config->seed, sizeof shard.seed);
    for (uint32_t i = 0; i < config->address_count; i++)
        shard.gids[i] = config->addresses[i].gid;

    e->config = *config;
    const struct layout layout = lay_out(config);
    uint8_t *octets = memory;
    struct uro_record *record =
        config->record != NULL ? config->record : (void *)(octets + layout.record);
    uro_shard_init(&e->shard, &shard, octets + layout.tables, record, now);
    uro_reorder_init(&e->shard.reorder, config->reorder_buffer, octets + layout.reorder_buffer);
    uro_neigh_init(&e->neigh, &e->config, e->shard.counters, octets + layout.hops);
    uro_resolver_init(&e->resolver, &e->neigh);
    uro_loop_init(&e->loop, config->mtu, octets + layout.loop);
    uro_member_init(&e->member, &e->config, e->shard.counters, &e->shard.rng);
    start_cm(e, octets + layout.cm, now);
    *engine = e;
    return 0;
}

/* Handles packets for several queue pairs. Prefetches the memory of each queue pair before its
 * packet is handled. */
static void input_many(struct uro_engine *engine, const struct uro_pkt *pkts, uint32_t count,
                       uro_time now)
{
    static const uint32_t ahead[] = {
        [URO_DEMUX_BUCKET] = BUCKET_AHEAD, [URO_DEMUX_QP] = QP_AHEAD
    };
    struct uro_demux_guess guesses[GUESSES]; /* guess of packet i, at index i % GUESSES */

    for (uint32_t i = 0; i < count + BUCKET_AHEAD; i++) {
        if (i < count)
            guesses[i % GUESSES] = uro_demux_guess(&pkts[i]);
        for (enum uro_demux_step step = URO_DEMUX_BUCKET; step <= URO_DEMUX_QP; step++) {
            uint32_t index = i - (BUCKET_AHEAD - ahead[step]);
            if (i >= BUCKET_AHEAD - ahead[step] && index < count)
                uro_demux_prefetch(&engine->demux, guesses[index % GUESSES], step);
        }
        if (i >= BUCKET_AHEAD)
            uro_demux(&engine->demux, &pkts[i - BUCKET_AHEAD], now);
    }
}

/* Returns whether the packets are likely for several queue pairs that are not in the cache. */
static bool prefetch_helps(const struct uro_engine *engine, const struct uro_pkt *pkts,
                           uint32_t count)
{
    return uro_prefetch_useful(&engine->shard) && count > 1 &&
           uro_demux_guess(&pkts[0]).number != uro_demux_guess(&pkts[count - 1]).number;
}

#define LINE 64u

/* Prefetches payload that another processor wrote, while the frame before is handled. */
static void prefetch_payload(const struct uro_pkt *pkt)
{
    for (uint32_t offset = LINE; offset < pkt->length; offset += LINE)
        __builtin_prefetch(pkt->indirect + offset, 0, 2);
}

void uro_engine_input(struct uro_engine *engine, const struct uro_pkt *pkts, uint32_t count,
                      uro_time now)
{
    engine->shard.now = now;
    engine->shard.counters->value[URO_COUNT_RX_FRAMES] += count;
    uro_req_settle(&engine->shard);
    if (prefetch_helps(engine, pkts, count)) {
        input_many(engine, pkts, count, now);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (i + 1 < count && pkts[i + 1].indirect != NULL)
            prefetch_payload(&pkts[i + 1]);
        uro_demux(&engine->demux, &pkts[i], now);
    }
}

/* Delivers the frames that the last output described for our own addresses. All frames of that
 * output are written by now. */
static void deliver(struct uro_engine *engine, uro_time now)
{
    struct uro_loop *loop = &engine->loop;

    for (uint32_t i = 0; i < loop->count; i++)
        uro_demux(&engine->demux, &loop->frames[i], now);
    engine->shard.counters->value[URO_COUNT_LOOP_FRAMES] += loop->count;
    loop->count = 0;
}

/* Describes at most @max frames of connections and queue pairs. Returns the number that leaves by
 * the port. */
static uint32_t output_packets(struct uro_engine *engine, struct uro_tx *tx, uint32_t max)
{
    uint32_t most = max < URO_LOOP_FRAMES ? max : URO_LOOP_FRAMES;
    uint32_t count = uro_gsi_output(&engine->gsi, tx, most, engine->shard.now);

    count += uro_schedule_output(&engine->shard, tx + count, most - count);
    return uro_loop_take(&engine->loop, tx, count);
}

uint32_t uro_engine_output(struct uro_engine *engine, struct uro_tx *tx, uint32_t max, uro_time now)
{
    engine->shard.now = now;
    deliver(engine, now);
    if (uro_neigh_run(&engine->neigh, now))
        uro_schedule_all(&engine->shard);
    uro_resolver_run(&engine->resolver, now);
    uro_member_run(&engine->member, now);

    uint32_t count = uro_neigh_output(&engine->neigh, tx, max);
    count += uro_member_output(&engine->member, tx + count, max - count);
    count += output_packets(engine, tx + count, max - count);
    engine->shard.counters->value[URO_COUNT_TX_FRAMES] += count;
    return count;
}

const struct uro_pkt *uro_engine_looped(const struct uro_engine *engine, uint32_t *count)
{
    *count = engine->loop.count;
    return engine->loop.frames;
}

void uro_engine_deliver(struct uro_engine *engine)
{
    uro_shard_deliver(&engine->shard);
}

bool uro_engine_acknowledges(const struct uro_engine *engine)
{
    return !uro_list_empty(&engine->shard.acks);
}

bool uro_engine_event(struct uro_engine *engine, struct uro_event *event)
{
    uro_req_settle(&engine->shard);
    return uro_shard_event(&engine->shard, event);
}

static uro_time earliest(uro_time a, uro_time b)
{
    return a < b ? a : b;
}

uro_time uro_engine_next(const struct uro_engine *engine)
{
    if (engine->loop.count > 0)
        return engine->shard.now;
    uro_time transport = uro_schedule_next(&engine->shard);
    uro_time neighbours = uro_neigh_next(&engine->neigh, engine->shard.now);
    uro_time groups = uro_member_next(&engine->member, engine->shard.now);
    uro_time connections = uro_gsi_next(&engine->gsi);
    uro_time resolving = uro_resolver_next(&engine->resolver, engine->shard.now);

    return earliest(earliest(transport, neighbours),
                    earliest(earliest(groups, connections), resolving));
}

struct uro_cm *uro_engine_cm(struct uro_engine *engine)
{
    return engine->cm;
}

bool uro_engine_end_connections(struct uro_engine *engine, uro_time now)
{
    return uro_cm_end_all(engine->cm, now) && uro_gsi_idle(&engine->gsi) && engine->loop.count == 0;
}

bool uro_engine_rung(const struct uro_engine *engine)
{
    return !uro_doorbell_list_empty(&engine->shard.doorbells);
}

struct uro_shard *uro_engine_shard(struct uro_engine *engine)
{
    return &engine->shard;
}

void uro_engine_observe(struct uro_engine *engine, const struct uro_observer *observer)
{
    engine->shard.observer = observer;
}

void uro_engine_hide_receives(struct uro_engine *engine, uint32_t first, uint32_t every)
{
    engine->shard.no_receive =
        (struct uro_no_receive){ .first = first, .every = every, .due = first == 1 };
}

static struct uro_hop *hop_of(const struct uro_qp *qp)
{
    struct uro_qp_attr attr;

    uro_qp_query(qp, &attr);
    return attr.address.hop;
}

int uro_engine_qp_modify(struct uro_engine *engine, struct uro_qp *qp,
                         const struct uro_qp_attr *attr, unsigned mask, uro_time now)
{
    struct uro_qp_attr wanted = *attr;
    struct uro_hop *before = hop_of(qp);

    wanted.address.hop = NULL;
    if (mask & URO_ATTR_AV) {
        int error = uro_neigh_get(&engine->neigh, attr->address.sgid_index, &attr->address.dest,
                                  now, &wanted.address.hop);
        if (error != 0)
            return error;
    }
    int error = uro_qp_modify(&engine->shard, qp, &wanted, mask, now);
    if (error != 0) {
        if (wanted.address.hop != NULL)
            uro_neigh_put(&engine->neigh, wanted.address.hop);
        return error;
    }
    if (before != NULL && ((mask & URO_ATTR_AV) || hop_of(qp) == NULL))
        uro_neigh_put(&engine->neigh, before);
    return 0;
}

void uro_engine_qp_destroy(struct uro_engine *engine, struct uro_qp *qp)
{
    struct uro_hop *hop = hop_of(qp);

    uro_qp_destroy(&engine->shard, qp);
    if (hop != NULL)
        uro_neigh_put(&engine->neigh, hop);
}

bool uro_engine_hops_refused(const struct uro_engine *engine)
{
    return engine->neigh.refused;
}

int uro_engine_ah_create(struct uro_engine *engine, struct uro_ah *ah, uint32_t pd,
                         const struct uro_address *address, uro_time now)
{
    struct uro_address wanted = *address;
    int error =
        uro_neigh_get(&engine->neigh, address->sgid_index, &address->dest, now, &wanted.hop);

    if (error == 0)
        uro_ah_create(&engine->shard, ah, pd, &wanted);
    return error;
}

void uro_engine_ah_destroy(struct uro_engine *engine, struct uro_ah *ah)
{
    uro_ah_destroy(&engine->shard, ah);
    uro_neigh_put(&engine->neigh, ah->path.hop);
}

int uro_engine_resolve_begin(struct uro_engine *engine, struct uro_resolve *resolve,
                             uint8_t sgid_index, const struct uro_gid *dest, uro_time deadline,
                             uro_time now)
{
    return uro_resolver_begin(&engine->resolver, resolve, sgid_index, dest, deadline, now);
}

void uro_engine_resolve_end(struct uro_engine *engine, struct uro_resolve *resolve)
{
    uro_resolver_end(&engine->resolver, resolve);
}

struct uro_resolve *uro_engine_resolved(struct uro_engine *engine)
{
    return uro_resolver_fetch(&engine->resolver);
}

int uro_engine_join(struct uro_engine *engine, const struct uro_gid *group, uro_time now)
{
    return uro_member_join(&engine->member, group, now);
}

void uro_engine_leave(struct uro_engine *engine, const struct uro_gid *group, uro_time now)
{
    uro_member_leave(&engine->member, group, now);
}

uint32_t uro_engine_multicast_version(const struct uro_engine *engine)
{
    return engine->member.version;
}

uint32_t uro_engine_multicast_macs(const struct uro_engine *engine, struct uro_mac *macs,
                                   uint32_t max)
{
    return uro_member_macs(&engine->member, macs, max);
}

uint32_t uro_engine_groups(const struct uro_engine *engine, struct uro_gid *groups, uint32_t max)
{
    return uro_member_groups(&engine->member, groups, max);
}

void uro_engine_lost(struct uro_engine *engine, uint32_t count)
{
    engine->shard.counters->value[URO_COUNT_TX_STUCK] += count;
}

const struct uro_counters *uro_engine_counters(const struct uro_engine *engine)
{
    return engine->shard.counters;
}

void uro_engine_set_mtu(struct uro_engine *engine, uint32_t mtu)
{
    struct uro_shard *shard = &engine->shard;
    uint32_t most = shard->config.mtu;

    if (mtu > most)
        mtu = most;
    if (mtu == uro_shard_mtu(shard))
        return;
    URO_MARK("PORT.MTU");
    atomic_store_explicit(&shard->mtu, mtu, memory_order_relaxed);
    uro_cm_set_path_mtu(engine->cm, uro_conn_mtu_code(uro_shard_path_mtu(shard)));
}

void uro_engine_link(struct uro_engine *engine, bool up, uro_time now)
{
    if (!up) {
        URO_MARK("PORT.QP");
        return;
    }
    uro_neigh_forget(&engine->neigh, now);
    uro_member_report_all(&engine->member, now);
}

uint32_t uro_engine_services(const struct uro_engine *engine, struct uro_listened *services,
                             uint32_t max)
{
    const struct uro_list *list = &engine->cm->listeners;
    uint32_t count = 0;

    for (const struct uro_link *link = list->head.next; link != &list->head && count < max;
         link = link->next) {
        const struct uro_listener *listener =
            URO_CONTAINER_OF(link, const struct uro_listener, link);
        services[count] = (struct uro_listened){ .id = listener->service_id };
        if (!listener->any_address)
            services[count].address = listener->address;
        count++;
    }
    return count;
}

uint32_t uro_engine_service_count(const struct uro_engine *engine)
{
    return engine->cm->listener_count;
}

uint32_t uro_engine_services_version(const struct uro_engine *engine)
{
    return engine->cm->listeners_version;
}
