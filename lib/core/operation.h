/* SPDX-License-Identifier: BSD-3-Clause */
/* operation.h - the traits of each operation on the wire, and of each kind of send work request.
 *
 * wire/opcode.c has the traits of single packets. A new operation needs a row in both tables of
 * operation.c.
 */
#pragma once

#include "core/work.h"
#include "wire/opcode.h"

/* The form of the response to an executed request. */
enum uro_response_form {
    URO_RESPOND_ACK,    /* an ACK, which may cover several requests */
    URO_RESPOND_READ,   /* one or more READ responses with the data of a READ */
    URO_RESPOND_ATOMIC, /* an atomic acknowledgement with the value before the operation */
    URO_RESPOND_EMPTY,  /* a READ response without payload */
};

struct uro_operation_traits {
    enum uro_response_form form;
    enum uro_operation response; /* operation of the response packets */
    bool carries_payload;        /* the buffers of the request are read and sent */
    bool fills_buffers;          /* the response is written to the buffers of the request */
    uint32_t access; /* set of URO_ACCESS_* that the responder requires; FLUSH: its FETH decides */
};

extern const struct uro_operation_traits uro_operation_traits[URO_OPERATION_COUNT];

/* Returns whether the request has a response of its own. Such a request takes a responder resource:
 * max_rd_atomic limits how many are in flight, and a fence waits for them. */
static inline bool uro_operation_has_response(enum uro_operation operation)
{
    return uro_operation_traits[operation].form != URO_RESPOND_ACK;
}

enum uro_request_scope {
    URO_REQUEST_UNKNOWN, /* no such work request; a post refuses it */
    URO_REQUEST_LOCAL,   /* sends nothing: BIND_MW, LOCAL_INV */
    URO_REQUEST_REMOTE,  /* sends packets */
};

struct uro_request_kind {
    enum uro_request_scope scope;
    enum uro_operation operation; /* operation on the wire; REMOTE only */
    uint16_t ext;      /* optional header of the last packet: 0, URO_EXT_IMM or URO_EXT_INV */
    uint8_t wc_opcode; /* enum uro_wc_opcode of the completion */
};

#define URO_REQUEST_KINDS 16u

/* Indexed by enum uro_wr_opcode. Opcodes from URO_REQUEST_KINDS on use the last row. */
extern const struct uro_request_kind uro_request_kinds[URO_REQUEST_KINDS + 1];

static inline const struct uro_request_kind *uro_request_kind(const struct uro_wqe *wqe)
{
    return &uro_request_kinds[wqe->opcode < URO_REQUEST_KINDS ? wqe->opcode : URO_REQUEST_KINDS];
}
