/* SPDX-License-Identifier: BSD-3-Clause */
/* capture_pairing.c - finds the two flows of each connection; see capture.h.
 *
 * The messages of the connection manager show which flows belong together. Without such messages,
 * the responses are used. A response has the PSN of a request of the other flow, which counts as a
 * vote for that flow. Several queue pairs may use the same PSNs, so the flow with the most votes is
 * chosen. If two flows have the same number of votes, the UDP source port decides: most
 * implementations use the same port in both directions.
 */
#include <stdlib.h>
#include <string.h>

#include "capture/capture.h"

#define CANDIDATES 8u /* maximum number of candidates kept for one PSN, and for one flow */
#define ROUNDS     8u

struct asked {
    uint32_t source; /* requester: position in uro_capture.addresses */
    uint32_t dest;   /* responder: position in uro_capture.addresses */
    uint32_t psn;
    uint32_t count;
    uint32_t flows[CANDIDATES];
};

struct votes {
    uint32_t count;
    uint32_t flow[CANDIDATES];
    uint32_t number[CANDIDATES];
};

struct pairing {
    struct uro_capture *capture;
    struct asked *asked;
    uint32_t asked_count;
    uint32_t asked_room;
    struct uro_index asked_index;
    struct votes *votes; /* one for each flow */
};

static bool connected(enum uro_service service)
{
    return service == URO_RC || service == URO_XRC;
}

static void join(struct uro_capture *capture, uint32_t a, uint32_t b, enum uro_capture_pairing how)
{
    capture->flows[a].peer = b;
    capture->flows[b].peer = a;
    capture->flows[a].pairing = how;
    capture->flows[b].pairing = how;
}

/* ---- the connection manager ---------------------------------------------------------------- */

static uint32_t cm_hash(uint32_t source, uint32_t dest, uint64_t id)
{
    return uro_index_hash(((uint64_t)source << 48) ^ ((uint64_t)dest << 32) ^ id);
}

struct cm_key {
    const struct uro_capture *capture;
    uint32_t source;
    uint32_t dest;
    uint64_t id;
};

static bool cm_equal(const void *objects, uint32_t position, const void *wanted)
{
    const struct uro_capture_cm *cm = (const struct uro_capture_cm *)objects + position;
    const struct cm_key *key = wanted;
    const struct uro_capture_packet *packet = &key->capture->packets[cm->packet];

    return cm->msg->value[URO_CM_LOCAL_ID] == key->id && packet->source == key->source &&
           packet->dest == key->dest;
}

/* Records in a flow what a REQ and its REP say about the requests of the flow. */
static void note_terms(struct uro_capture_flow *flow, uint32_t rep, uint64_t psn, uint64_t depth,
                       uint64_t mtu)
{
    if (flow->connections++ == 0)
        flow->cm_packet = rep;
    flow->start_psn = flow->connections == 1 ? (uint32_t)psn : URO_CAPTURE_NONE;
    flow->read_depth = flow->connections == 1 ? (uint32_t)depth : URO_CAPTURE_NONE;
    flow->cm_pmtu = mtu >= 1 && mtu <= 5 ? 128u << mtu : URO_CAPTURE_NONE;
}

/* Joins the flows of the connection of a REQ and its REP, if the capture has both flows. */
static void join_by_cm(struct uro_capture *capture, const struct uro_capture_cm *req,
                       const struct uro_capture_cm *rep)
{
    const struct uro_capture_packet *packet = &capture->packets[req->packet];
    const uint64_t *asked = req->msg->value, *said = rep->msg->value;
    const bool xrc = asked[URO_CM_TRANSPORT] == 3;
    const uint64_t target = xrc ? said[URO_CM_LOCAL_EECN] : said[URO_CM_LOCAL_QPN];
    const uint32_t there =
        uro_capture_find_flow(capture, packet->source, packet->dest, (uint32_t)target);
    const uint32_t back = uro_capture_find_flow(capture, packet->dest, packet->source,
                                                (uint32_t)asked[URO_CM_LOCAL_QPN]);

    if (there != URO_CAPTURE_NONE)
        note_terms(&capture->flows[there], rep->packet, said[URO_CM_STARTING_PSN],
                   said[URO_CM_RESPONDER_RESOURCES], asked[URO_CM_PATH_MTU]);
    if (back != URO_CAPTURE_NONE)
        note_terms(&capture->flows[back], rep->packet, asked[URO_CM_STARTING_PSN],
                   asked[URO_CM_RESPONDER_RESOURCES], asked[URO_CM_PATH_MTU]);
    if (there != URO_CAPTURE_NONE && back != URO_CAPTURE_NONE &&
        capture->flows[there].peer == URO_CAPTURE_NONE &&
        capture->flows[back].peer == URO_CAPTURE_NONE)
        join(capture, there, back, URO_PAIRED_BY_CM);
}

