/* SPDX-License-Identifier: BSD-3-Clause */
/* req.h - the RC requester: what its files offer to the rest of core.
 *
 *   req_plan.c      which packet comes next, if any; changes nothing
 *   req_send.c      makes that packet and moves the cursor
 *   req_complete.c  responses: what is done, what failed, when to go back
 *   req_retry.c     the one timer
 *
 * Sending is a cursor over the send queue; sending again is the cursor moved back to the oldest
 * unacknowledged PSN. Retransmission has no code of its own.
 */
#pragma once

#include "core/pair.h"

enum uro_req_plan_kind {
    URO_REQ_PLAN_NOTHING, /* no work, or waiting for an ACK, a slot, a timer, a next hop */
    URO_REQ_PLAN_PACKET,
    URO_REQ_PLAN_FAIL, /* the request at the cursor failed locally and it is its turn */
};

struct uro_req_plan {
    enum uro_req_plan_kind kind;
    bool starts;        /* the request gets its PSNs with this packet */
    uint32_t index;     /* packet of the message, in PSNs from its first */
    uint32_t psn_count; /* of the whole message */
    uint32_t psns;      /* that this packet uses up: responses of a READ, else 1 */
    uint32_t offset;    /* octets of the message before this packet */
    uint32_t length;    /* payload octets; of a READ: octets asked for */
    enum uro_verb verb;
    enum uro_place place;
    bool ack_req;
};

/* What to send next. */
void uro_req_plan(const struct uro_qp *qp, struct uro_req_plan *plan);

/* The verb of a work request; false when a requester cannot carry it out. */
bool uro_req_verb(uint8_t wr_opcode, enum uro_verb *verb);

/* Describes the next packet; false when there is none now. May fail the queue pair. */
bool uro_req_next(struct uro_qp *qp, struct uro_tx *tx);

/* A response for this queue pair that passed the checks of receive.c. */
void uro_req_receive(struct uro_qp *qp, const struct uro_frame *frame);

/* The retry timer popped. */
void uro_req_on_timer(struct uro_qp *qp);

/* PSNs in the longest piece of a READ that one request packet asks for: bounds the responses that
 * can be under way and keeps PSN distances unambiguous for messages of 2^31 octets. */
#define URO_REQ_READ_PIECE 16384u
