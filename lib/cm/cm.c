/* SPDX-License-Identifier: BSD-3-Clause */
/* cm.c - the pool of connections, the messages to send, and the timers. */
#include "cm/cm.h"

#include <string.h>

#include "base/mark.h"
#include "cm/conn_inside.h"
#include "core/shard.h"

#define LINE    64u
#define LONGEST 24u /* 4.096 us * 2^24 is about a minute; limits the timeouts of a peer */
/* An odd number near 2^64 divided by the golden ratio. */
#define MIX         UINT64_C(0x9e3779b97f4a7c15)
#define MOST_EVENTS (1u << URO_CONN_REQUEST | 1u << URO_CONN_RESPONSE | 1u << URO_CONN_REJECTED)
/* Events with a status. Each such event ends the connection, so no later event replaces the status.
 */
#define STATUS_EVENTS                                                                              \
    (1u << URO_CONN_REJECTED | 1u << URO_CONN_UNREACHABLE | 1u << URO_CONN_DISCONNECTED)

static size_t align(size_t size)
{
    return (size + LINE - 1) & ~(size_t)(LINE - 1);
}

static size_t hash_size(const struct uro_cm_config *config)
{
    return align(uro_hash_size(config->connections));
}

size_t uro_cm_size(const struct uro_cm_config *config)
{
    return align(sizeof(struct uro_cm)) + 3 * hash_size(config) +
           config->connections * sizeof(struct uro_conn);
}

/* Initialises a table. Returns the end of its memory. */
static uint8_t *start_hash(struct uro_cm *cm, struct uro_hash *hash, uint8_t *memory)
{
    uro_hash_init(hash, memory, cm->config.connections);
    return memory + hash_size(&cm->config);
}

struct uro_cm *uro_cm_init(void *memory, const struct uro_cm_config *config,
                           struct uro_counters *counters, uro_time now)
{
    struct uro_cm *cm = memory;
    uint8_t *octets = memory;

    memset(cm, 0, sizeof *cm);
    cm->config = *config;
    cm->counters = counters;
    cm->now = now;
    uro_rng_init(&cm->rng, config->seed);
    uro_wheel_init(&cm->wheel, now);
    octets += align(sizeof *cm);
    octets = start_hash(cm, &cm->by_id, octets);
    octets = start_hash(cm, &cm->by_peer, octets);
    octets = start_hash(cm, &cm->by_peer_qpn, octets);
    cm->pool = (struct uro_conn *)(void *)octets;
    cm->hash_key = uro_rng_u64(&cm->rng);
    uro_list_init(&cm->unused);
    uro_list_init(&cm->leaving);
    uro_list_init(&cm->over);
    uro_list_init(&cm->listeners);
    uro_list_init(&cm->to_send);
    uro_list_init(&cm->events);
    return cm;
}

void uro_cm_set_path_mtu(struct uro_cm *cm, uint8_t code)
{
    cm->config.path_mtu = code;
}

/* ---- the pool ------------------------------------------------------------------------------ */

/* Removes the connection from all lists, tables and timers. */
static void forget(struct uro_conn *conn)
{
    uro_listen_done(conn);
    uro_conn_stop_retransmit(conn);
    uro_conn_unset_peer(conn);
    uro_list_remove(&conn->link);
    URO_ASSERT(!uro_link_used(&conn->event_link));
    uro_hash_remove(&conn->cm->by_id, &conn->node);
}

/* Takes the oldest connection that the application has closed: first from `over`, where no message
 * is pending, then from `leaving`. Returns NULL when there is none. */
static struct uro_conn *reuse(struct uro_cm *cm)
{
    struct uro_list *list = uro_list_empty(&cm->over) ? &cm->leaving : &cm->over;

    if (uro_list_empty(list))
        return NULL;
    struct uro_conn *conn = URO_CONTAINER_OF(list->head.next, struct uro_conn, link);
    URO_MARK("CM.REUSE");
    uro_count(cm->counters, URO_COUNT_CM_REUSED);
    forget(conn);
    return conn;
}

static struct uro_conn *take(struct uro_cm *cm)
{
    struct uro_link *link = uro_list_pop(&cm->unused);

    if (link != NULL)
        return URO_CONTAINER_OF(link, struct uro_conn, link);
    return cm->pool_used < cm->config.connections ? &cm->pool[cm->pool_used++] : reuse(cm);
}

static uint32_t draw_id(struct uro_cm *cm)
{
    uint32_t id = uro_rng_u32(&cm->rng);
    uint32_t own_bits = 32 - URO_QPN_PREFIX_BITS;

    if (cm->config.qpn_prefix == 0)
        return id;
    return (id & ((1u << own_bits) - 1)) | (uint32_t)cm->config.qpn_prefix << own_bits;
}

struct uro_conn *uro_conn_new(struct uro_cm *cm, const struct uro_cm_route *route)
{
    struct uro_conn *conn = take(cm);

