/* SPDX-License-Identifier: BSD-3-Clause */
/* judge_response.c - the rules for responses: PSNs, MSNs, NAKs, and the form of READ responses. */
#include <inttypes.h>

#include "base/time.h"
#include "capture/judge_inside.h"
#include "core/req_retry.h"

/* Two packets of a sender with at least this time between them were sent in the order of the
 * capture. */
#define IN_ORDER URO_MS(20)
/* Two responses within this time were sent without a request in between. */
#define AT_ONCE   URO_US(2)
#define MSN_ANY   (1 << 22) /* beyond any number of messages in flight */
#define NAKS_MOST 4u        /* NAKs for one gap that no reordering explains */
/* All requests are known when all requests were acknowledged this many times. */
#define IN_STEP_MOST 3u

static const struct uro_capture_packet *packet_at(const struct uro_judge *judge, uint32_t position)
{
    return &judge->capture->packets[position];
}

static uint64_t time_between(const struct uro_judge *judge, uint32_t from, uint32_t to)
{
    const uint64_t a = packet_at(judge, from)->time, b = packet_at(judge, to)->time;

    return b > a ? b - a : 0;
}

/* Returns whether the flow and its peer flow certainly belong to one connection. */
static bool pairing_certain(const struct uro_judge *judge, uint32_t flow)
{
    return judge->capture->flows[flow].pairing == URO_PAIRED_BY_CM ||
           judge->capture->flows[flow].pairing == URO_PAIRED_BY_PSN;
}

bool uro_judge_beginning_known(const struct uro_judge *judge, const struct uro_track_event *event)
{
    const struct uro_judge_flow *flow = &judge->flows[event->flow];
    const struct uro_capture_flow *capture = &judge->capture->flows[event->flow];
    const uint32_t before_first = (flow->msn_first + (uint32_t)flow->msn_high) & URO_PSN_MASK;

    if (!pairing_certain(judge, event->flow) || event->before.span_unknown)
        return false;
    return (flow->msn && before_first == 0) ||
           (capture->connections == 1 && event->before.generation == 0 &&
            capture->start_psn == event->before.start);
}

/* Returns whether no request from the time before the capture can be in flight. This is so if the
 * capture has the first request, or if all requests were acknowledged several times. */
static bool all_requests_known(const struct uro_judge *judge, const struct uro_track_event *event)
{
    return uro_judge_beginning_known(judge, event) ||
           (pairing_certain(judge, event->flow) && event->before.in_step >= IN_STEP_MOST);
}

/* Records a response to a PSN that no request has had yet. The response is reported if the requests
 * with this PSN are sent later. Otherwise the capture may lack the requests. */
static void note_ghost(struct uro_judge *judge, const struct uro_track_event *event)
{
    struct uro_judge_flow *flow = &judge->flows[event->flow];

    if (!pairing_certain(judge, event->flow) || event->before.span_unknown)
        return;
    if (judge->unsent++ == 0)
        judge->unsent_packet = event->packet;
    if (!all_requests_known(judge, event) || flow->ghost)
        return;
    flow->ghost = true;
    flow->ghost_packet = event->packet;
    flow->ghost_next = event->before.next;
}

/* ---- MSN ----------------------------------------------------------------------------------- */

/* Returns the smallest possible number of messages that were finished when the response was sent,
 * counted from the first request of the capture. */
static uint32_t fewest_finished(const struct uro_judge *judge, const struct uro_track_event *event)
{
    const struct uro_capture_packet *packet = packet_at(judge, event->packet);
    const struct uro_opcode *op = uro_capture_op(packet);

    if (event->request == URO_CAPTURE_NONE)
        return 0;
    const struct uro_track_request *request = &judge->track->requests[event->request];
    const bool ends = uro_position_ends(uro_capture_op(packet_at(judge, request->first))->position);
    const bool answered = op->operation == URO_ACK && packet->aeth_kind == URO_AETH_ACK;
    return request->ended - (ends && !answered && request->ended > 0);
}

/* Narrows the bounds of the MSN before the first request. Records a response that leaves no number
 * between the bounds. The response is reported when the next request shows that the capture lacks
 * no request. If the beginning of the connection is not in the capture, the MSN may count earlier
 * requests, too. */
