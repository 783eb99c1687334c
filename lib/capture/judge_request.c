/* SPDX-License-Identifier: BSD-3-Clause */
/* judge_request.c - the rules for requests: PSNs, segments, READs, and waiting after RNR NAKs. */
#include <inttypes.h>

#include "base/time.h"
#include "capture/judge_inside.h"

#define PMTU_MAX 4096u

/* Shortest ACK timeout. If a request is retransmitted sooner, the cause is the RNR NAK in between,
 * not a timeout. */
#define NO_TIMEOUT URO_MS(1)
/* A request within this time after an RNR NAK may have been sent before the NAK arrived. */
#define ON_ITS_WAY URO_MS(5)
/* A host may capture a packet that it sends after the response to it. */
#define SWAPPED URO_US(200)
/* Two UC packets within this time belong to the same connection. */
#define AT_ONCE URO_US(100)
/* A NAK causes no repetition after this time. */
#define NAK_FORGOTTEN URO_MS(20)
/* If this many RNR delays were ignored, timeouts cannot explain all of them. */
#define RNR_EARLY_MOST 3u

static const struct uro_capture_packet *packet_at(const struct uro_judge *judge, uint32_t position)
{
    return &judge->capture->packets[position];
}

static bool is_pmtu(uint32_t bytes)
{
    return bytes >= 256 && bytes <= PMTU_MAX && (bytes & (bytes - 1)) == 0;
}

/* Judges the payload length of a FIRST, MIDDLE, LAST or ONLY packet. */
static void judge_size(struct uro_judge *judge, uint32_t position)
{
    const struct uro_capture_packet *packet = packet_at(judge, position);
    const struct uro_opcode *op = uro_capture_op(packet);

    if (!op->payload)
        return;
    if (!uro_position_ends(op->position) && !is_pmtu(packet->payload))
        uro_judge_report(judge, URO_JUDGE_SEGMENT, position, URO_CAPTURE_NONE,
                         "%s of PSN %" PRIu32 " with %" PRIu32 " bytes, which is not a path MTU",
                         op->name, packet->psn, packet->payload);
    else if (op->position == URO_LAST && packet->payload == 0)
        uro_judge_report(judge, URO_JUDGE_SEGMENT, position, URO_CAPTURE_NONE,
                         "%s of PSN %" PRIu32 " without payload", op->name, packet->psn);
    else if (packet->payload > PMTU_MAX)
        uro_judge_report(judge, URO_JUDGE_SEGMENT, position, URO_CAPTURE_NONE,
                         "%s of PSN %" PRIu32 " with %" PRIu32 " bytes, more than any path MTU",
                         op->name, packet->psn, packet->payload);
}

/* Judges a packet by its predecessor in PSN order. UC may abandon a message. */
static void judge_sequence(struct uro_judge *judge, uint32_t position, uint32_t earlier)
{
    const struct uro_capture_packet *before = packet_at(judge, earlier);
    const struct uro_capture_packet *packet = packet_at(judge, position);
    const struct uro_opcode *op = uro_capture_op(packet), *op_before = uro_capture_op(before);
    const bool open = !uro_position_ends(op_before->position);
    const bool begins = uro_position_begins(op->position);

    if ((begins && !open) ||
        (op->service == URO_UC && (begins || packet->time - before->time > AT_ONCE)))
        return;
    if (begins || !open || op->operation != op_before->operation) {
        uro_judge_report(judge, URO_JUDGE_SEQUENCE, position, earlier,
                         "%s of PSN %" PRIu32 " follows %s of PSN %" PRIu32, op->name, packet->psn,
                         op_before->name, before->psn);
        return;
    }
    if (op->position == URO_MIDDLE ? packet->payload != before->payload && is_pmtu(packet->payload)
                                   : packet->payload > before->payload)
        uro_judge_report(judge, URO_JUDGE_SEGMENT, position, earlier,
                         "%s of PSN %" PRIu32 " with %" PRIu32
                         " bytes after a packet with %" PRIu32,
                         op->name, packet->psn, packet->payload, before->payload);
}

