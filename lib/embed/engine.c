/* SPDX-License-Identifier: BSD-3-Clause */
/* engine.c - the functions of uroce/engine.h. */
#include <uroce/engine.h>

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "embed/embed.h"

#define LINE            64u
#define TIMEOUT_MAX     31u
#define CONNECTIONS_MAX 1048576u
#define LATER_MAX       4096u /* largest size of a struct of a later version, bytes */

static_assert(UROCE_ADDRESSES_MAX + 1 == URO_ENGINE_ADDRESSES_MAX,
              "an engine has all addresses of the configuration and a link-local one");
static_assert(UROCE_SEED_SIZE == URO_RNG_SEED_BYTES, "the seeds have the same size");
UROCE_SAME(UROCE_WINDOW_DEFAULT, URO_WINDOW_DEFAULT);
UROCE_SAME(UROCE_EVENT_COMPLETION, URO_EVENT_COMPLETION);
UROCE_SAME(UROCE_EVENT_SQ_DRAINED, URO_EVENT_SQ_DRAINED);
UROCE_SAME(UROCE_EVENT_SRQ_LIMIT, URO_EVENT_SRQ_LIMIT);

/* ---- helpers ------------------------------------------------------------ */

void *uro_embed_memory(size_t size)
{
    const size_t whole = (size + LINE - 1) / LINE * LINE;
    void *memory = aligned_alloc(LINE, whole);

    return memory != NULL ? memset(memory, 0, whole) : NULL;
}

void *uro_embed_core_memory(size_t size)
{
#ifdef URO_EMBED_PATTERN /* defined by tests and the simulator only */
    const size_t whole = (size + LINE - 1) / LINE * LINE;
    void *memory = aligned_alloc(LINE, whole);

    return memory != NULL ? memset(memory, URO_EMBED_PATTERN, whole) : NULL;
#else
    return uro_embed_memory(size);
#endif
}

int uro_embed_take(void *to, size_t known, const void *from, size_t least)
{
    size_t size;

    memcpy(&size, from, sizeof size);
    if (size < least)
        return -EINVAL;
    if (size > LATER_MAX)
        return -E2BIG;
    for (size_t i = known; i < size; i++)
        if (((const uint8_t *)from)[i] != 0)
            return -E2BIG;
    memset(to, 0, known);
    memcpy(to, from, size < known ? size : known);
    return 0;
}

bool uro_embed_time_goes_on(struct uroce_engine *engine, uint64_t now)
{
    if (now < engine->now)
        return false;
    engine->now = now;
    return true;
}

int uroce_gid_parse(const char *text, uint8_t gid[UROCE_GID_SIZE])
{
    struct uro_gid parsed;

    if (text == NULL || gid == NULL || !uro_gid_parse(text, &parsed))
        return -EINVAL;
    memcpy(gid, parsed.octets, UROCE_GID_SIZE);
    return 0;
}

/* ---- life --------------------------------------------------------------- */

static struct uro_gid gid_of(const uint8_t octets[UROCE_GID_SIZE])
{
    struct uro_gid gid;

    memcpy(gid.octets, octets, sizeof gid.octets);
    return gid;
}

/* Converts the public configuration. Checks only the values that uro_engine_init() does not
 * check. */
static int translate(const struct uroce_engine_config *from, const struct uro_embed_sizes *sizes,
                     struct uro_engine_config *to)
{
    if ((from->mac[0] & 1) != 0 || from->address_count > UROCE_ADDRESSES_MAX ||
        from->vlan > URO_VLAN_MAX || from->window > URO_WINDOW_MAX ||
        from->reorder_buffer > URO_REORDER_MAX || from->qpn_prefix > URO_QPN_PREFIXES - 2 ||
        from->timeout_min > TIMEOUT_MAX || from->connections > CONNECTIONS_MAX)
        return -EINVAL;
    *to = (struct uro_engine_config){ .mtu = from->mtu,
                                      .address_count = from->address_count + 1,
                                      .gateway4 = gid_of(from->gateway4),
                                      .gateway6 = gid_of(from->gateway6),
                                      .window = from->window,
                                      .vlan = from->vlan,
                                      .reorder_buffer = from->reorder_buffer,
                                      .source_port = from->source_port,
                                      .qpn_prefix = from->qpn_prefix,
                                      .timeout_least = from->timeout_min,
                                      .link_routes = from->link_routes != 0,
                                      .retry_7_forever = from->retry_7_forever != 0,
                                      .connections = from->connections,
                                      .hops = sizes->hops,
                                      .table_bits = sizes->table_bits };
    memcpy(to->mac.octets, from->mac, sizeof to->mac.octets);
    memcpy(to->seed, from->seed, sizeof to->seed);
    to->addresses[0] = (struct uro_engine_address){ uro_gid_link_local(&to->mac), 64 };
    for (uint32_t i = 0; i < from->address_count; i++) {
        const struct uro_gid gid = gid_of(from->addresses[i].gid);
        if (from->addresses[i].prefix > (uro_gid_is_ipv4(&gid) ? 32 : 128) ||
            uro_gid_is_zero(&gid) || uro_gid_is_multicast(&gid))
            return -EINVAL;
        to->addresses[i + 1] = (struct uro_engine_address){ gid, from->addresses[i].prefix };
    }
    return 0;
}