static void judge_msn(struct uro_judge *judge, const struct uro_track_event *event)
{
    struct uro_judge_flow *flow = &judge->flows[event->flow];
    const struct uro_capture_packet *packet = packet_at(judge, event->packet);
    const int32_t sent = (int32_t)(event->before.ended + event->before.holes + event->before.parts);
    const int32_t finished = (int32_t)fewest_finished(judge, event);

    if (!flow->msn) {
        flow->msn = true;
        flow->msn_first = packet->msn;
        flow->msn_low = -MSN_ANY;
        flow->msn_high = -finished;
    }
    const int32_t msn = uro_track_diff(packet->msn, flow->msn_first);
    const bool known = uro_judge_beginning_known(judge, event);
    if (msn - finished < flow->msn_low || (known && msn - sent > flow->msn_high)) {
        const bool few = msn - finished < flow->msn_low;
        if (flow->msn_wrong)
            return;
        flow->msn_wrong = true;
        flow->msn_wrong_few = few;
        flow->msn_wrong_packet = event->packet;
        flow->msn_wrong_bound =
            (flow->msn_first + (uint32_t)(few ? flow->msn_low + finished : flow->msn_high + sent)) &
            URO_PSN_MASK;
        return;
    }
    if (known && msn - sent > flow->msn_low)
        flow->msn_low = msn - sent;
    if (msn - finished < flow->msn_high)
        flow->msn_high = msn - finished;
}

/* ---- NAKs ---------------------------------------------------------------------------------- */

static void judge_rnr_nak(struct uro_judge *judge, const struct uro_track_event *event)
{
    struct uro_judge_flow *flow = &judge->flows[event->flow];
    const struct uro_capture_packet *packet = packet_at(judge, event->packet);

    flow->rnr = true;
    flow->rnr_packet = event->packet;
    flow->rnr_new = URO_CAPTURE_NONE;
    flow->rnr_psn = packet->psn;
    flow->rnr_delay = uro_req_retry_rnr_delay(packet->aeth_value);
    flow->rnr_times =
        event->request == URO_CAPTURE_NONE ? 0 : judge->track->requests[event->request].times;
}

/* Judges a NAK that reports a gap. */
static void judge_gap_nak(struct uro_judge *judge, const struct uro_track_event *event)
{
    struct uro_judge_flow *flow = &judge->flows[event->flow];
    const struct uro_capture_packet *packet = packet_at(judge, event->packet);
    const struct uro_track_flow *before = &event->before;

    if (before->acked && uro_track_diff(packet->psn, before->acked_psn) <= 0 &&
        pairing_certain(judge, event->flow) &&
        time_between(judge, before->acked_packet, event->packet) > IN_ORDER)
        uro_judge_report(judge, URO_JUDGE_NAK_PSN, event->packet, before->acked_packet,
                         "NAK PSN sequence for PSN %" PRIu32 "; PSN %" PRIu32 " was acknowledged",
                         packet->psn, before->acked_psn);
    if (flow->rnr && flow->rnr_psn == packet->psn)
        uro_judge_report(judge, URO_JUDGE_RNR_NAK, event->packet, flow->rnr_packet,
                         "NAK PSN sequence for PSN %" PRIu32
                         " after an RNR NAK for it, and before it is repeated",
                         packet->psn);
    const uint32_t sent =
        event->request == URO_CAPTURE_NONE ? 0 : judge->track->requests[event->request].last;
    if (flow->nak && flow->nak_psn == packet->psn && sent <= flow->nak_packet) {
        if (++flow->nak_count >= NAKS_MOST)
            uro_judge_report(judge, URO_JUDGE_NAK_AGAIN, event->packet, flow->nak_packet,
                             "NAK PSN sequence for PSN %" PRIu32 " for the time %" PRIu32
                             ", and the PSN was not repeated",
                             packet->psn, flow->nak_count);
        return;
    }
    flow->nak = true;
    flow->nak_packet = event->packet;
    flow->nak_psn = packet->psn;
    flow->nak_count = 1;
}

static void judge_syndrome(struct uro_judge *judge, const struct uro_track_event *event)
{
    const struct uro_capture_packet *packet = packet_at(judge, event->packet);

    if (packet->aeth_kind == URO_AETH_RESERVED ||
        (packet->aeth_kind == URO_AETH_NAK && packet->aeth_value > URO_NAK_OPERATIONAL))
        uro_judge_report(judge, URO_JUDGE_SYNDROME, event->packet, URO_CAPTURE_NONE,
                         "syndrome 0x%02x at PSN %" PRIu32,
                         packet->aeth_kind << 5 | packet->aeth_value, packet->psn);
}

