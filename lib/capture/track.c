/* SPDX-License-Identifier: BSD-3-Clause */
/* track.c - follows the connections of a capture; see track.h. */
#include "capture/track.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"

#define RECENT        32u         /* number of packets that are searched for a copy */
#define NEAR          4u          /* largest number of packets between a packet and its copy */
#define COPY_WITHIN   URO_US(100) /* longest time between a packet and its copy */
#define COPY_ID_LIMIT URO_MS(1)   /* the same, if the IPv4 identification is equal, too */
/* Distance of PSNs beyond any window, which shows a new connection. */
#define FAR     (1 << 16)
#define ANY_MTU 256u /* a READ up to this size has one response */

/* ---- copies -------------------------------------------------------------------------------- */

/* Returns whether two packets are equal and close together. With @doubled, packets
 * without an IPv4 identification may be copies, too. */
static bool same_packet(const struct uro_capture_packet *a, const struct uro_capture_packet *b,
                        bool doubled)
{
    const uint64_t apart = a->time > b->time ? a->time - b->time : b->time - a->time;
    const bool identified = a->identification != 0 && a->identification == b->identification;

    return a->kind == b->kind && a->opcode == b->opcode && a->psn == b->psn &&
           a->dest_qpn == b->dest_qpn && a->icrc == b->icrc && a->flow == b->flow &&
           a->length == b->length &&
           ((identified && apart <= COPY_ID_LIMIT) || (doubled && apart <= COPY_WITHIN));
}

/* Returns whether the packet was captured just before, on another interface or by a mirror. */
static bool is_copy(const struct uro_capture *capture, uint32_t position, bool doubled)
{
    for (uint32_t i = 1; i <= RECENT && i <= position; i++)
        if (same_packet(&capture->packets[position], &capture->packets[position - i],
                        doubled && i <= NEAR))
            return true;
    return false;
}

/* Returns whether nearly every packet is in the capture twice: it was made on several interfaces,
 * or by a mirror of both directions of a port. */
static bool is_doubled(const struct uro_capture *capture)
{
    const struct uro_capture_packet *packets = capture->packets;
    uint32_t all = 0, twins = 0;

    for (uint32_t i = 0; i < capture->count; i++) {
        bool twin = false;
        if (packets[i].kind != URO_CAPTURE_ROCE)
            continue;
        for (uint32_t j = i > NEAR ? i - NEAR : 0; j <= i + NEAR && j < capture->count; j++)
            twin = twin || (j != i && same_packet(&packets[i], &packets[j], true));
        all++;
        twins += twin;
    }
    return all > 0 && (uint64_t)twins * 10 > (uint64_t)all * 9;
}

/* ---- opening and closing --------------------------------------------------------------------- */

struct uro_track *uro_track_open(const struct uro_capture *capture)
{
    struct uro_track *track = calloc(1, sizeof *track);
    if (track == NULL)
        return NULL;

    track->capture = capture;
    track->doubled = is_doubled(capture);
    track->flows = calloc(capture->flow_count + 1u, sizeof *track->flows);
    track->marks = calloc(capture->count + 1u, sizeof *track->marks);
    track->related = malloc((capture->count + 1u) * sizeof *track->related);
    if (track->flows == NULL || track->marks == NULL || track->related == NULL) {
        uro_track_close(track);
        return NULL;
    }
    for (uint32_t i = 0; i < capture->count; i++)
        track->related[i] = URO_CAPTURE_NONE;
    for (uint32_t i = 0; i < capture->flow_count; i++)
        track->flows[i].open_first = track->flows[i].open_last = URO_CAPTURE_NONE;
    return track;
}

void uro_track_close(struct uro_track *track)
{
    if (track == NULL)
        return;
    for (uint32_t i = 0; track->flows != NULL && i < track->capture->flow_count; i++)
        free(track->flows[i].reads);
    uro_index_free(&track->request_index);
    free(track->requests);
    free(track->flows);
    free(track->marks);
    free(track->related);
    free(track);
}