#ifdef URO_MARKS /* defined by tests only; fuzzers create an engine for each input */
/* The memory of the last engine that was destroyed. The next engine of this size uses it, not
 * cleared, so that tests notice when core uses memory that it did not initialise. */
static void *kept;
static size_t kept_size;

static void *map(size_t size)
{
    void *memory = kept;

    if (memory == NULL || kept_size != size)
        return uro_embed_core_memory(size);
    kept = NULL;
    return memory;
}

static void unmap(void *memory, size_t size)
{
    free(kept);
    kept = memory;
    kept_size = size;
}
#elif defined URO_EMBED_PATTERN
static void *map(size_t size)
{
    return uro_embed_core_memory(size);
}

static void unmap(void *memory, size_t size)
{
    (void)size;
    free(memory);
}
#else
/* Maps all memory of an engine. The kernel allocates each page at its first use. */
static void *map(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return memory != MAP_FAILED ? memory : NULL;
}

static void unmap(void *memory, size_t size)
{
    (void)munmap(memory, size);
}
#endif

static void free_engine(struct uroce_engine *engine)
{
    free(engine->spare_conn);
    if (engine->memory != NULL)
        unmap(engine->memory, engine->memory_size);
    free(engine);
}

static int build(const struct uro_engine_config *config, uint64_t now, struct uroce_engine **out)
{
    struct uroce_engine *engine = uro_embed_memory(sizeof *engine);

    if (engine == NULL)
        return -ENOMEM;
    engine->memory_size = uro_engine_size(config);
    engine->memory = map(engine->memory_size);
    engine->now = now;
    engine->mtu = config->mtu;
    int error = -ENOMEM;
    if (engine->memory != NULL)
        error = uro_engine_init(engine->memory, config, now, &engine->engine);
    if (error != 0) {
        free_engine(engine);
        return error;
    }
    *out = engine;
    return 0;
}

int uro_embed_create(const struct uroce_engine_config *from, const struct uro_embed_sizes *sizes,
                     uint64_t now, struct uroce_engine **engine)
{
    struct uroce_engine_config config;
    struct uro_engine_config wanted;

    if (from == NULL || engine == NULL)
        return -EINVAL;
    int error = uro_embed_take(&config, sizeof config, from, sizeof config);
    if (error == 0)
        error = translate(&config, sizes, &wanted);
    return error != 0 ? error : build(&wanted, now, engine);
}

int uroce_engine_create(const struct uroce_engine_config *from, uint64_t now,
                        struct uroce_engine **engine)
{
    return uro_embed_create(from, &(struct uro_embed_sizes){ 0 }, now, engine);
}

int uroce_engine_destroy(struct uroce_engine *engine)
{
    if (engine == NULL)
        return -EINVAL;
    if (engine->users > 0)
        return -EBUSY;
    free_engine(engine);
    return 0;
}

/* ---- frames ------------------------------------------------------------- */

/* A burst of received frames, and copies of the frames that are in shared memory. */
struct burst {
    struct uro_pkt pkts[URO_PORT_BURST];
    uint8_t heads[URO_PORT_BURST][URO_FRAME_HEAD];
    uint32_t count;
    bool copied; /* engine->copy is in use */
};

/* Adds a frame that is in shared memory. Only the payload of a packet for a queue pair stays there.
 * The rest is copied, so that another process cannot change it. Returns false if the frame needs
 * engine->copy and another frame uses it. */
static bool add_shared(struct uroce_engine *engine, struct burst *burst,
                       const struct uroce_packet *packet)
{
    struct uro_pkt *pkt = &burst->pkts[burst->count];
    uint8_t *head = burst->heads[burst->count];

    *pkt = (struct uro_pkt){ .octets = head, .length = packet->length };
    if (packet->length < URO_FRAME_HEAD) {
        memcpy(head, packet->bytes, packet->length);
        return true;
    }
    memcpy(head, packet->bytes, URO_FRAME_HEAD);
    if (uro_frame_is_data(head, packet->length)) {
        pkt->indirect = packet->bytes;
        return true;
    }
    if (burst->copied)
        return false;
    burst->copied = true;
    if (pkt->length > sizeof engine->copy) /* too long to be valid */
        pkt->length = sizeof engine->copy;
    memcpy(engine->copy, packet->bytes, pkt->length);
    pkt->octets = engine->copy;
    return true;
}

/* Adds a frame to the burst. Returns false when the burst must be processed first. */
static bool add(struct uroce_engine *engine, struct burst *burst, const struct uroce_packet *packet)
{
    if (burst->count == URO_PORT_BURST)
        return false;
    if (packet->shared == 0)
        burst->pkts[burst->count] =
            (struct uro_pkt){ .octets = packet->bytes, .length = packet->length };
    else if (!add_shared(engine, burst, packet))
        return false;
    burst->count++;
    return true;
}