    if (conn == NULL) {
        cm->full = true;
        return NULL;
    }
    memset(conn, 0, sizeof *conn);
    conn->cm = cm;
    conn->route = *route;
    do
        conn->node.number = draw_id(cm);
    while (conn->node.number == 0 || uro_hash_find(&cm->by_id, conn->node.number) != NULL);
    conn->local_psn = uro_rng_u32(&cm->rng) & 0xffffff;
    uro_hash_insert(&cm->by_id, &conn->node);
    return conn;
}

void uro_conn_free(struct uro_conn *conn)
{
    struct uro_cm *cm = conn->cm;

    forget(conn);
    uro_list_append(&cm->unused, &conn->link);
}

void uro_conn_linger(struct uro_conn *conn)
{
    struct uro_cm *cm = conn->cm;

    if (conn->owned)
        return;
    uro_list_remove(&conn->link);
    uro_list_append(conn->state == URO_CONN_DREQ_SENT ? &cm->leaving : &cm->over, &conn->link);
}

static uint32_t hash_of(const struct uro_cm *cm, uint64_t guid, uint32_t number)
{
    uint64_t mixed = (guid ^ cm->hash_key) * MIX;

    mixed = (mixed ^ mixed >> 32 ^ number) * MIX;
    return (uint32_t)(mixed >> 32);
}

void uro_conn_set_peer(struct uro_conn *conn, uint64_t guid, uint32_t id, uint32_t qpn)
{
    struct uro_cm *cm = conn->cm;

    conn->peer_guid = guid;
    conn->peer_id = id;
    conn->peer_qpn = qpn;
    uro_conn_unset_peer(conn);
    conn->peer_node.number = hash_of(cm, guid, id);
    conn->qpn_node.number = hash_of(cm, guid, qpn);
    uro_hash_insert(&cm->by_peer, &conn->peer_node);
    uro_hash_insert(&cm->by_peer_qpn, &conn->qpn_node);
}

void uro_conn_unset_peer(struct uro_conn *conn)
{
    uro_hash_remove(&conn->cm->by_peer, &conn->peer_node);
    uro_hash_remove(&conn->cm->by_peer_qpn, &conn->qpn_node);
}

struct uro_conn *uro_conn_by_id(const struct uro_cm *cm, uint32_t id)
{
    struct uro_hash_node *node = uro_hash_find(&cm->by_id, id);

    return node == NULL ? NULL : URO_CONTAINER_OF(node, struct uro_conn, node);
}

struct uro_conn *uro_conn_by_peer(struct uro_cm *cm, uint64_t guid, uint32_t peer_id)
{
    struct uro_hash_node *node = uro_hash_find(&cm->by_peer, hash_of(cm, guid, peer_id));

    for (; node != NULL; node = uro_hash_next(node)) {
        struct uro_conn *conn = URO_CONTAINER_OF(node, struct uro_conn, peer_node);
        if (conn->peer_guid == guid && conn->peer_id == peer_id && !conn->active) {
            URO_MARK("CM.PEER");
            return conn;
        }
    }
    return NULL;
}

struct uro_conn *uro_conn_by_peer_qpn(struct uro_cm *cm, uint64_t guid, uint32_t qpn)
{
    struct uro_hash_node *node = uro_hash_find(&cm->by_peer_qpn, hash_of(cm, guid, qpn));

    for (; node != NULL; node = uro_hash_next(node)) {
        struct uro_conn *conn = URO_CONTAINER_OF(node, struct uro_conn, qpn_node);
        if (conn->peer_guid == guid && conn->peer_qpn == qpn && conn->state != URO_CONN_TIMEWAIT &&
            conn->state != URO_CONN_IDLE)
            return conn;
    }
    return NULL;
}

/* ---- messages ------------------------------------------------------------------------------ */

static void due_to_send(struct uro_conn *conn)
{
    if (!uro_link_used(&conn->send_link))
        uro_list_append(&conn->cm->to_send, &conn->send_link);
}

void uro_conn_send(struct uro_conn *conn, uro_time interval, uint32_t retries)
{
    conn->interval = interval;
    conn->retries_left = retries;
    conn->extended = false;
    uro_wheel_arm(&conn->cm->wheel, &conn->timer, conn->cm->now + interval);
    due_to_send(conn);
}

void uro_conn_send_again(struct uro_conn *conn)
{
    due_to_send(conn);
}

void uro_conn_stop_retransmit(struct uro_conn *conn)
{
    uro_wheel_cancel(&conn->cm->wheel, &conn->timer);
    uro_list_remove(&conn->send_link);
}

static struct uro_cm_out *new_reply(struct uro_cm *cm, const struct uro_cm_route *route)
{
    if (cm->reply_count == URO_CM_REPLIES) {
        URO_MARK("CM.REPLIES");
        uro_count(cm->counters, URO_COUNT_CM_DROP_BUSY);
        return NULL;
    }
    struct uro_cm_out *out = &cm->replies[(cm->reply_first + cm->reply_count++) % URO_CM_REPLIES];
    out->route = *route;
    return out;
}

void uro_conn_reply(struct uro_cm *cm, const struct uro_cm_route *route,
                    const struct uro_cm_msg *msg)
{
    struct uro_cm_out *out = new_reply(cm, route);

    if (out != NULL)
        uro_cm_encode(out->mad, msg);
}