uint32_t uro_track_read_mtu(const struct uro_capture *capture, uint32_t flow)
{
    const struct uro_capture_flow *there = &capture->flows[flow];

    if (there->peer != URO_CAPTURE_NONE && capture->flows[there->peer].pmtu != 0)
        return capture->flows[there->peer].pmtu;
    if (there->cm_pmtu != URO_CAPTURE_NONE)
        return there->cm_pmtu;
    return there->pmtu;
}

uint32_t uro_track_span(const struct uro_capture *capture, uint32_t flow, uint32_t length)
{
    const uint32_t mtu = uro_track_read_mtu(capture, flow);

    if (length <= ANY_MTU)
        return 1;
    return mtu == 0 ? 0 : length / mtu + (length % mtu != 0);
}

/* ---- requests ------------------------------------------------------------------------------ */

static uint32_t request_hash(const struct uro_track_request *request)
{
    return uro_index_hash(((uint64_t)request->flow << 32) ^ ((uint64_t)request->generation << 24) ^
                          request->psn);
}

static bool request_equal(const void *objects, uint32_t position, const void *key)
{
    const struct uro_track_request *a = (const struct uro_track_request *)objects + position;
    const struct uro_track_request *b = key;

    return a->flow == b->flow && a->generation == b->generation && a->psn == b->psn;
}

static uint32_t find_request(const struct uro_track *track, uint32_t flow, uint32_t psn)
{
    const struct uro_track_request key = { .flow = flow,
                                           .generation = track->flows[flow].generation,
                                           .psn = psn };

    return uro_index_find(&track->request_index, request_hash(&key), request_equal, track->requests,
                          &key);
}

/* Adds a request of a PSN that has none. Returns its position, or NONE when out of memory. */
static uint32_t add_request(struct uro_track *track, uint32_t flow, uint32_t position,
                            uint32_t span)
{
    const struct uro_track_flow *state = &track->flows[flow];
    const struct uro_track_request request = { .flow = flow,
                                               .generation = state->generation,
                                               .psn = track->capture->packets[position].psn,
                                               .span = span,
                                               .first = position,
                                               .last = position,
                                               .times = 1,
                                               .ended = state->ended,
                                               .holes = state->holes,
                                               .next_open = URO_CAPTURE_NONE };
    void *moved =
        uro_index_grow(track->requests, track->request_count, &track->request_room, sizeof request);

    if (moved == NULL)
        return URO_CAPTURE_NONE;
    track->requests = moved;
    track->requests[track->request_count] = request;
    if (!uro_index_add(&track->request_index, request_hash(&request), track->request_count))
        return URO_CAPTURE_NONE;
    return track->request_count++;
}

/* Returns whether a transmission differs from an earlier one in fields that a repetition must not
 * change. A duplicate READ may ask for less. */
static bool differs(const struct uro_capture_packet *a, const struct uro_capture_packet *b)
{
    const bool read = uro_capture_op(a)->operation == URO_READ;

    return a->opcode != b->opcode || a->payload != b->payload || a->va != b->va ||
           a->rkey != b->rkey || (!read && a->message_length != b->message_length) ||
           (read && b->message_length > a->message_length);
}

/* Resets the state of the flow, because the queue pairs have a new connection. */
static void forget(struct uro_track *track, uint32_t flow)
{
    struct uro_track_flow *state = &track->flows[flow];

    free(state->reads);
    *state = (struct uro_track_flow){ .generation = state->generation + 1,
                                      .open_first = URO_CAPTURE_NONE,
                                      .open_last = URO_CAPTURE_NONE };
}

/* Begins a new connection in both flows. */
static void restart(struct uro_track *track, uint32_t flow, uint32_t position)
{
    const uint32_t peer = track->capture->flows[flow].peer;

    forget(track, flow);
    if (peer != URO_CAPTURE_NONE && peer != flow)
        forget(track, peer);
    track->marks[position] |= URO_TRACK_RESTART;
}