int uroce_engine_input(struct uroce_engine *engine, const struct uroce_packet *packets,
                       uint32_t count, uint64_t now)
{
    struct burst burst;

    if (engine == NULL || (packets == NULL && count > 0))
        return -EINVAL;
    for (uint32_t i = 0; i < count; i++)
        if (packets[i].bytes == NULL)
            return -EINVAL;
    if (!uro_embed_time_goes_on(engine, now))
        return -EINVAL;
    for (uint32_t done = 0; done < count;) {
        burst.count = 0;
        burst.copied = false;
        while (done < count && add(engine, &burst, &packets[done]))
            done++;
        uro_engine_input(engine->engine, burst.pkts, burst.count, now);
    }
    return 0;
}

uint32_t uroce_engine_frame_max(const struct uroce_engine *engine)
{
    return engine != NULL ? engine->mtu + UROCE_FRAME_OVERHEAD : 0;
}

static bool buffers_fit(const struct uroce_engine *engine, const struct uroce_buffer *buffers,
                        uint32_t max)
{
    for (uint32_t i = 0; i < max; i++)
        if (buffers[i].bytes == NULL || buffers[i].size < uroce_engine_frame_max(engine))
            return false;
    return max <= INT_MAX;
}

int uroce_engine_output(struct uroce_engine *engine, struct uroce_buffer *buffers, uint32_t max,
                        uint64_t now)
{
    uint32_t done = 0, burst, written;

    if (engine == NULL || buffers == NULL || !buffers_fit(engine, buffers, max) ||
        !uro_embed_time_goes_on(engine, now))
        return -EINVAL;
    do {
        burst = max - done < URO_PORT_BURST ? max - done : URO_PORT_BURST;
        written = uro_engine_output(engine->engine, engine->tx, burst, now);
        for (uint32_t i = 0; i < written; i++, done++) {
            buffers[done].length = uro_tx_length(&engine->tx[i]);
            uro_tx_write(&engine->tx[i], buffers[done].bytes);
        }
    } while (done < max && written == burst);
    return (int)done;
}

uint64_t uroce_engine_next(const struct uroce_engine *engine)
{
    return engine != NULL ? uro_engine_next(engine->engine) : UROCE_TIME_NEVER;
}

int uroce_engine_rung(const struct uroce_engine *engine)
{
    return engine != NULL && uro_engine_rung(engine->engine);
}

int uroce_engine_event(struct uroce_engine *engine, struct uroce_event *event)
{
    struct uro_event next;

    if (engine == NULL || event == NULL)
        return -EINVAL;
    if (!uro_engine_event(engine->engine, &next))
        return 0;
    event->kind = (enum uroce_event_kind)next.kind;
    event->user = next.user;
    return 1;
}

int uroce_engine_deliver(struct uroce_engine *engine)
{
    if (engine == NULL)
        return -EINVAL;
    uro_engine_deliver(engine->engine);
    return 0;
}

int uroce_engine_looped(const struct uroce_engine *engine, struct uroce_packet *packets,
                        uint32_t max)
{
    uint32_t count;

    if (engine == NULL || packets == NULL)
        return -EINVAL;
    const struct uro_pkt *pkts = uro_engine_looped(engine->engine, &count);
    count = count < max ? count : max;
    for (uint32_t i = 0; i < count; i++)
        packets[i] = (struct uroce_packet){ .bytes = pkts[i].octets, .length = pkts[i].length };
    return (int)count;
}

int uroce_engine_set_mtu(struct uroce_engine *engine, uint32_t mtu)
{
    if (engine == NULL || mtu < URO_PORT_MTU_MIN || mtu > engine->mtu)
        return -EINVAL;
    uro_engine_set_mtu(engine->engine, mtu);
    return 0;
}

int uroce_engine_link(struct uroce_engine *engine, int up, uint64_t now)
{
    if (engine == NULL || !uro_embed_time_goes_on(engine, now))
        return -EINVAL;
    uro_engine_link(engine->engine, up != 0, now);
    return 0;
}

int uroce_engine_counter(const struct uroce_engine *engine, const char *counter, uint64_t *value)
{
    if (engine == NULL || counter == NULL || value == NULL)
        return -EINVAL;
    for (unsigned i = 0; i < URO_COUNTER_COUNT; i++)
        if (strcmp(counter, uro_counter_name((enum uro_counter)i)) == 0) {
            *value = uro_engine_counters(engine->engine)->value[i];
            return 0;
        }
    return -ENOENT;
}

uint64_t uroce_engine_counter_at(const struct uroce_engine *engine, unsigned index)
{
    return engine != NULL && index < URO_COUNTER_COUNT
               ? uro_engine_counters(engine->engine)->value[index]
               : 0;
}