/* ---- the kind of the response -------------------------------------------------------------- */

/* Returns whether the operation of @response can answer a request of the operation @request. An
 * acknowledge packet can answer every request. */
static bool answers(enum uro_operation request, const struct uro_capture_packet *response)
{
    switch (uro_capture_op(response)->operation) {
    case URO_READ:
        return request == URO_READ || request == URO_FLUSH || request == URO_ATOMIC_WRITE;
    case URO_ATOMIC_ACK:
        return request == URO_CMP_SWAP || request == URO_FETCH_ADD;
    case URO_SEND:
    case URO_WRITE:
    case URO_CMP_SWAP:
    case URO_FETCH_ADD:
    case URO_ACK:
    case URO_FLUSH:
    case URO_ATOMIC_WRITE:
    case URO_NOTIFY:
    case URO_OPERATION_COUNT:
        break;
    }
    return true;
}

/* Returns whether a response has the position and the payload length that @read requires. */
static bool fits_read(const struct uro_capture_packet *response, const struct uro_track_read *read,
                      uint32_t mtu)
{
    const uint32_t into = (uint32_t)uro_track_diff(response->psn, read->psn);
    const enum uro_position place = uro_capture_op(response)->position;
    const bool last = into == read->span - 1;

    if (place != (last ? URO_LAST : into == 0 ? URO_FIRST : URO_MIDDLE))
        return false;
    return response->payload == (last ? read->length - into * mtu : mtu);
}

/* Returns whether the response may begin the answer to a duplicate READ that the capture does not
 * have. A response that follows the previous response at once does not begin such an answer. */
static bool may_be_resumed(const struct uro_judge *judge, const struct uro_track_event *event,
                           const struct uro_track_read *read, uint32_t mtu)
{
    const struct uro_capture_packet *response = packet_at(judge, event->packet);
    const uint32_t into = (uint32_t)uro_track_diff(response->psn, read->psn);
    const enum uro_position place = uro_capture_op(response)->position;
    const uint32_t rest = read->length - into * mtu;
    const bool in_order = event->before.acked &&
                          uro_track_diff(response->psn, event->before.acked_psn) == 1 &&
                          time_between(judge, event->before.acked_packet, event->packet) < AT_ONCE;

    if (place == URO_ONLY)
        return response->payload <= mtu && response->payload <= rest && !in_order;
    return place == URO_FIRST && response->payload == mtu && rest > mtu && !in_order;
}

/* Returns whether a response fits a READ with a single response. This READ may repeat the end of a
 * longer READ. */
static bool fits_single(const struct uro_judge *judge, const struct uro_track_event *event)
{
    const struct uro_track_request *request = &judge->track->requests[event->request];
    const struct uro_capture_packet *response = packet_at(judge, event->packet);
    const struct uro_capture_packet *asked = packet_at(judge, request->last);
    const struct uro_capture_packet *first = packet_at(judge, request->first);
    const uint32_t bytes = uro_capture_op(asked)->operation == URO_READ ? asked->message_length : 0;

    if (uro_capture_op(response)->position != URO_ONLY)
        return false;
    return response->payload == bytes || response->payload == first->message_length;
}

/* Judges the position and the length of a READ response by all READs to which it can belong. A
 * response out of turn may belong to an earlier connection of the queue pairs. */