/* Returns the position of the message with this sender, receiver and ID, or URO_INDEX_NONE. */
static uint32_t find_cm(const struct uro_capture *capture, const struct uro_index *index,
                        uint32_t source, uint32_t dest, uint64_t id)
{
    const struct cm_key key = { capture, source, dest, id };

    return uro_index_find(index, cm_hash(source, dest, id), cm_equal, capture->cms, &key);
}

/* Pairs flows by the messages of the connection manager. A duplicate REP counts once. Returns false
 * when out of memory. */
static bool pair_by_cm(struct uro_capture *capture)
{
    struct uro_index reqs = { .slots = NULL }, reps = { .slots = NULL };
    bool good = true;

    for (uint32_t i = 0; i < capture->cm_count && good; i++) {
        const struct uro_capture_cm *cm = &capture->cms[i];
        const struct uro_capture_packet *packet = &capture->packets[cm->packet];
        const uint64_t id = cm->msg->value[URO_CM_LOCAL_ID];
        if (cm->msg->kind != URO_CM_REQ && cm->msg->kind != URO_CM_REP)
            continue;
        struct uro_index *index = cm->msg->kind == URO_CM_REQ ? &reqs : &reps;
        if (find_cm(capture, index, packet->source, packet->dest, id) != URO_INDEX_NONE)
            continue;
        good = uro_index_add(index, cm_hash(packet->source, packet->dest, id), i);
        if (cm->msg->kind != URO_CM_REP || !good)
            continue;
        const uint32_t req =
            find_cm(capture, &reqs, packet->dest, packet->source, cm->msg->value[URO_CM_REMOTE_ID]);
        if (req != URO_INDEX_NONE)
            join_by_cm(capture, &capture->cms[req], cm);
    }
    uro_index_free(&reqs);
    uro_index_free(&reps);
    return good;
}

/* ---- PSNs ---------------------------------------------------------------------------------- */

static uint32_t asked_hash(const struct asked *asked)
{
    return uro_index_hash(((uint64_t)asked->source << 44) ^ ((uint64_t)asked->dest << 24) ^
                          asked->psn);
}

static bool asked_equal(const void *objects, uint32_t position, const void *key)
{
    const struct asked *a = (const struct asked *)objects + position;
    const struct asked *b = key;

    return a->source == b->source && a->dest == b->dest && a->psn == b->psn;
}

/* Remembers the flow of a request under its addresses and PSN. Returns false when out of memory. */
static bool remember(struct pairing *pairing, const struct uro_capture_packet *packet)
{
    const struct asked key = { .source = packet->source, .dest = packet->dest, .psn = packet->psn };
    const uint32_t hash = asked_hash(&key);
    uint32_t position =
        uro_index_find(&pairing->asked_index, hash, asked_equal, pairing->asked, &key);

    if (position == URO_INDEX_NONE) {
        void *moved =
            uro_index_grow(pairing->asked, pairing->asked_count, &pairing->asked_room, sizeof key);
        if (moved == NULL)
            return false;
        pairing->asked = moved;
        position = pairing->asked_count++;
        pairing->asked[position] = key;
        if (!uro_index_add(&pairing->asked_index, hash, position))
            return false;
    }
    struct asked *asked = &pairing->asked[position];
    for (uint32_t i = 0; i < asked->count; i++)
        if (asked->flows[i] == packet->flow)
            return true;
    if (asked->count < CANDIDATES)
        asked->flows[asked->count++] = packet->flow;
    return true;
}

static void vote(struct votes *votes, uint32_t flow)
{
    uint32_t i = 0;

    while (i < votes->count && votes->flow[i] != flow)
        i++;
    if (i == CANDIDATES)
        return;
    if (i == votes->count) {
        votes->flow[i] = flow;
        votes->number[i] = 0;
        votes->count++;
    }
    votes->number[i]++;
}

