/* SPDX-License-Identifier: BSD-3-Clause */
/* conn.h - the functions that an application calls on a connection, or on a datagram service.
 *
 *             active                                passive
 *   connect   REQ_SENT   ------- REQ ------->   REQ_RECEIVED   event REQUEST
 *   RESPONSE  REP_RECEIVED <---- REP --------   REP_SENT       accept
 *   confirm   ESTABLISHED  ----- RTU ------->   ESTABLISHED    event CONFIRMED
 *   either:   disconnect  DREQ_SENT ---- DREQ ---->            event DISCONNECTED
 *             event DISCONNECTED  <----- DREP -----  TIMEWAIT
 *
 * The application uses a connection from uro_conn_connect(), or from the REQUEST event, until
 * uro_conn_close(). Messages that the peer still needs are sent after that.
 */
#pragma once

#include "cm/cm.h"
#include "core/key.h"
#include "core/qp.h"

enum uro_conn_state {
    URO_CONN_IDLE,
    URO_CONN_REQ_SENT,
    URO_CONN_REQ_RECEIVED,
    URO_CONN_REP_SENT,
    URO_CONN_REP_RECEIVED,
    URO_CONN_ESTABLISHED,
    URO_CONN_DREQ_SENT,
    URO_CONN_TIMEWAIT,
    URO_CONN_SIDR_REQ_SENT,
    URO_CONN_SIDR_REQ_RECEIVED,
    URO_CONN_SIDR_ANSWERED,
    URO_CONN_STATE_COUNT
};

/* The events of a connection, in the order in which they can happen. */
enum uro_conn_event_kind {
    URO_CONN_REQUEST,      /* event of the listener: a peer requests a connection */
    URO_CONN_RESPONSE,     /* the peer accepted */
    URO_CONN_CONFIRMED,    /* the peer received our acceptance: ESTABLISHED */
    URO_CONN_REJECTED,     /* status: reason of the REJ, or status of the SIDR_REP */
    URO_CONN_UNREACHABLE,  /* the peer did not answer in time */
    URO_CONN_DISCONNECTED, /* the peer sent DREQ or REJ, or our DREQ was answered or timed out */
    URO_CONN_TIMEWAIT_EXIT,
    URO_CONN_EVENT_COUNT
};

/* Parameters that each side sends to the other; see man rdma_connect, rdma_accept. */
struct uro_conn_param {
    enum uro_qp_type type; /* RC, UC, XRC_INI, XRC_TGT; UD: a datagram service */
    uint32_t qpn;
    uint32_t qkey; /* UD */
    uint8_t responder_resources;
    uint8_t initiator_depth;
    uint8_t flow_control;
    uint8_t retry_count;
    uint8_t rnr_retry_count;
    bool srq;
    uint32_t data_length;
    uint8_t data[URO_CM_DATA_MAX];
};

struct uro_listener {
    struct uro_link link;
    uint64_t service_id;
    bool any_address;
    struct uro_gid address; /* unless any_address */
    uint32_t backlog;       /* maximum number of requests that wait for the application */
    uint32_t waiting;       /* requests that wait now; listen.c */
    /* requests beyond the backlog since the application last fetched a request; listen.c */
    uint32_t unanswered;
    void *user;
};

struct uro_conn {
    struct uro_hash_node node; /* node.number: local communication ID; SIDR: request ID */
    /* cm->unused, leaving or over; the application does not have the connection */
    struct uro_link link;
    struct uro_hash_node peer_node; /* cm->by_peer, once the peer is known */
    struct uro_hash_node qpn_node;  /* cm->by_peer_qpn, once the peer is known */
    struct uro_link send_link;      /* cm->to_send */
    struct uro_link event_link;     /* cm->events */
    struct uro_cm *cm;
    enum uro_conn_state state;
    bool active;
    bool owned;
    void *user;
    struct uro_listener *listener; /* listener that counts the request as waiting, or NULL */
    struct uro_cm_route route;
    uint64_t service_id;
    uint64_t tid;
    uint64_t peer_guid;
    uint32_t peer_id;
    uint32_t peer_qpn;
    uint32_t peer_psn;             /* first PSN that we send */
    uint32_t local_psn;            /* first PSN that the peer sends */
    uint8_t path_mtu;              /* 1 = 256 .. 5 = 4096 bytes */
    uint8_t ack_timeout;           /* ACK timeout of the queue pair */
    uint8_t peer_response_timeout; /* longest time that the peer takes for an answer */
    uint8_t retries;               /* maximum number of retransmissions of a message of ours */
    struct uro_conn_param local;   /* our parameters */
    struct uro_conn_param peer;    /* parameters of the peer, and its newest private data */
    unsigned events;               /* set of 1 << enum uro_conn_event_kind */
    /* status of the event REJECTED, UNREACHABLE or DISCONNECTED; in the state SIDR_ANSWERED: status
     * of the answer */
    int status;
    uint32_t retries_left;
    bool extended;             /* an MRA came for the newest copy of our message */
    bool undelivered;          /* the newest copy was reported as undelivered; conn_state.c */
    uint8_t undelivered_count; /* number of copies reported as undelivered */
    uro_time interval;
    struct uro_timer timer;
    uint8_t mad[URO_MAD_LEN]; /* message that is retransmitted until it is answered */
};