/* Compares the bytes of a WRITE whose packets were all seen with the length in its RETH. */
static void judge_length(struct uro_judge *judge, struct uro_judge_flow *flow, uint32_t position,
                         bool contiguous)
{
    const struct uro_capture_packet *packet = packet_at(judge, position);
    const struct uro_opcode *op = uro_capture_op(packet);

    if (op->operation != URO_WRITE) {
        flow->message = false;
        return;
    }
    if (uro_position_begins(op->position)) {
        flow->message = true;
        flow->message_length = packet->message_length;
        flow->message_bytes = 0;
    } else if (!contiguous) {
        flow->message = false;
    }
    flow->message_bytes += packet->payload;
    if (!flow->message)
        return;
    if (uro_position_ends(op->position) ? flow->message_bytes != flow->message_length
                                        : flow->message_bytes >= flow->message_length)
        uro_judge_report(judge, URO_JUDGE_WRITE_LENGTH, position, URO_CAPTURE_NONE,
                         "%" PRIu64 " bytes up to %s of PSN %" PRIu32 ", and %" PRIu32
                         " in the RETH",
                         flow->message_bytes, op->name, packet->psn, flow->message_length);
    if (uro_position_ends(op->position))
        flow->message = false;
}

/* Judges a request inside the PSNs of a READ: only the READ itself may be resumed there. */
static void judge_inside_read(struct uro_judge *judge, const struct uro_track_event *event,
                              const struct uro_track_read *read)
{
    const struct uro_capture_packet *packet = packet_at(judge, event->packet);
    const struct uro_capture_packet *whole = packet_at(judge, read->packet);
    const uint32_t into = (uint32_t)uro_track_diff(packet->psn, read->psn);
    const uint64_t offset = (uint64_t)into * uro_track_read_mtu(judge->capture, event->flow);

    if (uro_capture_op(packet)->operation != URO_READ)
        uro_judge_report(judge, URO_JUDGE_READ_PSN, event->packet, read->packet,
                         "%s has PSN %" PRIu32 ", and the READ of PSN %" PRIu32 " has %" PRIu32
                         " responses",
                         uro_capture_op(packet)->name, packet->psn, read->psn, read->span);
    else if (packet->va != whole->va + offset || packet->rkey != whole->rkey ||
             packet->message_length > whole->message_length - offset)
        uro_judge_report(judge, URO_JUDGE_READ_RESUME, event->packet, read->packet,
                         "READ of PSN %" PRIu32 " asks for %" PRIu32 " bytes at 0x%" PRIx64
                         "; the response of this PSN is at 0x%" PRIx64,
                         packet->psn, packet->message_length, packet->va, whole->va + offset);
}

/* Judges the first request of a PSN that comes after requests of later PSNs. */
static void judge_first_time(struct uro_judge *judge, const struct uro_track_event *event)
{
    const struct uro_track_reads *reads = event->before.reads;
    const uint32_t psn = packet_at(judge, event->packet)->psn;

    for (uint32_t i = 1; reads != NULL && i <= URO_TRACK_READS && i <= reads->count; i++) {
        const struct uro_track_read *read = &reads->read[(reads->count - i) % URO_TRACK_READS];
        const int32_t into = uro_track_diff(psn, read->psn);
        if (read->packet == event->packet || into <= 0 || (uint32_t)into >= read->span)
            continue;
        judge_inside_read(judge, event, read);
        return;
    }
}

static void judge_repeated(struct uro_judge *judge, const struct uro_track_event *event)
{
    const struct uro_track_request *request = &judge->track->requests[event->request];
    const struct uro_capture_packet *packet = packet_at(judge, event->packet);
    const struct uro_capture_packet *first = packet_at(judge, request->first);

    if (request->first == event->packet)
        judge_first_time(judge, event);
    else if (event->other && uro_capture_op(packet)->service != URO_UC)
        uro_judge_report(judge, URO_JUDGE_REPEAT, event->packet, request->first,
                         "PSN %" PRIu32 " is repeated as %s of %" PRIu32 " bytes at 0x%" PRIx64
                         ", and was %s of %" PRIu32 " at 0x%" PRIx64,
                         packet->psn, uro_capture_op(packet)->name,
                         packet->message_length > 0 ? packet->message_length : packet->payload,
                         packet->va, uro_capture_op(first)->name,
                         first->message_length > 0 ? first->message_length : first->payload,
                         first->va);
}

