/* SPDX-License-Identifier: BSD-3-Clause */
/* judge_inside.h - functions and state that the files of the judge share. */
#pragma once

#include "capture/judge.h"

/* The judge's state of a flow of requests and of the responses to them. A comment that ends with a
 * colon says when the fields after it are valid. */
struct uro_judge_flow {
    uint32_t generation; /* connection of the flow to which the other fields belong */

    bool flush_standard; /* a FLUSH had the ICRC of the standard: the sender tries both forms */

    bool message;            /* a message has begun and all of it was seen: */
    uint32_t message_length; /* length in its RETH, bytes */
    uint64_t message_bytes;  /* bytes so far */

    bool rnr; /* a request waits after an RNR NAK: */
    uint32_t rnr_packet;
    uint32_t rnr_psn;
    uint64_t rnr_delay; /* ns */
    uint32_t rnr_times; /* transmissions of the request before the NAK */
    uint32_t rnr_new;   /* position of the first new request in the meantime; NONE: none */

    uint32_t rnr_early;     /* PSNs that were retransmitted too early after an RNR NAK */
    uint32_t rnr_early_psn; /* PSN of the last of these repetitions */
    uint32_t rnr_kept;      /* RNR NAKs whose delay was kept */

    bool nak; /* the last NAK reported a gap: */
    uint32_t nak_packet;
    uint32_t nak_psn;
    uint32_t nak_count; /* times that the gap was reported */

    bool ghost; /* a response came for PSNs that were not sent: */
    uint32_t ghost_packet;
    uint32_t ghost_next; /* PSN after the newest request at that time */

    bool msn; /* a response with an MSN was seen: */
    uint32_t msn_first;
    int32_t msn_low; /* bounds of the MSN before the first request, relative to msn_first */
    int32_t msn_high;
    bool msn_wrong; /* an MSN was outside the bounds: */
    bool msn_wrong_few;
    uint32_t msn_wrong_packet;
    uint32_t msn_wrong_bound;
};

/* State of the CNPs of one flow: a leaky bucket. */
struct uro_judge_cnp {
    uint64_t time;
    uint64_t level; /* level in ns */
};

/* Adds a finding about the sender of the packet at @packet. */
URO_PRINTF(5)
void uro_judge_report(struct uro_judge *judge, enum uro_judge_check check, uint32_t packet,
                      uint32_t other, const char *format, ...);

/* Judges one packet alone; judge_frame.c. */
void uro_judge_frame(struct uro_judge *judge, uint32_t position);
/* Judge the packet of @event; judge_request.c, judge_response.c. */
void uro_judge_request(struct uro_judge *judge, const struct uro_track_event *event);
void uro_judge_response(struct uro_judge *judge, const struct uro_track_event *event);

/* Returns whether the capture has the first request of the connection. */
bool uro_judge_beginning_known(const struct uro_judge *judge, const struct uro_track_event *event);

/* Returns the name of a packet: the name of its opcode, or the kind of the NAK. */
const char *uro_judge_name(const struct uro_capture_packet *packet);
