/* SPDX-License-Identifier: BSD-3-Clause */
/* rxe.h - a model of the requester of Linux rxe: which packets it sends, and what it makes of the answers.
 *
 * The model makes the mistakes of kernels 6.1 and 6.12 that tests/interop/rxe-rules.txt and decision 38 describe. It has no
 * clock and no queue of packets: the test decides when the model sends, when an answer reaches it, and when its timer
 * fires. Only what a lossy network needs is there: RNR NAKs, which pause rxe, fail the model.
 */
#pragma once

#include "scene.h"
#include "wire/frame.h"

#define RXE_MESSAGES_MAX 64u

enum rxe_kernel { RXE_6_1, RXE_6_12 };

enum rxe_state {
    RXE_WAITS,   /* no packet was sent since it was posted, or since the model went back */
    RXE_SENDING, /* some packets were sent */
    RXE_SENT     /* all packets were sent */
};

struct rxe_message {
    enum uro_operation operation; /* SEND, WRITE, READ or FETCH_ADD */
    uint32_t length;              /* bytes */
    uint32_t left;                /* bytes that are still to send, or to receive of a READ */
    uint8_t *at;       /* what is sent (SEND, WRITE), or where the content of a READ is */
    uint64_t va;       /* remote address */
    uint64_t original; /* of a FETCH_ADD: the answer */
    uint32_t first_psn, last_psn;
    enum rxe_state state;
    bool has_place; /* one of those that max_rd_atomic allows */
};

struct rxe {
    enum rxe_kernel kernel;
    uint32_t mtu;
    struct rxe_message messages[RXE_MESSAGES_MAX];
    uint32_t head;     /* the oldest message that is not complete */
    uint32_t sending;  /* the next one to send, or the one being sent */
    uint32_t count;    /* all messages */
    uint32_t next_psn; /* to be sent */
    uint32_t done_psn; /* the oldest that is not acknowledged */
    uint32_t places;   /* that max_rd_atomic still allows */
    uint32_t unasked;  /* packets since the last that asked for an ACK */
    bool inside;       /* the next packet goes on with a message */
    bool reading;      /* the last answer was FIRST or MIDDLE of a READ */
    bool going_back;   /* before it sends again; answers wait meanwhile */
    bool has_gone_back;
    const char *failed; /* why the queue pair is in error, or NULL */
};

void rxe_init(struct rxe *rxe, enum rxe_kernel kernel, uint32_t mtu, uint32_t psn, uint32_t places);

/* Posts a message of @length bytes at @at. */
struct rxe_message *rxe_post(struct rxe *rxe, enum uro_operation operation, uint8_t *at,
                             uint32_t length, uint64_t va);

/* Describes the next packet. False when there is none, or none may be sent now. */
bool rxe_send(struct rxe *rxe, struct scene_packet *packet);

/* False when the answer has to wait until the model has gone back. */
bool rxe_receive(struct rxe *rxe, const struct uro_frame *frame);

/* The timer fires, and no answer is there. */
void rxe_timeout(struct rxe *rxe);

bool rxe_is_done(const struct rxe *rxe);