static void judge_read_form(struct uro_judge *judge, const struct uro_track_event *event,
                            bool in_turn)
{
    const struct uro_capture_packet *response = packet_at(judge, event->packet);
    const struct uro_track_request *request = &judge->track->requests[event->request];
    const struct uro_track_reads *reads = event->before.reads;
    const uint32_t mtu = uro_track_read_mtu(judge->capture, event->flow);
    const struct uro_track_read *tail = NULL;
    bool fits = request->psn == response->psn && fits_single(judge, event);

    if (request->span == 0 || mtu == 0)
        return;
    for (uint32_t i = 1; reads != NULL && i <= URO_TRACK_READS && i <= reads->count; i++) {
        const struct uro_track_read *read = &reads->read[(reads->count - i) % URO_TRACK_READS];
        const int32_t into = uro_track_diff(response->psn, read->psn);
        if (into < 0 || (uint32_t)into >= read->span)
            continue;
        fits = fits || fits_read(response, read, mtu) ||
               (into > 0 && may_be_resumed(judge, event, read, mtu));
        if (into == 0 && read->tail && tail == NULL)
            tail = read;
    }
    if (!fits && in_turn && (reads == NULL || reads->count <= URO_TRACK_READS))
        uro_judge_report(judge, URO_JUDGE_READ_FORM, event->packet, request->last,
                         "%s of PSN %" PRIu32 " with %" PRIu32 " bytes to the READ of PSN %" PRIu32,
                         uro_capture_op(response)->name, response->psn, response->payload,
                         request->psn);
    if (fits && tail != NULL && !uro_position_begins(uro_capture_op(response)->position))
        uro_judge_report(judge, URO_JUDGE_DUP_READ, event->packet, tail->packet,
                         "%s as the first response to the READ that was resumed at PSN %" PRIu32,
                         uro_capture_op(response)->name, tail->psn);
}

/* Judges a bare ACK of a READ or atomic that has no response yet. */
static void judge_bare_ack(struct uro_judge *judge, const struct uro_track_event *event)
{
    const struct uro_track_request *request = &judge->track->requests[event->request];
    const struct uro_track_flow *before = &event->before;
    const enum uro_operation operation =
        uro_capture_op(packet_at(judge, request->first))->operation;

    if ((operation != URO_READ && operation != URO_CMP_SWAP && operation != URO_FETCH_ADD) ||
        request->times != 1 || !all_requests_known(judge, event) ||
        (before->acked && uro_track_diff(before->acked_psn, request->psn) >= 0))
        return;
    uro_judge_report(judge, URO_JUDGE_BARE_ACK, event->packet, request->last,
                     "ACK of PSN %" PRIu32 ", which is %s", packet_at(judge, event->packet)->psn,
                     uro_capture_op(packet_at(judge, request->first))->name);
}

static void judge_kind(struct uro_judge *judge, const struct uro_track_event *event)
{
    const struct uro_capture_packet *response = packet_at(judge, event->packet);
    const struct uro_track_request *request = &judge->track->requests[event->request];
    const struct uro_opcode *asked = uro_capture_op(packet_at(judge, request->first));
    const enum uro_operation operation = uro_capture_op(response)->operation;

    const bool in_turn = event->before.acked
                             ? uro_track_diff(response->psn, event->before.acked_psn) == 1
                             : request->psn == event->before.start;

    if (!answers(asked->operation, response)) {
        if (pairing_certain(judge, event->flow) && in_turn &&
            uro_position_begins(uro_capture_op(response)->position))
            uro_judge_report(judge, URO_JUDGE_RESPONSE, event->packet, request->last,
                             "%s of PSN %" PRIu32 ", which is %s", uro_capture_op(response)->name,
                             response->psn, asked->name);
    } else if (operation == URO_READ) {
        judge_read_form(judge, event, in_turn);
    } else if (operation == URO_ACK && response->aeth_kind == URO_AETH_ACK) {
        judge_bare_ack(judge, event);
    }
}

void uro_judge_response(struct uro_judge *judge, const struct uro_track_event *event)
{
    struct uro_judge_flow *flow = &judge->flows[event->flow];
    const struct uro_capture_packet *packet = packet_at(judge, event->packet);
    const bool negative =
        uro_capture_op(packet)->operation == URO_ACK && packet->aeth_kind != URO_AETH_ACK;

    judge_syndrome(judge, event);
    if (!event->known)
        return;
    if (event->distance >= 0) {
        note_ghost(judge, event);
        return;
    }
    if (uro_capture_op(packet)->ext & URO_EXT_AETH)
        judge_msn(judge, event);
    if (event->request != URO_CAPTURE_NONE)
        judge_kind(judge, event);
    if (negative && packet->aeth_kind == URO_AETH_NAK && packet->aeth_value == URO_NAK_PSN_SEQUENCE)
        judge_gap_nak(judge, event);
    if (negative && packet->aeth_kind == URO_AETH_RNR)
        judge_rnr_nak(judge, event);
    else if (!negative && flow->rnr && uro_track_diff(packet->psn, flow->rnr_psn) >= 0)
        flow->rnr = false;
}
