/* SPDX-License-Identifier: BSD-3-Clause */
/* neigh.c - the next hops in use, and the times of their ARP and ND requests.
 *
 *   RESOLVING  Requests are sent after 5, 10, 20 ... ms. After nine requests without answer, which
 *              take 2.6 s, the next hop is LOST. Frames wait. The first intervals are short because
 *              a virtual link often comes up shortly after the first request.
 *   KNOWN      A unicast request is sent 30 s after the last answer. After three requests without
 *              answer the next hop is RESOLVING.
 *   LOST       A request is sent every second as long as the next hop is in use. Frames are
 *              dropped, so that queue pairs fail after their retry budget.
 *
 * An answer, or another ARP or ND message with the address, makes a next hop KNOWN. If the message
 * has another MAC address than a KNOWN next hop, the next hop is doubted. The requests then go to
 * the known MAC address only, so that only this host can answer. After five requests without
 * answer, which take 155 ms, requests go to all hosts. Doubts of one next hop are checked at most
 * once a second. Neighbour solicitations for other hosts are ignored. Our own addresses and
 * multicast groups are KNOWN for ever.
 */
#include "engine/neigh.h"

#include <errno.h>
#include <string.h>

#include "base/mark.h"
#include "engine/neigh_frames.h"

#define REQUEST_INTERVAL URO_MS(5) /* doubled after each request */
#define REQUESTS_MAX     9u
#define LOST_INTERVAL    URO_MS(1000)
#define KNOWN_FOR        URO_MS(30000)
#define CONFIRM_INTERVAL URO_MS(1000)
#define CONFIRM_MAX      3u
#define DOUBT_MAX        5u
#define SURE_FOR         URO_MS(1000)

/* The MAC address of other hosts' next hops if the link finds the next hops itself. It is never
 * sent. */
static const struct uro_mac link_mac = { { 2, 0, 0, 0, 0, 0 } };

static uint32_t hops_of(const struct uro_engine_config *config)
{
    return config->hops != 0 ? config->hops : URO_NEIGH_HOPS_MAX;
}

size_t uro_neigh_size(const struct uro_engine_config *config)
{
    return hops_of(config) * sizeof(struct uro_neigh_entry);
}

void uro_neigh_init(struct uro_neigh *neigh, const struct uro_engine_config *config,
                    struct uro_counters *counters, void *memory)
{
    memset(neigh, 0, sizeof *neigh);
    neigh->hops = hops_of(config);
    neigh->entries = memory;
    neigh->config = config;
    neigh->counters = counters;
    neigh->due = URO_TIME_NEVER;
}

static void due_at(struct uro_neigh *neigh, struct uro_neigh_entry *entry, uro_time due)
{
    entry->due = due;
    if (due < neigh->due)
        neigh->due = due;
}

static bool ours(const struct uro_neigh *neigh, const struct uro_gid *address)
{
    for (uint32_t i = 0; i < neigh->config->address_count; i++)
        if (uro_gid_equal(&neigh->config->addresses[i].gid, address))
            return true;
    return false;
}

/* Finds the next hop's address: the destination itself, or the gateway. */
static int route(const struct uro_neigh *neigh, uint8_t sgid_index, const struct uro_gid *dest,
                 struct uro_gid *next)
{
    const struct uro_engine_config *config = neigh->config;

    if (sgid_index >= config->address_count)
        return -EINVAL;
    const struct uro_engine_address *from = &config->addresses[sgid_index];
    bool v4 = uro_gid_is_ipv4(dest);
    if (uro_gid_is_ipv4(&from->gid) != v4 || uro_gid_is_zero(dest) || uro_gid_is_zero(&from->gid))
        return -EINVAL;

    *next = *dest;
    if (config->link_routes)
        return 0;
    unsigned prefix = v4 ? from->prefix + 96u : from->prefix;
    if (ours(neigh, dest) || uro_gid_is_multicast(dest) || uro_gid_is_link_local(dest) ||
        uro_gid_same_subnet(dest, &from->gid, prefix))
        return 0;
    *next = v4 ? config->gateway4 : config->gateway6;
    return uro_gid_is_zero(next) ? -ENETUNREACH : 0;
}