/* ---- listening ----------------------------------------------------------------------------- */

/* Adds a listener. Returns 0, or
 *   -EADDRINUSE  another listener has the service at that address
 *   -ENOMEM      the address has config.services services */
URO_NODISCARD int uro_conn_listen(struct uro_cm *cm, struct uro_listener *listener);
/* Reports that the application fetched the REQUEST event: the backlog does not count the request
 * any more. */
void uro_conn_noticed(struct uro_conn *conn);
/* Removes a listener, and rejects the requests whose event was not fetched. */
void uro_conn_unlisten(struct uro_cm *cm, struct uro_listener *listener);

/* ---- connecting ---------------------------------------------------------------------------- */

struct uro_conn_target {
    struct uro_cm_route route;
    uint64_t service_id;
    uint8_t path_mtu;         /* 1 = 256 .. 5 = 4096 bytes */
    uint8_t ack_timeout;      /* ACK timeout of both queue pairs */
    uint8_t response_timeout; /* longest time for an answer of either side, 4.096 us * 2^n */
    uint8_t retries;          /* 0 .. 15 */
    void *user;
};

/* Sends a request, or for UD a service query. Returns 0, or
 *   -EINVAL  more private data than the message has room for
 *   -ENOMEM  the application uses all connections of the pool */
URO_NODISCARD int uro_conn_connect(struct uro_cm *cm, const struct uro_conn_target *target,
                                   const struct uro_conn_param *param, uro_time now,
                                   struct uro_conn **conn);

/* Accepts a REQUEST. Returns 0, or
 *   -EINVAL  too much private data, or the state is not REQ_RECEIVED or SIDR_REQ_RECEIVED */
URO_NODISCARD int uro_conn_accept(struct uro_conn *conn, const struct uro_conn_param *param,
                                  uro_time now);

/* Confirms a RESPONSE, once the queue pair of the caller is ready. Returns 0 or -EINVAL. */
URO_NODISCARD int uro_conn_confirm(struct uro_conn *conn, uro_time now);

/* Rejects a REQUEST or a RESPONSE. Returns 0 or -EINVAL. */
URO_NODISCARD int uro_conn_reject(struct uro_conn *conn, unsigned reason, const void *data,
                                  uint32_t length, uro_time now);

/* Establishes a connection whose data arrived before the confirmation of the peer: the data proves
 * that the peer is ready. Returns 0 or -EINVAL. */
URO_NODISCARD int uro_conn_data_arrived(struct uro_conn *conn, uro_time now);

/* Disconnects. Returns 0, also when the peer has disconnected already, or -EINVAL when there is no
 * connection. */
URO_NODISCARD int uro_conn_disconnect(struct uro_conn *conn, uro_time now);

/* Closes the connection: the application does not use it any more. */
void uro_conn_close(struct uro_conn *conn, uro_time now);

/* ---- events -------------------------------------------------------------------------------- */

struct uro_conn_event {
    enum uro_conn_event_kind kind;
    struct uro_conn *conn;
    void *user; /* `user` of the connection; REQUEST: `user` of the listener */
    int status;
};

/* Takes the next event. Returns false when there is none. conn->peer has the parameters and private
 * data of the peer, until the engine is called again. */
bool uro_conn_event(struct uro_cm *cm, struct uro_conn_event *event);

/* Returns the code of a path MTU of @octets bytes: 1 = 256 .. 5 = 4096. */
static inline uint8_t uro_conn_mtu_code(uint32_t octets)
{
    return (uint8_t)(__builtin_ctz(octets) - 7);
}

/* ---- attributes of the queue pair ---------------------------------------------------------- */

/* Writes the attributes that move the queue pair to @attr->state (INIT, RTR or RTS), and their
 * mask. Returns 0, or -EINVAL when the connection is not ready for that state. */
URO_NODISCARD int uro_conn_qp_attr(const struct uro_conn *conn, struct uro_qp_attr *attr,
                                   unsigned *mask);

#define URO_CONN_REJ_NO_RESOURCES  3u
#define URO_CONN_REJ_TIMEOUT       4u
#define URO_CONN_REJ_UNSUPPORTED   5u
#define URO_CONN_REJ_BAD_ID        6u
#define URO_CONN_REJ_BAD_SERVICE   8u
#define URO_CONN_REJ_BAD_TRANSPORT 9u
#define URO_CONN_REJ_STALE         10u
#define URO_CONN_REJ_BAD_GID       12u
#define URO_CONN_REJ_BAD_MTU       26u
#define URO_CONN_REJ_CONSUMER      28u
#define URO_CONN_REJ_VENDOR_OPTION 35u
#define URO_CONN_SIDR_REJECTED     2u /* status of a SIDR_REP */
#define URO_CONN_SIDR_NO_QP        3u