/* Votes for each flow that has a request of the response's PSN. */
static void count_response(struct pairing *pairing, const struct uro_capture_packet *packet)
{
    const struct asked key = { .source = packet->dest, .dest = packet->source, .psn = packet->psn };
    const uint32_t position =
        uro_index_find(&pairing->asked_index, asked_hash(&key), asked_equal, pairing->asked, &key);

    if (position == URO_INDEX_NONE)
        return;
    const struct asked *asked = &pairing->asked[position];
    for (uint32_t i = 0; i < asked->count; i++) {
        if (pairing->capture->flows[asked->flows[i]].service !=
            pairing->capture->flows[packet->flow].service)
            continue;
        vote(&pairing->votes[packet->flow], asked->flows[i]);
        if (asked->flows[i] != packet->flow)
            vote(&pairing->votes[asked->flows[i]], packet->flow);
    }
}

static bool count_votes(struct pairing *pairing)
{
    const struct uro_capture *capture = pairing->capture;

    for (uint32_t i = 0; i < capture->count; i++) {
        const struct uro_capture_packet *packet = &capture->packets[i];
        if (packet->kind != URO_CAPTURE_ROCE || !connected(uro_capture_op(packet)->service) ||
            capture->flows[packet->flow].peer != URO_CAPTURE_NONE)
            continue;
        if (uro_capture_op(packet)->role == URO_RESPONSE)
            count_response(pairing, packet);
        else if (!remember(pairing, packet))
            return false;
    }
    return true;
}

/* Compares two candidates for the peer of @flow. Returns 1 if @a is better, 0 if they are equal,
 * and -1 if @b is better. A flow is the peer of itself only if no other flow fits. */
static int compare(const struct uro_capture *capture, uint32_t flow, uint32_t a, uint32_t a_votes,
                   uint32_t b, uint32_t b_votes)
{
    const uint16_t port = capture->packets[capture->flows[flow].first].source_port;
    const bool a_port = capture->packets[capture->flows[a].first].source_port == port;
    const bool b_port = capture->packets[capture->flows[b].first].source_port == port;

    if ((a == flow) != (b == flow))
        return a == flow ? -1 : 1;
    if (a_votes != b_votes)
        return a_votes > b_votes ? 1 : -1;
    return a_port == b_port ? 0 : a_port ? 1 : -1;
}

/* Returns the candidate with most votes that has no peer yet; NONE if there is none, or two are
 * equal. */
static uint32_t best_of(const struct pairing *pairing, uint32_t flow)
{
    const struct votes *votes = &pairing->votes[flow];
    uint32_t best = URO_CAPTURE_NONE, best_votes = 0;
    bool equal = false;

    for (uint32_t i = 0; i < votes->count; i++) {
        if (pairing->capture->flows[votes->flow[i]].peer != URO_CAPTURE_NONE)
            continue;
        const int order = best == URO_CAPTURE_NONE ? 1
                                                   : compare(pairing->capture, flow, votes->flow[i],
                                                             votes->number[i], best, best_votes);
        equal = order == 0 || (equal && order < 0);
        if (order > 0) {
            best = votes->flow[i];
            best_votes = votes->number[i];
        }
    }
    return equal ? URO_CAPTURE_NONE : best;
}

/* Joins flows that are the best candidates of each other, in at most ROUNDS rounds. */
static void join_by_votes(struct pairing *pairing)
{
    struct uro_capture *capture = pairing->capture;
    bool more = true;

    for (uint32_t round = 0; round < ROUNDS && more; round++) {
        more = false;
        for (uint32_t i = 0; i < capture->flow_count; i++) {
            if (capture->flows[i].peer != URO_CAPTURE_NONE)
                continue;
            const uint32_t best = best_of(pairing, i);
            if (best == URO_CAPTURE_NONE || best_of(pairing, best) != i)
                continue;
            join(capture, i, best, URO_PAIRED_BY_PSN);
            more = true;
        }
    }
}