static struct uro_neigh_entry **bucket(struct uro_neigh *neigh, const struct uro_gid *address)
{
    uint64_t hash = uro_gid_hash(address);

    return &neigh->buckets[(hash ^ hash >> 32 ^ hash >> 52) % URO_NEIGH_BUCKETS];
}

static struct uro_neigh_entry *find(struct uro_neigh *neigh, const struct uro_gid *address)
{
    struct uro_neigh_entry *entry = *bucket(neigh, address);

    while (entry != NULL && !uro_gid_equal(&entry->address, address))
        entry = entry->next;
    return entry;
}

/* Adds an entry for @address. Returns NULL when all entries are in use. */
static struct uro_neigh_entry *add(struct uro_neigh *neigh, const struct uro_gid *address)
{
    struct uro_neigh_entry **head = bucket(neigh, address);
    struct uro_neigh_entry *entry = neigh->free;

    if (entry != NULL)
        neigh->free = entry->next;
    else if (neigh->used < neigh->hops)
        entry = &neigh->entries[neigh->used++];
    else
        return NULL;
    *entry = (struct uro_neigh_entry){ .next = *head, .address = *address };
    *head = entry;
    return entry;
}

static void drop(struct uro_neigh *neigh, struct uro_neigh_entry *entry)
{
    struct uro_neigh_entry **link = bucket(neigh, &entry->address);

    while (*link != entry)
        link = &(*link)->next;
    *link = entry->next;
    entry->next = neigh->free;
    neigh->free = entry;
}

/* Returns whether a next hop needs no ARP or ND, and sets it to KNOWN for ever. This holds for
 * multicast groups, for our own addresses, and for all addresses if the link finds the next hops
 * itself. */
static bool know_already(const struct uro_neigh *neigh, struct uro_neigh_entry *entry)
{
    entry->hop.qpn_prefix = 0;
    if (uro_gid_is_multicast(&entry->address)) {
        URO_MARK("MCAST.HOP");
        entry->hop.mac = uro_mac_multicast(&entry->address);
        entry->hop.way = URO_TX_BOTH;
    } else if (ours(neigh, &entry->address)) {
        /* With a prefix, other engines share the address: core/path.c compares the prefix. */
        entry->hop.mac = neigh->config->mac;
        entry->hop.way = neigh->config->qpn_prefix == 0 ? URO_TX_LOCAL : URO_TX_SHARED;
        entry->hop.qpn_prefix = neigh->config->qpn_prefix;
    } else if (neigh->config->link_routes) {
        entry->hop.mac = link_mac;
        entry->hop.way = URO_TX_WIRE;
    } else {
        return false;
    }
    entry->hop.state = URO_HOP_KNOWN;
    entry->due = URO_TIME_NEVER;
    return true;
}

static bool is_fixed(const struct uro_neigh *neigh, const struct uro_neigh_entry *entry)
{
    return neigh->config->link_routes || entry->hop.way != URO_TX_WIRE;
}

int uro_neigh_get(struct uro_neigh *neigh, uint8_t sgid_index, const struct uro_gid *dest,
                  uro_time now, struct uro_hop **hop)
{
    struct uro_gid next;
    int error = route(neigh, sgid_index, dest, &next);

    if (error != 0)
        return error;
    struct uro_neigh_entry *entry = find(neigh, &next);
    if (entry == NULL) {
        entry = add(neigh, &next);
        if (entry == NULL) {
            neigh->refused = true;
            return -ENOMEM;
        }
        entry->source = neigh->config->addresses[sgid_index].gid;
        if (!know_already(neigh, entry))
            due_at(neigh, entry, now);
    }
    entry->users++;
    *hop = &entry->hop;
    return 0;
}

