/* SPDX-License-Identifier: BSD-3-Clause */
/* track.h - follows the connections of a capture, one packet after the other.
 *
 * The state follows from the capture alone, and may differ from the state of the two sides: packets
 * may be lost before or after the point of capture, and the capture may have dropped packets. For a
 * connection whose beginning is not in the capture, earlier packets are unknown.
 */
#pragma once

#include "capture/capture.h"
#include "core/psn.h"

/* Marks of a packet. */
#define URO_TRACK_REPEATED (1u << 0) /* a request that was, or may have been, sent before */
#define URO_TRACK_COPY     (1u << 1) /* the same packet again, captured twice or duplicated */
#define URO_TRACK_GAP      (1u << 2) /* requests before this one are not in the capture so far */
#define URO_TRACK_LATE     (1u << 3) /* the request was missing until now */
#define URO_TRACK_NAK      (1u << 4)
#define URO_TRACK_RNR      (1u << 5)
#define URO_TRACK_CNP      (1u << 6)
#define URO_TRACK_RESTART  (1u << 7) /* the queue pair number belongs to a new connection */
#define URO_TRACK_TIMED    (1u << 8) /* a response whose request was sent once: a round trip */

/* A PSN with a request. */
struct uro_track_request {
    uint32_t flow;
    uint32_t generation; /* connections of the flow before this connection */
    uint32_t psn;
    uint32_t span;  /* PSNs; a READ has one for each response; 0: unknown */
    uint32_t first; /* positions of the first and the last transmission */
    uint32_t last;
    uint32_t times;     /* transmissions */
    uint32_t ended;     /* smallest number of messages that end at this PSN or before */
    uint32_t holes;     /* uro_track_flow.holes at its first transmission */
    bool answered;      /* a response with this PSN, or one of its PSNs, was seen */
    uint32_t next_open; /* next READ or atomic without a response; NONE: the last */
};

/* One transmission of a READ with several responses. */
struct uro_track_read {
    uint32_t request; /* position in uro_track.requests */
    uint32_t psn;
    uint32_t span;
    uint32_t length; /* bytes that this transmission asked for */
    uint32_t packet;
    /* requests the tail of a READ that was sent once, and whose responses were all seen */
    bool tail;
    uint32_t answered; /* responses seen in order, from the first on */
};

#define URO_TRACK_READS 32u /* transmissions of READs that a flow remembers */

struct uro_track_reads {
    struct uro_track_read read[URO_TRACK_READS];
    uint32_t count; /* READs recorded so far */
};

/* The requests of a flow, and the responses to them. */
struct uro_track_flow {
    uint32_t generation;
    bool begun;         /* a request was seen: the next fields are valid */
    bool span_unknown;  /* the last request is a READ whose number of responses is unknown */
    uint32_t start;     /* PSN of the first request seen */
    uint32_t next;      /* PSN behind the newest request */
    uint32_t newest;    /* index of the newest request in uro_track.requests */
    uint32_t last;      /* PSN behind the last transmission */
    uint32_t repeated;  /* position of the last request that was not fresh; 0: none */
    uint32_t ended;     /* messages that ended */
    uint32_t holes;     /* number of PSNs that were missing */
    uint32_t filled;    /* number of missing PSNs that were seen later */
    uint32_t parts;     /* READs inside the PSNs of an earlier READ: each may count as a message */
    uint32_t hole_end;  /* PSN behind the newest hole; valid if holes is not 0 */
    bool acked;         /* acked_psn is valid */
    uint32_t acked_psn; /* newest PSN acknowledged */
    uint32_t acked_packet; /* position of the response that acknowledged it */
    uint32_t in_step;      /* new requests that came when all earlier requests were acknowledged */
    uint64_t rtt_max;      /* longest time from a request to its response, ns */
    uint32_t open_first;   /* list of the READs and atomics without a response */
    uint32_t open_last;
    uint32_t open_count;
    struct uro_track_reads *reads; /* NULL: no READ with several responses yet */
};

struct uro_track {
    const struct uro_capture *capture;
    struct uro_track_flow *flows;       /* one for each flow of the capture */
    struct uro_track_request *requests; /* in the order of their first transmission */
    uint32_t request_count;
    uint32_t request_room;
    struct uro_index request_index;
    uint16_t *marks;   /* of each packet: set of URO_TRACK_* */
    uint32_t *related; /* of each packet: the request before a duplicate, or the request that a
                            response answers; NONE: unknown */
    bool doubled;      /* the capture has nearly every packet twice */
    bool incomplete;   /* a packet was acknowledged that the capture does not have */
    /* a READ or atomic was acknowledged whose response the capture does not have */
    bool unanswered;
    uint32_t incomplete_at; /* position of the response that shows that a packet is missing */
};

/* The effect of a packet on its flow. */
struct uro_track_event {
    uint32_t packet; /* position of the packet */
    /* Flow of the requests: the packet's flow for a request, its peer flow for a response. */
    uint32_t flow;
    /* Index in uro_track.requests of the request with the packet's PSN. For a response, this may be
     * a READ with several PSNs. NONE: no such request was seen. */
    uint32_t request;
    int32_t distance; /* distance from uro_track_flow.next before the packet to the packet's PSN */
    bool known;       /* distance is valid: a request was seen before */
    bool fresh;       /* a request beyond all earlier requests */
    bool other;       /* a duplicate request that differs from its first transmission */
    struct uro_track_flow before; /* the flow before the packet */
};

/* Begins to follow @capture, which stays unchanged. Returns NULL when out of memory. */
struct uro_track *uro_track_open(const struct uro_capture *capture);

/* Follows the packet at @position. Call it with each position once, in ascending order. Writes the
 * effect of the packet to @event. Returns 1 if @event is valid, or -ENOMEM. Returns 0 for a copy, a
 * CNP, a datagram, a packet that is not RoCE, and a response whose flow of requests is not
 * known. */
URO_NODISCARD int uro_track_packet(struct uro_track *track, uint32_t position,
                                   struct uro_track_event *event);

/* Returns the PSNs that a READ of @length bytes takes in @flow; 0: unknown. */
uint32_t uro_track_span(const struct uro_capture *capture, uint32_t flow, uint32_t length);

/* Returns the path MTU of the responses to requests of @flow; 0: unknown. */
uint32_t uro_track_read_mtu(const struct uro_capture *capture, uint32_t flow);

/* Frees @track, which may be NULL. */
void uro_track_close(struct uro_track *track);

/* Returns @a - @b as serial numbers. */
static inline int32_t uro_track_diff(uint32_t a, uint32_t b)
{
    return uro_psn_diff(uro_psn_make(a), uro_psn_make(b));
}
