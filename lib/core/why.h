/* SPDX-License-Identifier: BSD-3-Clause */
/* why.h - the reason behind a completion that is not a success: ibv_wc.vendor_err. */
#pragma once

#include "base/defs.h"

/* X(enumerator, "what happened, for a person") */
#define URO_WHYS(X)                                                                                \
    X(NONE, "no reason recorded")                                                                  \
    X(FLUSHED, "the queue pair was already in error")                                              \
    X(MODIFIED, "the application moved the queue pair to ERR")                                     \
    X(LOCAL_KEY, "a local buffer is not registered, of another PD, or lacks LOCAL_WRITE")          \
    X(NO_DEPTH, "a READ, atomic or FLUSH was posted with max_rd_atomic 0")                         \
    X(UNSUPPORTED, "the operation is not supported")                                               \
    X(NO_ANSWER, "the peer did not answer within timeout and retry_cnt")                           \
    X(NO_RECEIVE, "the peer had no receive posted and rnr_retry ran out")                          \
    X(NAK_INVALID, "the peer refused the request as invalid")                                      \
    X(NAK_ACCESS, "the peer refused the remote key, address range or right")                       \
    X(NAK_OPERATIONAL, "the peer failed to carry out the request")                                 \
    X(BAD_SYNDROME, "the peer sent a reserved syndrome")                                           \
    X(BAD_RESPONSE, "the peer's response does not fit the request")                                \
    X(PEER_SEQUENCE, "the peer sent FIRST inside a message, or MIDDLE or LAST outside one")        \
    X(PEER_LENGTH, "the peer sent a packet of the wrong length")                                   \
    X(PEER_TOO_LONG, "the message is longer than the posted receive")                              \
    X(PEER_ACCESS, "the peer used a wrong remote key, address range or right")                     \
    X(PEER_RIGHTS, "the queue pair's access flags do not allow the peer's request")                \
    X(PEER_DEPTH, "the peer has more READs and atomics outstanding than max_dest_rd_atomic")       \
    X(PEER_SRQ, "the peer named an XRC shared receive queue that does not exist here")             \
    X(BIND, "the window, the region, its range or its rights do not allow the binding")            \
    X(NOT_INVALIDATABLE, "the key is not a type 2 window bound through this queue pair")           \
    X(NO_HANDLE, "the address handle was destroyed or is of another PD")                           \
    X(DATAGRAM_LENGTH, "the datagram is longer than the link's MTU")                               \
    X(CQ_OVERRUN, "the completion queue overflowed")

enum uro_why {
#define X(id, text) URO_WHY_##id,
    URO_WHYS(X)
#undef X
        URO_WHY_COUNT
};