void uro_neigh_put(struct uro_neigh *neigh, struct uro_hop *hop)
{
    struct uro_neigh_entry *entry = URO_CONTAINER_OF(hop, struct uro_neigh_entry, hop);

    URO_ASSERT(entry->users > 0);
    if (--entry->users == 0)
        drop(neigh, entry);
}

/* Plans a check of the known MAC address, because a host claims another MAC address. The known
 * address stays in use until then. */
static void doubt(struct uro_neigh *neigh, struct uro_neigh_entry *entry, uro_time now)
{
    uro_count(neigh->counters, URO_COUNT_ARP_DOUBTED);
    if (entry->doubted)
        return;
    entry->doubted = true;
    due_at(neigh, entry, now < entry->sure ? entry->sure : now);
}

/* Handles a message with the MAC address of @address. Returns whether a next hop changed. */
static bool learn(struct uro_neigh *neigh, const struct uro_gid *address, const struct uro_mac *mac,
                  uro_time now)
{
    struct uro_neigh_entry *entry = find(neigh, address);

    if (entry == NULL || is_fixed(neigh, entry))
        return false;
    if (mac->octets[0] & 1) /* a multicast MAC address belongs to no host */
        return false;
    bool same = memcmp(&entry->hop.mac, mac, sizeof *mac) == 0;
    if (!same && (entry->hop.state == URO_HOP_KNOWN || entry->doubted)) {
        doubt(neigh, entry, now);
        return false;
    }
    if (entry->doubted)
        entry->sure = now + SURE_FOR;
    entry->doubted = false;
    bool news = entry->hop.state != URO_HOP_KNOWN || !same;
    entry->hop.state = URO_HOP_KNOWN;
    entry->hop.mac = *mac;
    entry->hop.version += news;
    entry->unanswered = 0;
    due_at(neigh, entry, now + KNOWN_FOR);
    return news;
}

bool uro_neigh_arp(struct uro_neigh *neigh, const struct uro_frame *frame, uro_time now)
{
    struct uro_arp arp;

    if (!uro_arp_decode(frame->body, frame->body_length, &arp)) {
        uro_count(neigh->counters, URO_COUNT_DROP_MALFORMED_ARP);
        return false;
    }
    uro_count(neigh->counters, URO_COUNT_ARP_RX);
    if (arp.request && ours(neigh, &arp.target)) {
        URO_MARK("NEIGH.ARP.ANSWER");
        uro_neigh_send_arp_reply(neigh, &arp);
    }
    return learn(neigh, &arp.sender, &arp.sender_mac, now);
}

bool uro_neigh_icmp(struct uro_neigh *neigh, const struct uro_frame *frame, uro_time now)
{
    struct uro_icmp icmp;

    if (!uro_icmp_decode(&frame->ip, frame->body, frame->body_length, &icmp)) {
        uro_count(neigh->counters, URO_COUNT_DROP_MALFORMED_ARP);
        return false;
    }
    switch (icmp.kind) {
    case URO_ICMP_ECHO_REQUEST:
        if (!ours(neigh, &frame->ip.dest))
            return false;
        uro_count(neigh->counters, URO_COUNT_ICMP_ECHO);
        uro_neigh_send_echo_reply(neigh, frame, &icmp);
        return false;
    case URO_ICMP_NEIGHBOR_SOLICIT:
        uro_count(neigh->counters, URO_COUNT_ARP_RX);
        if (!ours(neigh, &icmp.target))
            return false;
        URO_MARK("NEIGH.ND.ANSWER");
        uro_neigh_send_advert(neigh, frame, &icmp);
        return icmp.has_mac && learn(neigh, &frame->ip.source, &icmp.mac, now);
    case URO_ICMP_NEIGHBOR_ADVERT:
        uro_count(neigh->counters, URO_COUNT_ARP_RX);
        return icmp.has_mac && learn(neigh, &icmp.target, &icmp.mac, now);
    case URO_ICMP_ECHO_REPLY:
    case URO_ICMP_NO_PORT: /* gsi.c */
    case URO_ICMP_OTHER:
        break;
    }
    return false;
}