/* Returns whether the request begins, or may begin, a new connection of the same queue pair
 * numbers. Such a request is far from the last request, is before all requests of the capture, or
 * differs from a request that was acknowledged. UC never retransmits a request. */
static bool is_restart(const struct uro_track *track, const struct uro_track_flow *state,
                       const struct uro_capture_packet *packet, uint32_t request)
{
    const int32_t distance = uro_track_diff(packet->psn, state->next);
    const struct uro_track_request *newest = &track->requests[state->newest];
    const uint32_t bytes = track->capture->packets[newest->first].message_length;
    const int32_t unknown = state->span_unknown ? (int32_t)(bytes / ANY_MTU) : 0;
    const bool acked = state->acked && uro_track_diff(packet->psn, state->acked_psn) <= 0;

    if (!uro_position_begins(uro_capture_op(packet)->position))
        return false;
    if (request == URO_CAPTURE_NONE)
        return uro_track_diff(packet->psn, state->start) < 0 || distance < -FAR ||
               distance >= FAR + unknown;
    return (acked || uro_capture_op(packet)->service == URO_UC) &&
           differs(&track->capture->packets[track->requests[request].first], packet);
}

/* Remembers a transmission of a READ with several responses. */
static bool remember_read(struct uro_track *track, uint32_t flow, uint32_t request,
                          uint32_t position, uint32_t span)
{
    struct uro_track_flow *state = &track->flows[flow];
    const struct uro_capture_packet *packet = &track->capture->packets[position];
    uint32_t covering = 0;
    bool tail = false;

    if (state->reads == NULL)
        state->reads = calloc(1, sizeof *state->reads);
    if (state->reads == NULL)
        return false;
    for (uint32_t i = 0; i < URO_TRACK_READS && i < state->reads->count; i++) {
        const struct uro_track_read *read = &state->reads->read[i];
        const int32_t into = uro_track_diff(packet->psn, read->psn);
        if (into <= 0 || (uint32_t)into >= read->span)
            continue;
        covering++;
        tail = covering == 1 && read->answered == read->span &&
               track->requests[read->request].times == 1;
    }
    state->reads->read[state->reads->count++ % URO_TRACK_READS] =
        (struct uro_track_read){ .request = request,
                                 .psn = packet->psn,
                                 .span = span,
                                 .length = packet->message_length,
                                 .packet = position,
                                 .tail = tail };
    return true;
}

/* Puts a READ or an atomic on the list of READs and atomics without a response. */
static void add_open(struct uro_track *track, struct uro_track_flow *state, uint32_t request)
{
    if (state->open_last == URO_CAPTURE_NONE)
        state->open_first = request;
    else
        track->requests[state->open_last].next_open = request;
    state->open_last = request;
    state->open_count++;
}

static bool has_response(enum uro_operation operation)
{
    return operation == URO_READ || operation == URO_CMP_SWAP || operation == URO_FETCH_ADD;
}

/* Handles the first request of a flow, or a request beyond all earlier requests. */
static uint32_t take_fresh(struct uro_track *track, uint32_t flow, uint32_t position, uint32_t span)
{
    struct uro_track_flow *state = &track->flows[flow];
    const struct uro_capture_packet *packet = &track->capture->packets[position];
    const struct uro_opcode *op = uro_capture_op(packet);
    const uint32_t gap = state->begun ? (uint32_t)uro_track_diff(packet->psn, state->next) : 0;

    if (!state->begun)
        state->start = packet->psn;
    else if (state->acked && state->acked_psn == ((state->next - 1) & URO_PSN_MASK) && gap == 0)
        state->in_step++;
    if (gap > 0 && !state->span_unknown) {
        state->holes += gap;
        state->hole_end = packet->psn;
        track->marks[position] |= URO_TRACK_GAP;
    }
    state->begun = true;
    state->ended += uro_position_ends(op->position);
    state->span_unknown = span == 0;
    state->next = (packet->psn + (span == 0 ? 1 : span)) & URO_PSN_MASK;
    const uint32_t request = add_request(track, flow, position, span);
    state->newest = request;
    if (request != URO_CAPTURE_NONE && has_response(op->operation))
        add_open(track, state, request);
    return request;
}

