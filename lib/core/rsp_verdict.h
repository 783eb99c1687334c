/* SPDX-License-Identifier: BSD-3-Clause */
/* rsp_verdict.h - what a responder may find about a request, and what follows from it. */
#pragma once

#include "core/cq.h"
#include "core/event.h"
#include "core/why.h"
#include "wire/ext.h"

enum uro_rsp_verdict {
    URO_RSP_ACCEPT,
    URO_RSP_OVERRUN,      /* executed, but its completion found the CQ full: the queue pair fails */
    URO_RSP_DUPLICATE,    /* PSN already served: answer again, do not execute again */
    URO_RSP_PSN_GAP,      /* a packet before this one was lost */
    URO_RSP_BAD_SEQUENCE, /* FIRST inside a message, or MIDDLE/LAST outside one */
    URO_RSP_UNSUPPORTED,  /* an operation this queue pair does not offer */
    URO_RSP_NO_SRQ,       /* XRC: no such shared receive queue in the domain */
    URO_RSP_NO_RIGHT,     /* the queue pair's access flags do not allow it */
    URO_RSP_TOO_DEEP,     /* more READs and atomics than max_dest_rd_atomic */
    URO_RSP_BAD_LENGTH,   /* packet length does not fit its place, the MTU or the RETH */
    URO_RSP_MISALIGNED,   /* atomic on an address that is no multiple of 8 */
    URO_RSP_NO_RECEIVE,   /* no receive work request posted */
    URO_RSP_TOO_LONG,     /* the message is longer than the receive */
    URO_RSP_BAD_ACCESS,   /* remote key, range or right of the memory does not allow it */
    URO_RSP_BAD_LOCAL,    /* the receive's own buffers may not be written */
    URO_RSP_VERDICT_COUNT
};

struct uro_rsp_consequence {
    bool answers;            /* a NAK or RNR NAK is sent */
    enum uro_aeth_kind kind; /* of that answer */
    uint8_t nak;             /* URO_NAK_*, when kind is URO_AETH_NAK */
    bool fails;              /* the queue pair goes to ERR */
    bool completes;          /* a receive in use completes with @status instead of a flush */
    enum uro_wc_status status;
    int event; /* enum uro_event_kind to raise, or -1 */
    enum uro_why why;
};

/* Marks the rule of docs/PROTOCOL.md that a refusal with @verdict keeps. */
void uro_rsp_verdict_mark(enum uro_rsp_verdict verdict);

/* For RC. @verdict is neither ACCEPT, OVERRUN nor DUPLICATE. */
const struct uro_rsp_consequence *uro_rsp_consequence(enum uro_rsp_verdict verdict);

/* Returns whether the queue pair goes to ERR; any verdict. */
bool uro_rsp_verdict_fails(enum uro_rsp_verdict verdict);
