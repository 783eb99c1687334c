/* SPDX-License-Identifier: BSD-3-Clause */
/* judge.c - runs the checks over a capture and keeps their findings; see judge.h. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/judge_inside.h"

const struct uro_judge_rule uro_judge_rules[URO_JUDGE_CHECK_COUNT] = {
#define X(name, id, wants, most, needs_all) [URO_JUDGE_##name] = { id, wants, most, needs_all },
    URO_JUDGE_CHECKS(X)
#undef X
};

const char *uro_judge_name(const struct uro_capture_packet *packet)
{
    const struct uro_opcode *op = uro_capture_op(packet);

    if (op->operation != URO_ACK || packet->aeth_kind == URO_AETH_ACK)
        return op->name;
    return packet->aeth_kind == URO_AETH_RNR ? "RNR NAK" : "NAK";
}

/* Returns the counts of the packet's flow, or of its sender if it has no flow. */
static struct uro_judge_count *count_of(struct uro_judge *judge, enum uro_judge_check check,
                                        uint32_t position)
{
    const struct uro_capture_packet *packet = &judge->capture->packets[position];
    const uint32_t row = packet->flow != URO_CAPTURE_NONE
                             ? packet->flow
                             : judge->capture->flow_count + packet->source;

    return &judge->counts[row][check];
}

void uro_judge_report(struct uro_judge *judge, enum uro_judge_check check, uint32_t packet,
                      uint32_t other, const char *format, ...)
{
    struct uro_judge_count *count = count_of(judge, check, packet);

    if (count->number++ >= uro_judge_rules[check].most) {
        judge->findings[count->last].more++;
        return;
    }
    void *moved =
        uro_index_grow(judge->findings, judge->count, &judge->room, sizeof *judge->findings);
    if (moved == NULL) {
        judge->failed = true;
        count->number--;
        return;
    }
    judge->findings = moved;
    count->last = judge->count;
    struct uro_judge_finding *finding = &judge->findings[judge->count++];
    *finding = (struct uro_judge_finding){ .check = check, .packet = packet, .other = other };
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(finding->seen, sizeof finding->seen, format, arguments);
    va_end(arguments);
}

/* Orders findings by their packets. */
static int compare(const void *a, const void *b)
{
    const struct uro_judge_finding *x = a, *y = b;

    return (x->packet > y->packet) - (x->packet < y->packet);
}

/* Drops the findings that a packet missing in the capture could explain. */
static void drop_uncertain(struct uro_judge *judge)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < judge->count; i++) {
        const enum uro_judge_check check = judge->findings[i].check;
        const bool depth = check == URO_JUDGE_DEPTH && judge->track->unanswered;
        if (depth || (!judge->complete && uro_judge_rules[check].needs_all))
            judge->withheld += 1 + judge->findings[i].more;
        else
            judge->findings[kept++] = judge->findings[i];
    }
    judge->count = kept;
}

static bool judge_all(struct uro_judge *judge)
{
    struct uro_track_event event;

    for (uint32_t i = 0; i < judge->capture->count && !judge->failed; i++) {
        const struct uro_capture_packet *packet = &judge->capture->packets[i];
        const int result = uro_track_packet(judge->track, i, &event);

        if (result < 0)
            return false;
        if ((packet->kind != URO_CAPTURE_ROCE && packet->kind != URO_CAPTURE_BAD) ||
            judge->track->marks[i] & URO_TRACK_COPY)
            continue;
        uro_judge_frame(judge, i);
        if (result == 0)
            continue;
        struct uro_judge_flow *flow = &judge->flows[event.flow];
        if (flow->generation != judge->track->flows[event.flow].generation)
            *flow = (struct uro_judge_flow){
                .generation = judge->track->flows[event.flow].generation,
            };
        if (uro_capture_op(packet)->role == URO_REQUEST)
            uro_judge_request(judge, &event);
        else
            uro_judge_response(judge, &event);
    }
    judge->complete = judge->capture->joined_count == 0 && !judge->track->incomplete &&
                      judge->unsent <= judge->unsent_seen;
    drop_uncertain(judge);
    if (judge->count > 0)
        qsort(judge->findings, judge->count, sizeof *judge->findings, compare);
    return !judge->failed;
}

struct uro_judge *uro_judge_run(const struct uro_capture *capture)
{
    struct uro_judge *judge = calloc(1, sizeof *judge);
    if (judge == NULL)
        return NULL;

    judge->capture = capture;
    judge->track = uro_track_open(capture);
    judge->flows = calloc(capture->flow_count + 1u, sizeof *judge->flows);
    judge->cnps = calloc(capture->flow_count + 1u, sizeof *judge->cnps);
    judge->counts =
        calloc((size_t)capture->flow_count + capture->address_count + 1, sizeof *judge->counts);
    if (judge->track != NULL && judge->flows != NULL && judge->cnps != NULL &&
        judge->counts != NULL && judge_all(judge))
        return judge;
    uro_judge_free(judge);
    return NULL;
}

void uro_judge_free(struct uro_judge *judge)
{
    if (judge == NULL)
        return;
    uro_track_close(judge->track);
    free(judge->findings);
    free(judge->flows);
    free(judge->cnps);
    free(judge->counts);
    free(judge);
}