/* Handles a request that is not beyond all earlier requests. */
static uint32_t take_old(struct uro_track *track, uint32_t flow, uint32_t position, uint32_t found,
                         uint32_t span)
{
    struct uro_track_flow *state = &track->flows[flow];

    if (found != URO_CAPTURE_NONE) {
        struct uro_track_request *request = &track->requests[found];
        track->marks[position] |= URO_TRACK_REPEATED;
        track->related[position] = request->last;
        request->last = position;
        request->times++;
        return found;
    }
    const uint32_t psn = track->capture->packets[position].psn;
    if (uro_track_diff(psn, state->start) >= 0 && state->holes > state->filled) {
        track->marks[position] |= URO_TRACK_LATE;
        state->filled++;
    } else {
        track->marks[position] |= URO_TRACK_REPEATED;
    }
    const uint32_t request = add_request(track, flow, position, span);
    if (request != URO_CAPTURE_NONE)
        track->requests[request].ended = 0;
    if (uro_capture_op(&track->capture->packets[position])->operation == URO_READ)
        state->parts++;
    return request;
}

static int take_request(struct uro_track *track, uint32_t position, struct uro_track_event *event)
{
    const struct uro_capture_packet *packet = &track->capture->packets[position];
    const struct uro_opcode *op = uro_capture_op(packet);
    const uint32_t flow = packet->flow;
    const uint32_t span = op->operation == URO_READ
                              ? uro_track_span(track->capture, flow, packet->message_length)
                              : 1;
    struct uro_track_flow *state = &track->flows[flow];
    uint32_t found = find_request(track, flow, packet->psn);

    if (state->begun && is_restart(track, state, packet, found)) {
        restart(track, flow, position);
        found = URO_CAPTURE_NONE;
    }
    event->before = *state;
    event->known = state->begun;
    event->distance = state->begun ? uro_track_diff(packet->psn, state->next) : 0;
    event->fresh = event->distance >= 0;
    event->other = found != URO_CAPTURE_NONE &&
                   differs(&track->capture->packets[track->requests[found].first], packet);
    event->flow = flow;
    event->request = event->fresh ? take_fresh(track, flow, position, span)
                                  : take_old(track, flow, position, found, span);
    if (event->request == URO_CAPTURE_NONE)
        return -ENOMEM;
    if (!event->fresh)
        state->repeated = position;
    state->last = (packet->psn + (span == 0 ? 1 : span)) & URO_PSN_MASK;
    if (span > 1 && !remember_read(track, flow, event->request, position, span))
        return -ENOMEM;
    return 1;
}

/* ---- responses ----------------------------------------------------------------------------- */

/* Returns the request that the PSN belongs to: the request with this PSN, or a READ with several
 * PSNs. */
static uint32_t covering_request(struct uro_track *track, uint32_t flow, uint32_t psn)
{
    const struct uro_track_reads *reads = track->flows[flow].reads;
    const uint32_t found = find_request(track, flow, psn);

    if (found != URO_CAPTURE_NONE || reads == NULL)
        return found;
    for (uint32_t i = 1; i <= URO_TRACK_READS && i <= reads->count; i++) {
        const struct uro_track_read *read = &reads->read[(reads->count - i) % URO_TRACK_READS];
        const int32_t into = uro_track_diff(psn, read->psn);
        if (into >= 0 && (uint32_t)into < read->span)
            return read->request;
    }
    return URO_CAPTURE_NONE;
}

/* Counts the responses that came in order, for each READ they can belong to. */
static void count_answer(struct uro_track_flow *state, uint32_t psn)
{
    for (uint32_t i = 0; state->reads != NULL && i < URO_TRACK_READS && i < state->reads->count;
         i++) {
        struct uro_track_read *read = &state->reads->read[i];
        if (uro_track_diff(psn, read->psn) == (int32_t)read->answered &&
            read->answered < read->span)
            read->answered++;
    }
}

