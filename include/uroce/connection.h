/* SPDX-License-Identifier: BSD-3-Clause */
/* connection.h - connections of an engine (uroce/engine.h): messages on QP 1 that exchange the
 * queue pair numbers and first PSNs of two hosts, and end a connection. rdma_cm programs on other
 * hosts use the same messages.
 *
 *     active side                      messages              passive side
 *     uroce_conn_connect()             ------ REQ ----->     event REQUEST
 *     event RESPONSE                   <----- REP ------     queue pair to RTR; uroce_conn_accept()
 *     queue pair to RTS; uroce_conn_confirm()  -- RTU ->     event CONFIRMED; queue pair to RTS
 *     uroce_conn_disconnect()          ------ DREQ ---->     event DISCONNECTED
 *     event DISCONNECTED               <----- DREP -----
 *     both: event TIMEWAIT_EXIT when no late packet can arrive any more
 *
 * For UD, the messages ask for the queue pair of a service (SIDR), without a connection. The
 * passive side gets the event REQUEST. The active side gets RESPONSE, REJECTED or UNREACHABLE.
 *
 * The program owns a connection from uroce_conn_connect(), or from its event REQUEST, until
 * uroce_conn_close(). After that, the engine still sends the messages that end the connection.
 *
 * Threads: as in uroce/engine.h. One thread at a time uses the engine and its connections.
 * Errors: as in uroce/objects.h. -EINVAL is also the result when @now is earlier than in the last
 * call.
 * Sizes: as in uroce/objects.h.
 *
 * Sources: IBTA Architecture Specification Vol. 1, chapter 12 (communication management), Annex A11
 * (rdma_cm puts the IP addresses into the first 36 bytes of the private data of a request; here the
 * program writes and reads these bytes itself); man 3 rdma_connect, rdma_accept, rdma_reject,
 * rdma_get_cm_event.
 */
#ifndef UROCE_CONNECTION_H
#define UROCE_CONNECTION_H

#include <stdint.h>

#include <uroce/objects.h>