static bool pair_by_psn(struct uro_capture *capture)
{
    struct pairing pairing = { .capture = capture };

    if (capture->flow_count == 0)
        return true;
    pairing.votes = calloc(capture->flow_count, sizeof *pairing.votes);
    const bool good = pairing.votes != NULL && count_votes(&pairing);
    if (good)
        join_by_votes(&pairing);
    uro_index_free(&pairing.asked_index);
    free(pairing.asked);
    free(pairing.votes);
    return good;
}

/* ---- remaining flows ----------------------------------------------------------------------- */

struct lonely {
    uint32_t source;
    uint32_t dest;
    uint32_t flow;
    uint32_t count;
};

static bool lonely_equal(const void *objects, uint32_t position, const void *key)
{
    const struct lonely *a = (const struct lonely *)objects + position;
    const struct lonely *b = key;

    return a->source == b->source && a->dest == b->dest;
}

static uint32_t lonely_hash(const struct lonely *lonely)
{
    return uro_index_hash((uint64_t)lonely->source << 32 ^ lonely->dest);
}

/* Lists the flows without a peer by their addresses. Returns false when out of memory. */
static bool list_lonely(const struct uro_capture *capture, struct lonely *list, uint32_t *count,
                        struct uro_index *index)
{
    for (uint32_t i = 0; i < capture->flow_count; i++) {
        const struct uro_capture_flow *flow = &capture->flows[i];
        if (flow->peer != URO_CAPTURE_NONE || !connected(flow->service))
            continue;
        const struct lonely key = { flow->source, flow->dest, i, 1 };
        const uint32_t found = uro_index_find(index, lonely_hash(&key), lonely_equal, list, &key);
        if (found != URO_INDEX_NONE) {
            list[found].count++;
            continue;
        }
        list[*count] = key;
        if (!uro_index_add(index, lonely_hash(&key), (*count)++))
            return false;
    }
    return true;
}

/* Joins two flows between two addresses if these addresses have no other unpaired flows. */
static bool pair_by_only(struct uro_capture *capture)
{
    struct uro_index index = { .slots = NULL };
    struct lonely *list = calloc(capture->flow_count + 1u, sizeof *list);
    uint32_t count = 0;
    const bool good = list != NULL && list_lonely(capture, list, &count, &index);

    for (uint32_t i = 0; good && i < count; i++) {
        const struct lonely back = { .source = list[i].dest, .dest = list[i].source };
        const uint32_t found =
            uro_index_find(&index, lonely_hash(&back), lonely_equal, list, &back);
        if (found != URO_INDEX_NONE && found > i && list[i].count == 1 && list[found].count == 1 &&
            capture->flows[list[i].flow].service == capture->flows[list[found].flow].service)
            join(capture, list[i].flow, list[found].flow, URO_PAIRED_BY_ONLY);
    }
    uro_index_free(&index);
    free(list);
    return good;
}

/* ---- path MTU ------------------------------------------------------------------------------ */

#define SIZES 5u /* 256, 512, ... 4096 */

static void choose_pmtu(struct uro_capture *capture, const uint32_t *seen)
{
    for (uint32_t i = 0; i < capture->flow_count; i++) {
        uint32_t most = 0;
        for (uint32_t size = 0; size < SIZES; size++)
            if (seen[i * SIZES + size] > most) {
                most = seen[i * SIZES + size];
                capture->flows[i].pmtu = 256u << size;
            }
    }
}

/* Finds the path MTU of each flow: the payload size of most FIRST and MIDDLE packets. */
static bool find_pmtu(struct uro_capture *capture)
{
    uint32_t *seen = calloc((size_t)capture->flow_count * SIZES + 1, sizeof *seen);

    if (seen == NULL)
        return false;
    for (uint32_t i = 0; i < capture->count; i++) {
        const struct uro_capture_packet *packet = &capture->packets[i];
        if (packet->kind != URO_CAPTURE_ROCE || uro_position_ends(uro_capture_op(packet)->position))
            continue;
        for (uint32_t size = 0; size < SIZES; size++)
            if (packet->payload == 256u << size)
                seen[packet->flow * SIZES + size]++;
    }
    choose_pmtu(capture, seen);
    free(seen);
    return true;
}

bool uro_capture_pair(struct uro_capture *capture)
{
    return find_pmtu(capture) && pair_by_cm(capture) && pair_by_psn(capture) &&
           pair_by_only(capture);
}