uro_time uro_conn_time(uint8_t exponent)
{
    if (exponent > LONGEST)
        exponent = LONGEST;
    return exponent < 8 ? URO_MS(1) : URO_MS(1) << (exponent - 8);
}

/* ---- events -------------------------------------------------------------------------------- */

void uro_conn_raise(struct uro_conn *conn, enum uro_conn_event_kind kind, int status)
{
    if (!conn->owned && kind != URO_CONN_REQUEST)
        return;
    conn->events |= 1u << kind;
    if ((STATUS_EVENTS & 1u << kind) != 0)
        conn->status = status;
    if (!uro_link_used(&conn->event_link))
        uro_list_append(&conn->cm->events, &conn->event_link);
}

bool uro_conn_can_receive(const struct uro_conn *conn)
{
    return (conn->events & MOST_EVENTS) == 0;
}

bool uro_conn_event(struct uro_cm *cm, struct uro_conn_event *event)
{
    struct uro_link *link = cm->events.head.next;

    if (link == &cm->events.head)
        return false;
    struct uro_conn *conn = URO_CONTAINER_OF(link, struct uro_conn, event_link);
    unsigned kind = (unsigned)__builtin_ctz(conn->events);
    conn->events &= conn->events - 1;
    if (conn->events == 0)
        uro_list_remove(link);
    *event =
        (struct uro_conn_event){ .kind = (enum uro_conn_event_kind)kind,
                                 .conn = conn,
                                 .user = conn->user,
                                 .status = (STATUS_EVENTS & 1u << kind) != 0 ? conn->status : 0 };
    if (kind == URO_CONN_REQUEST) {
        event->user = conn->listener->user;
        conn->owned = true;
    }
    return true;
}

/* ---- the engine's side --------------------------------------------------------------------- */

void uro_cm_receive(struct uro_cm *cm, const struct uro_cm_route *route,
                    const uint8_t mad[static URO_MAD_LEN], uro_time now)
{
    struct uro_cm_msg msg;
    struct uro_cm_out *out;

    cm->now = now;
    switch (uro_cm_decode(mad, &msg)) {
    case URO_CM_OK:
        uro_count(cm->counters, URO_COUNT_CM_RX);
        if (msg.kind == URO_CM_SIDR_REQ || msg.kind == URO_CM_SIDR_REP)
            uro_sidr_receive(cm, route, &msg);
        else
            uro_conn_receive(cm, route, &msg);
        break;
    case URO_CM_CLASS_INFO:
        URO_MARK("CM.CLASS.INFO");
        out = new_reply(cm, route);
        if (out != NULL)
            uro_cm_refuse_class_info(mad, out->mad);
        break;
    case URO_CM_NOT_CM:
    case URO_CM_UNKNOWN:
        URO_MARK("CM.UNKNOWN");
        uro_count(cm->counters, URO_COUNT_CM_DROP_MALFORMED);
        break;
    }
}

bool uro_cm_output(struct uro_cm *cm, struct uro_cm_out *out, uro_time now)
{
    struct uro_timer *timer;
    struct uro_link *link;

    cm->now = now;
    while ((timer = uro_wheel_pop(&cm->wheel, now)) != NULL)
        uro_conn_on_timer(URO_CONTAINER_OF(timer, struct uro_conn, timer));

    if (cm->reply_count > 0) {
        *out = cm->replies[cm->reply_first];
        cm->reply_first = (cm->reply_first + 1) % URO_CM_REPLIES;
        cm->reply_count--;
    } else if ((link = uro_list_pop(&cm->to_send)) != NULL) {
        const struct uro_conn *conn = URO_CONTAINER_OF(link, struct uro_conn, send_link);
        out->route = conn->route;
        memcpy(out->mad, conn->mad, sizeof out->mad);
    } else {
        return false;
    }
    uro_count(cm->counters, URO_COUNT_CM_TX);
    return true;
}

static bool has_output(const struct uro_cm *cm)
{
    return cm->reply_count > 0 || !uro_list_empty(&cm->to_send);
}

bool uro_cm_end_all(struct uro_cm *cm, uro_time now)
{
    bool answered = uro_list_empty(&cm->leaving);

    cm->now = now;
    for (uint32_t i = 0; i < cm->pool_used; i++) {
        struct uro_conn *conn = &cm->pool[i];
        if (uro_link_used(&conn->link)) /* the connection is unused, or the application has
                                           closed it */
            continue;
        if (cm->reply_count == URO_CM_REPLIES)
            return false;
        if (!conn->owned) { /* the event of this request was not fetched */
            uro_conn_close(conn, now);
            continue;
        }
        URO_MARK("CM.END.ALL");
        uro_conn_leave(conn);
        answered = answered && conn->state != URO_CONN_DREQ_SENT;
    }
    return answered && !has_output(cm);
}

uro_time uro_cm_next(const struct uro_cm *cm)
{
    if (has_output(cm))
        return cm->now;
    return uro_wheel_next(&cm->wheel);
}
