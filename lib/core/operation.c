/* SPDX-License-Identifier: BSD-3-Clause */
/* operation.c - the two tables of operation.h. */
#include "core/operation.h"

#include "core/cq.h"
#include "core/key.h"

/* Responses and CNPs have no row, because they are not requests. */
/* clang-format off */
const struct uro_operation_traits uro_operation_traits[URO_OPERATION_COUNT] = {
    [URO_SEND]         = { URO_RESPOND_ACK,   URO_ACK,        .carries_payload = true },
    [URO_WRITE]        = { URO_RESPOND_ACK,   URO_ACK,        .carries_payload = true, .access = URO_ACCESS_REMOTE_WRITE },
    [URO_READ]         = { URO_RESPOND_READ,  URO_READ,       .fills_buffers = true,   .access = URO_ACCESS_REMOTE_READ },
    [URO_CMP_SWAP]     = { URO_RESPOND_ATOMIC, URO_ATOMIC_ACK, .fills_buffers = true,   .access = URO_ACCESS_REMOTE_ATOMIC },
    [URO_FETCH_ADD]    = { URO_RESPOND_ATOMIC, URO_ATOMIC_ACK, .fills_buffers = true,   .access = URO_ACCESS_REMOTE_ATOMIC },
    [URO_FLUSH]        = { URO_RESPOND_EMPTY, URO_READ,       .carries_payload = false },
    [URO_ATOMIC_WRITE] = { URO_RESPOND_EMPTY, URO_READ,       .carries_payload = true, .access = URO_ACCESS_REMOTE_WRITE },
};

#define LOCAL  URO_REQUEST_LOCAL, URO_SEND
#define REMOTE URO_REQUEST_REMOTE

const struct uro_request_kind uro_request_kinds[URO_REQUEST_KINDS + 1] = {
    [URO_WR_RDMA_WRITE]           = { REMOTE, URO_WRITE,        0,           URO_WC_RDMA_WRITE },
    [URO_WR_RDMA_WRITE_WITH_IMM]  = { REMOTE, URO_WRITE,        URO_EXT_IMM, URO_WC_RDMA_WRITE },
    [URO_WR_SEND]                 = { REMOTE, URO_SEND,         0,           URO_WC_SEND },
    [URO_WR_SEND_WITH_IMM]        = { REMOTE, URO_SEND,         URO_EXT_IMM, URO_WC_SEND },
    [URO_WR_RDMA_READ]            = { REMOTE, URO_READ,         0,           URO_WC_RDMA_READ },
    [URO_WR_ATOMIC_CMP_AND_SWP]   = { REMOTE, URO_CMP_SWAP,     0,           URO_WC_COMP_SWAP },
    [URO_WR_ATOMIC_FETCH_AND_ADD] = { REMOTE, URO_FETCH_ADD,    0,           URO_WC_FETCH_ADD },
    [URO_WR_LOCAL_INV]            = { LOCAL,                    0,           URO_WC_LOCAL_INV },
    [URO_WR_BIND_MW]              = { LOCAL,                    0,           URO_WC_BIND_MW },
    [URO_WR_SEND_WITH_INV]        = { REMOTE, URO_SEND,         URO_EXT_INV, URO_WC_SEND },
    [URO_WR_FLUSH]                = { REMOTE, URO_FLUSH,        0,           URO_WC_FLUSH },
    [URO_WR_ATOMIC_WRITE]         = { REMOTE, URO_ATOMIC_WRITE, 0,           URO_WC_ATOMIC_WRITE },
};
/* clang-format on */