#ifdef __cplusplus
extern "C" {
#endif

#define UROCE_CONN_DATA_MAX 224u

struct uroce_listener;
struct uroce_conn;

/* Parameters that each side sends to the other, as in struct rdma_conn_param. */
struct uroce_conn_param {
    enum uroce_qp_type type;
    uint32_t qpn;                /* 24 bits */
    uint32_t qkey;               /* UD */
    uint8_t responder_resources; /* READs and atomics of the peer that this side accepts at once */
    uint8_t initiator_depth;     /* READs and atomics of this side outstanding at once */
    uint8_t flow_control;        /* 0 or 1 */
    uint8_t retry_count;         /* 0..7; connect only */
    uint8_t rnr_retry_count;     /* 0..7 */
    uint8_t srq;                 /* 0 or 1: the queue pair has an SRQ */
    uint8_t reserved[2];         /* 0 */
    uint32_t data_length;        /* bytes of private data, 0..224 */
    uint8_t data[UROCE_CONN_DATA_MAX];
};

/* The destination of a connection request. */
struct uroce_conn_target {
    struct uroce_address address;
    uint64_t service_id;
    uint32_t path_mtu;        /* bytes: 256, 512, 1024, 2048 or 4096 */
    uint8_t ack_timeout;      /* 0..31: ACK timeout of both queue pairs, 4.096 us * 2^n */
    uint8_t response_timeout; /* 0..31: time within which either side must answer, 4.096 us * 2^n */
    uint8_t retries;          /* 0..15: retransmissions of a message */
    uint8_t reserved[5];      /* 0 */
};

/* ---- listening ---------------------------------------------------------- */

/* Listens for requests to @service_id at the address with the GID index @sgid_index. A negative
 * @sgid_index stands for all addresses. The engine keeps at most @backlog requests whose event was
 * not taken. Events of kind REQUEST contain @user. Returns 0 or
 *   -EINVAL      the GID index has no address, or @backlog is 0
 *   -EADDRINUSE  another listener has the service at this address
 *   -ENOMEM      out of memory */
int uroce_listener_create(struct uroce_engine *engine, uint64_t service_id, int sgid_index,
                          uint32_t backlog, void *user, struct uroce_listener **listener);
/* Stops listening, and rejects the requests whose event was not taken. Returns 0. */
int uroce_listener_destroy(struct uroce_listener *listener);

/* ---- connecting --------------------------------------------------------- */

/* Sends a connection request, or for UD a service query. @user is in the events of the connection.
 * Returns 0 or
 *   -EINVAL  a value is out of its range, the GID index of @target->address has no address, its
 *            address has another IP version than the destination, or a request has no room for
 *            the private data (RC, UC, XRC: 92 bytes; UD: 216)
 *   -ENOMEM  out of memory, or the engine has as many connections as its configuration allows */
int uroce_conn_connect(struct uroce_engine *engine, const struct uroce_conn_target *target,
                       const struct uroce_conn_param *param, void *user, uint64_t now,
                       struct uroce_conn **conn);
/* Accepts a request. @user is in the later events of the connection. Returns 0 or
 *   -EINVAL  a value is out of its range, there is too much private data (196 bytes; UD: 136), or
 *            the connection has no request to accept */
int uroce_conn_accept(struct uroce_conn *conn, const struct uroce_conn_param *param, void *user,
                      uint64_t now);
/* Confirms a response, after the program moved the queue pair to RTS. Returns 0, or -EINVAL when no
 * response waits. */
int uroce_conn_confirm(struct uroce_conn *conn, uint64_t now);

/* Reasons of a rejection (IBTA Vol. 1, 12.6.7.2); there are others. */
#define UROCE_REJECT_NO_RESOURCES 3u
#define UROCE_REJECT_BAD_SERVICE  8u
#define UROCE_REJECT_CONSUMER     28u /* the program of the peer rejected */

/* Rejects a request or a response, with @length bytes of private data at @data, which may be NULL
 * when @length is 0. For UD, @reason is not sent. Returns 0, or -EINVAL when there is nothing to
 * reject, too much data (148 bytes; UD: 136), or @reason exceeds 65535. */
int uroce_conn_reject(struct uroce_conn *conn, unsigned reason, const void *data, uint32_t length,
                      uint64_t now);
/* Establishes a connection whose data arrived before the confirmation of the peer
 * (UROCE_EVENT_COMM_EST): the data proves that the peer is ready. Returns 0, also when the
 * connection is established already, or -EINVAL in other states. */
int uroce_conn_established(struct uroce_conn *conn, uint64_t now);
/* Disconnects. Returns 0, also when the peer has disconnected already, or -EINVAL when there is no
 * connection. */
int uroce_conn_disconnect(struct uroce_conn *conn, uint64_t now);
/* Closes a connection in any state. The program does not use it any more. Returns 0. */
int uroce_conn_close(struct uroce_conn *conn, uint64_t now);

/* ---- state -------------------------------------------------------------- */

enum uroce_conn_event_kind {
    UROCE_CONN_REQUEST = 0,      /* event of a listener: a peer requests a connection */
    UROCE_CONN_RESPONSE = 1,     /* the peer accepted */
    UROCE_CONN_CONFIRMED = 2,    /* the peer received the acceptance */
    UROCE_CONN_REJECTED = 3,     /* status: reason of the rejection; UD: status of the SIDR_REP */
    UROCE_CONN_UNREACHABLE = 4,  /* the peer did not answer in time */
    UROCE_CONN_DISCONNECTED = 5, /* the connection ended, on either side */
    UROCE_CONN_TIMEWAIT_EXIT = 6
};

struct uroce_conn_event {
    enum uroce_conn_event_kind kind;
    int status; /* REJECTED: reason; DISCONNECTED: reason if the peer rejected an established
                 * connection, else 0; UNREACHABLE: -ETIMEDOUT; other kinds: 0 */
    struct uroce_conn *conn; /* REQUEST: a new connection, which the program closes */
    void *user;              /* @user of the connection; REQUEST: of the listener */
};

/* Takes the next event of a connection. Returns 1 when there is an event, 0 when there is none, or
 *   -ENOMEM  out of memory; the event stays */
int uroce_conn_event(struct uroce_engine *engine, struct uroce_conn_event *event);

/* Writes the parameters and the newest private data of the peer to @param. Returns 0. */
int uroce_conn_peer(const struct uroce_conn *conn, struct uroce_conn_param *param);
/* Writes the address of the peer, the service and the path MTU of the connection to @target, whose
 * other members become 0. Returns 0. */
int uroce_conn_target(const struct uroce_conn *conn, struct uroce_conn_target *target);
/* Writes the attributes for the state @state of the queue pair (INIT, RTR or RTS) to @attr, and
 * their mask for uroce_qp_modify() to @mask. Returns 0, or -EINVAL when @state is
 * another state. For RTR and RTS, also returns -EINVAL before the peer has sent its parameters, and
 * after the connection has ended. */
int uroce_conn_attr(const struct uroce_conn *conn, enum uroce_qp_state state,
                    struct uroce_qp_attr *attr, unsigned *mask);

/* Disconnects or rejects all connections, for a program that ends. Call this function again after
 * uroce_engine_input() and uroce_engine_output(), until it returns 1: each peer has answered its
 * disconnection, or did not answer in time. Returns 0 before that, or -EINVAL when @engine is NULL.
 */
int uroce_engine_end_connections(struct uroce_engine *engine, uint64_t now);

#ifdef __cplusplus
}
#endif

#endif