static void close_open(struct uro_track *track, struct uro_track_flow *state)
{
    while (state->open_first != URO_CAPTURE_NONE) {
        const struct uro_track_request *request = &track->requests[state->open_first];
        const uint32_t last =
            (request->psn + (request->span == 0 ? 1 : request->span) - 1) & URO_PSN_MASK;
        if (uro_track_diff(last, state->acked_psn) > 0)
            return;
        track->unanswered = track->unanswered || !request->answered;
        state->open_first = request->next_open;
        state->open_count--;
    }
    state->open_last = URO_CAPTURE_NONE;
}

/* Handles a response that acknowledges its PSN. */
static void take_positive(struct uro_track *track, struct uro_track_flow *state, uint32_t position)
{
    const uint32_t psn = track->capture->packets[position].psn;

    if (!state->acked || uro_track_diff(psn, state->acked_psn) > 0) {
        state->acked = true;
        state->acked_psn = psn;
        state->acked_packet = position;
        close_open(track, state);
    }
    if (state->holes > state->filled && uro_track_diff(psn, state->hole_end) >= 0 &&
        !track->incomplete) {
        track->incomplete = true;
        track->incomplete_at = position;
    }
}

static void measure(struct uro_track *track, struct uro_track_flow *state, uint32_t position,
                    struct uro_track_request *request)
{
    const uint64_t now = track->capture->packets[position].time;
    const uint64_t then = track->capture->packets[request->last].time;

    track->related[position] = request->last;
    request->answered = true;
    if (request->times != 1 || now <= then)
        return;
    if (now - then > state->rtt_max)
        state->rtt_max = now - then;
    track->marks[position] |= URO_TRACK_TIMED;
}

static void take_response(struct uro_track *track, uint32_t position, uint32_t flow,
                          struct uro_track_event *event)
{
    const struct uro_capture_packet *packet = &track->capture->packets[position];
    const enum uro_operation operation = uro_capture_op(packet)->operation;
    struct uro_track_flow *state = &track->flows[flow];

    event->flow = flow;
    event->before = *state;
    event->known = state->begun;
    event->distance = state->begun ? uro_track_diff(packet->psn, state->next) : 0;
    event->fresh = false;
    event->other = false;
    event->request = covering_request(track, flow, packet->psn);
    if (event->request != URO_CAPTURE_NONE)
        measure(track, state, position, &track->requests[event->request]);
    if (operation == URO_ACK && packet->aeth_kind != URO_AETH_ACK) {
        if (packet->aeth_kind == URO_AETH_RNR)
            track->marks[position] |= URO_TRACK_RNR;
        else
            track->marks[position] |= URO_TRACK_NAK;
        return;
    }
    if (operation == URO_READ)
        count_answer(state, packet->psn);
    if (state->begun)
        take_positive(track, state, position);
}

int uro_track_packet(struct uro_track *track, uint32_t position, struct uro_track_event *event)
{
    const struct uro_capture *capture = track->capture;
    const struct uro_capture_packet *packet = &capture->packets[position];

    if (packet->kind != URO_CAPTURE_ROCE)
        return 0;
    const struct uro_opcode *op = uro_capture_op(packet);
    if (op->operation == URO_NOTIFY)
        track->marks[position] |= URO_TRACK_CNP;
    if (is_copy(capture, position, track->doubled)) {
        track->marks[position] |= URO_TRACK_COPY;
        return 0;
    }
    *event = (struct uro_track_event){ .packet = position, .request = URO_CAPTURE_NONE };
    if (op->operation == URO_NOTIFY || op->service == URO_UD)
        return 0;
    if (op->role == URO_REQUEST)
        return take_request(track, position, event);
    if (capture->flows[packet->flow].peer == URO_CAPTURE_NONE)
        return 0;
    take_response(track, position, capture->flows[packet->flow].peer, event);
    return 1;
}