/* Begins the check of a doubted next hop by unicast requests, or ends it after some requests
 * without answer: then requests go to all hosts. */
static void look_into(struct uro_neigh_entry *entry)
{
    bool begins = entry->hop.state == URO_HOP_KNOWN;

    if (!begins && entry->unanswered < DOUBT_MAX)
        return;
    if (begins)
        URO_MARK("NEIGH.DOUBT");
    else
        URO_MARK("NEIGH.MOVED");
    entry->hop.state = URO_HOP_RESOLVING;
    entry->unanswered = 0;
    entry->doubted = begins;
}

/* Handles a due entry: changes its state if need be, and sends a request. Returns whether the state
 * changed. */
static bool act(struct uro_neigh *neigh, struct uro_neigh_entry *entry, uro_time now)
{
    enum uro_hop_state before = entry->hop.state;

    if (entry->doubted)
        look_into(entry);
    uint32_t limit = entry->hop.state == URO_HOP_KNOWN ? CONFIRM_MAX : REQUESTS_MAX;
    if (entry->hop.state != URO_HOP_LOST && entry->unanswered >= limit) {
        entry->hop.state = entry->hop.state == URO_HOP_KNOWN ? URO_HOP_RESOLVING : URO_HOP_LOST;
        entry->unanswered = 0;
    }
    if (neigh->reply_count == URO_NEIGH_REPLIES_MAX)
        return entry->hop.state != before; /* no free slot for a request: the entry stays due */
    entry->unanswered++;
    uro_neigh_send_request(neigh, entry);
    switch (entry->hop.state) {
    case URO_HOP_RESOLVING:
        entry->due = now + (REQUEST_INTERVAL << (entry->unanswered - 1));
        break;
    case URO_HOP_KNOWN:
        entry->due = now + CONFIRM_INTERVAL;
        break;
    case URO_HOP_LOST:
        entry->due = now + LOST_INTERVAL;
        break;
    }
    return entry->hop.state != before;
}

bool uro_neigh_run(struct uro_neigh *neigh, uro_time now)
{
    bool changed = false;

    if (now < neigh->due)
        return false;
    neigh->due = URO_TIME_NEVER;
    for (uint32_t i = 0; i < neigh->used; i++) {
        struct uro_neigh_entry *entry = &neigh->entries[i];
        if (entry->users == 0)
            continue;
        if (entry->due <= now)
            changed |= act(neigh, entry, now);
        if (entry->due < neigh->due)
            neigh->due = entry->due;
    }
    return changed;
}

void uro_neigh_forget(struct uro_neigh *neigh, uro_time now)
{
    for (uint32_t i = 0; i < neigh->used; i++) {
        struct uro_neigh_entry *entry = &neigh->entries[i];
        if (entry->users == 0 || is_fixed(neigh, entry))
            continue;
        entry->hop.state = URO_HOP_RESOLVING;
        entry->unanswered = 0;
        entry->doubted = false;
        due_at(neigh, entry, now);
    }
}

uint32_t uro_neigh_output(struct uro_neigh *neigh, struct uro_tx *tx, uint32_t max)
{
    uint32_t count = 0;

    while (count < max && neigh->reply_count > 0) {
        const struct uro_neigh_reply *reply = &neigh->replies[neigh->reply_first];
        tx[count].way = URO_TX_WIRE;
        tx[count].head_length = 0;
        tx[count].pad_count = 0;
        tx[count].icrc = false;
        tx[count].payload_length = reply->length;
        tx[count].span_count = 1;
        tx[count].spans[0] = (struct uro_span){ .data = reply->octets, .length = reply->length };
        neigh->reply_first = (neigh->reply_first + 1) % URO_NEIGH_REPLIES_MAX;
        neigh->reply_count--;
        count++;
    }
    return count;
}

uro_time uro_neigh_next(const struct uro_neigh *neigh, uro_time now)
{
    return neigh->reply_count > 0 ? now : neigh->due;
}