static void report_rnr(struct uro_judge *judge, const struct uro_judge_flow *flow,
                       uint32_t position)
{
    const struct uro_capture_packet *packet = packet_at(judge, position);
    const uint64_t nak_time = packet_at(judge, flow->rnr_packet)->time;

    uro_judge_report(
        judge, URO_JUDGE_RNR_WAIT, position, flow->rnr_packet,
        "request of PSN %" PRIu32 " %" PRIu64 " us after an RNR NAK that asks for %" PRIu64 " us",
        packet->psn, (packet->time - nak_time) / URO_US(1), flow->rnr_delay / URO_US(1));
}

/* Judges the repetition of a request that got an RNR NAK.
 *
 * The NAK may be lost between the capture and the requester. So the reason of an early repetition
 * may be a timeout or another response. In two cases the requester certainly ignored the RNR delay.
 * In the first case, the repetition comes sooner than any timeout, and no other packet was missing.
 * In the second case, several PSNs were retransmitted early, and no RNR delay was ever kept. */
static void judge_rnr_repeat(struct uro_judge *judge, struct uro_judge_flow *flow,
                             const struct uro_track_event *event, uint64_t waited)
{
    const struct uro_capture_packet *packet = packet_at(judge, event->packet);
    const struct uro_track_request *request = &judge->track->requests[event->request];
    const bool begins = event->before.last != packet->psn;
    const bool quiet =
        event->before.repeated <= request->first && event->before.open_count == 0 &&
        (!flow->nak || packet->time - packet_at(judge, flow->nak_packet)->time > NAK_FORGOTTEN);

    if (waited >= flow->rnr_delay - flow->rnr_delay / 16) {
        flow->rnr_kept++;
        if (flow->rnr_new != URO_CAPTURE_NONE && begins &&
            waited <= flow->rnr_delay + flow->rnr_delay / 4)
            report_rnr(judge, flow, flow->rnr_new);
        return;
    }
    if (!begins)
        return;
    if (flow->rnr_early == 0 || flow->rnr_early_psn != packet->psn)
        flow->rnr_early++;
    flow->rnr_early_psn = packet->psn;
    if ((flow->rnr_times == 1 && quiet &&
         packet->time - packet_at(judge, request->first)->time < NO_TIMEOUT) ||
        (flow->rnr_early >= RNR_EARLY_MOST && flow->rnr_kept == 0))
        report_rnr(judge, flow, event->packet);
}

/* Judges a request that comes while the flow waits after an RNR NAK. A new request counts only if
 * the refused request is later retransmitted in time, which shows that the NAK arrived. */
static void judge_rnr(struct uro_judge *judge, struct uro_judge_flow *flow,
                      const struct uro_track_event *event)
{
    const struct uro_capture_packet *packet = packet_at(judge, event->packet);
    const uint64_t nak_time = packet_at(judge, flow->rnr_packet)->time;
    const uint64_t waited = packet->time > nak_time ? packet->time - nak_time : 0;

    if (packet->psn == flow->rnr_psn) {
        judge_rnr_repeat(judge, flow, event, waited);
        flow->rnr = false;
    } else if (event->fresh && event->distance == 0 && flow->rnr_new == URO_CAPTURE_NONE &&
               waited > ON_ITS_WAY + 4 * event->before.rtt_max &&
               waited < flow->rnr_delay - flow->rnr_delay / 16) {
        flow->rnr_new = event->packet;
    }
}

/* Judges the first request of a connection, and the number of READs in flight, by the values in the
 * messages of the connection manager. */
static void judge_terms(struct uro_judge *judge, const struct uro_track_event *event)
{
    const struct uro_capture_flow *flow = &judge->capture->flows[event->flow];
    const struct uro_track_flow *state = &judge->track->flows[event->flow];
    const struct uro_capture_packet *packet = packet_at(judge, event->packet);

    if (flow->connections != 1 || state->generation != 0 || flow->first < flow->cm_packet)
        return;
    if (!event->known && uro_track_diff(packet->psn, flow->start_psn & URO_PSN_MASK) < 0)
        uro_judge_report(judge, URO_JUDGE_START, event->packet, flow->cm_packet,
                         "the first request has PSN %" PRIu32 "; the peer asked for %" PRIu32,
                         packet->psn, flow->start_psn);
    if (event->fresh && state->open_count > event->before.open_count &&
        state->open_count > flow->read_depth)
        uro_judge_report(judge, URO_JUDGE_DEPTH, event->packet, flow->cm_packet,
                         "%" PRIu32 " READs and atomics outstanding; the peer allows %" PRIu32,
                         state->open_count, flow->read_depth);
}

