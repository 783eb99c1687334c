/* SPDX-License-Identifier: BSD-3-Clause */
/* rxe.h - a model of the requester of Linux rxe: which packets rxe sends, and how it processes
 * responses.
 *
 * The model has the bugs of kernels 6.1 and 6.12 that tests/interop/rxe-rules.txt and decision 38
 * describe. It has no clock and no packet queue. The test decides when the model sends, when a
 * response arrives, and when the timer of the model fires. The model is for loss, duplication and
 * reordering only. It fails when it gets an RNR NAK, which would pause rxe.
 */
#pragma once

#include "scene.h"
#include "wire/frame.h"

#define RXE_MESSAGES_MAX 64u

enum rxe_kernel { RXE_6_1, RXE_6_12 };

enum rxe_state {
    RXE_WAITS,   /* no packet was sent since the post, or since the model went back */
    RXE_SENDING, /* some packets were sent */
    RXE_SENT     /* all packets were sent */
};

struct rxe_message {
    enum uro_operation operation; /* SEND, WRITE, READ or FETCH_ADD */
    uint32_t length;              /* bytes */
    uint32_t left;                /* bytes that are not sent yet, or of a READ not received yet */
    uint8_t *at;                  /* source of a SEND or WRITE, or sink of a READ */
    uint64_t va;                  /* remote address */
    uint64_t original;            /* FETCH_ADD: the returned value */
    uint32_t first_psn, last_psn;
    enum rxe_state state;
    bool has_place; /* the message counts against max_rd_atomic */
};

struct rxe {
    enum rxe_kernel kernel;
    uint32_t mtu;
    struct rxe_message messages[RXE_MESSAGES_MAX];
    uint32_t head;     /* the oldest message that is not complete */
    uint32_t sending;  /* message being sent, or the next message to send */
    uint32_t count;    /* number of posted messages */
    uint32_t next_psn; /* next PSN to send */
    uint32_t done_psn; /* oldest PSN that is not acknowledged */
    uint32_t places;   /* READs and atomics that max_rd_atomic still allows */
    uint32_t unasked;  /* packets sent since the last AckReq */
    bool inside;       /* the next packet continues a message */
    bool reading;      /* the last response was FIRST or MIDDLE of a READ */
    bool going_back;   /* the model must go back before it sends; responses wait until then */
    bool has_gone_back;
    const char *failed; /* why the queue pair is in error, or NULL */
};

void rxe_init(struct rxe *rxe, enum rxe_kernel kernel, uint32_t mtu, uint32_t psn, uint32_t places);

/* Posts a message of @length bytes at @at. */
struct rxe_message *rxe_post(struct rxe *rxe, enum uro_operation operation, uint8_t *at,
                             uint32_t length, uint64_t va);

/* Writes the next packet to @packet. Returns false when there is no packet to send now. */
bool rxe_send(struct rxe *rxe, struct scene_packet *packet);

/* Processes a response. Returns false when the response must wait until the model has gone back. */
bool rxe_receive(struct rxe *rxe, const struct uro_frame *frame);

/* Fires the timer of the model. Has no effect if the queue pair is in error, or if the model must
 * already go back. */
void rxe_timeout(struct rxe *rxe);

bool rxe_is_done(const struct rxe *rxe);