/* Reports a response that came before its request. */
static void report_ghost(struct uro_judge *judge, const struct uro_judge_flow *flow,
                         uint32_t request)
{
    const struct uro_capture_packet *packet = packet_at(judge, flow->ghost_packet);

    judge->unsent_seen++;
    uro_judge_report(judge, URO_JUDGE_GHOST, flow->ghost_packet, request,
                     "%s of PSN %" PRIu32 " when the last request was PSN %" PRIu32
                     "; the next one is sent later",
                     uro_judge_name(packet), packet->psn, (flow->ghost_next - 1) & URO_PSN_MASK);
}

static void report_msn(struct uro_judge *judge, const struct uro_judge_flow *flow)
{
    const struct uro_capture_packet *packet = packet_at(judge, flow->msn_wrong_packet);

    uro_judge_report(judge, URO_JUDGE_MSN, flow->msn_wrong_packet, URO_CAPTURE_NONE,
                     "MSN %" PRIu32 " at PSN %" PRIu32 "; at %s %" PRIu32 " messages are finished",
                     packet->msn, packet->psn, flow->msn_wrong_few ? "least" : "most",
                     flow->msn_wrong_bound);
}

/* Returns whether a response for unsent PSNs is certainly wrong. The capture may lack the request,
 * and have only its repetition. But then the MSN of the response counts the request. */
static bool ghost_is_certain(const struct uro_judge *judge, const struct uro_judge_flow *flow,
                             const struct uro_track_event *event)
{
    const struct uro_capture_packet *packet = packet_at(judge, event->packet);
    const struct uro_capture_packet *response = packet_at(judge, flow->ghost_packet);

    if (packet->psn != flow->ghost_next || !flow->msn ||
        !(uro_capture_op(response)->ext & URO_EXT_AETH) ||
        !uro_position_ends(uro_capture_op(packet)->position))
        return false;
    return uro_track_diff(response->msn, flow->msn_first) <=
           flow->msn_low + (int32_t)event->before.ended;
}

/* Reports pending findings at the next request, unless missing PSNs may explain them. */
static void report_waiting(struct uro_judge *judge, struct uro_judge_flow *flow,
                           const struct uro_track_event *event)
{
    const struct uro_capture_packet *packet = packet_at(judge, event->packet);

    if (flow->ghost && ghost_is_certain(judge, flow, event))
        report_ghost(judge, flow, event->packet);
    else if (flow->ghost && packet->psn == flow->ghost_next &&
             packet->time < packet_at(judge, flow->ghost_packet)->time + SWAPPED)
        judge->unsent_seen++; /* the capture has the request and the response in the wrong order */
    if (flow->msn_wrong && event->distance == 0)
        report_msn(judge, flow);
    flow->ghost = false;
    flow->msn_wrong = false;
}

void uro_judge_request(struct uro_judge *judge, const struct uro_track_event *event)
{
    struct uro_judge_flow *flow = &judge->flows[event->flow];
    const struct uro_track_flow *before = &event->before;
    const struct uro_capture_packet *packet = packet_at(judge, event->packet);
    const bool contiguous =
        event->known && event->fresh && event->distance == 0 && !before->span_unknown;

    judge_size(judge, event->packet);
    if (event->fresh)
        report_waiting(judge, flow, event);
    if (uro_capture_op(packet)->operation == URO_FLUSH && !(packet->flaws & URO_FLAW_ICRC_FLUSH))
        flow->flush_standard = true;
    if (packet->flaws & URO_FLAW_ICRC_FLUSH && !flow->flush_standard && event->known &&
        event->distance == 0 && (!packet->migrated || uro_judge_beginning_known(judge, event)))
        uro_judge_report(judge, URO_JUDGE_ICRC_FLUSH, event->packet, URO_CAPTURE_NONE,
                         "the ICRC covers the headers twice, as that of Linux rxe does");
    if (event->fresh) {
        if (contiguous)
            judge_sequence(judge, event->packet, judge->track->requests[before->newest].last);
        judge_length(judge, flow, event->packet, contiguous);
        judge_terms(judge, event);
    } else {
        judge_repeated(judge, event);
        flow->message = false;
    }
    if (flow->rnr && uro_track_diff(packet->psn, flow->rnr_psn) >= 0)
        judge_rnr(judge, flow, event);
}
