/* SPDX-License-Identifier: BSD-3-Clause */
/* conn_inside.h - the functions that the files of lib/cm offer to each other. */
#pragma once

#include "cm/conn.h"

/* cm.c */

/* Returns a connection from the pool, with a random ID. When all are in use, takes a connection
 * that the application has closed. Returns NULL when the application uses all connections. */
struct uro_conn *uro_conn_new(struct uro_cm *cm, const struct uro_cm_route *route);
/* Returns a connection to the pool. No other object refers to it. */
void uro_conn_free(struct uro_conn *conn);
/* Puts a connection that the application has closed on the list for its state. Has no effect before
 * the application closed it. A connection on a list may be reused before its timer ends it. */
void uro_conn_linger(struct uro_conn *conn);
/* Sets the peer: messages of the peer now find the connection. */
void uro_conn_set_peer(struct uro_conn *conn, uint64_t guid, uint32_t id, uint32_t qpn);
/* Removes the connection from the tables by peer: messages of the peer do not find it there any
 * more. */
void uro_conn_unset_peer(struct uro_conn *conn);
struct uro_conn *uro_conn_by_id(const struct uro_cm *cm, uint32_t id);
/* Return the passive connection with the peer's communication ID, or the connection with the peer's
 * QPN that has not ended. Return NULL if there is none. */
struct uro_conn *uro_conn_by_peer(struct uro_cm *cm, uint64_t guid, uint32_t peer_id);
struct uro_conn *uro_conn_by_peer_qpn(struct uro_cm *cm, uint64_t guid, uint32_t qpn);

/* Sends conn->mad now, and again every @interval until it is answered, at most @retries times. */
void uro_conn_send(struct uro_conn *conn, uro_time interval, uint32_t retries);
/* Sends conn->mad once more now. The timer of the retransmission does not change. */
void uro_conn_send_again(struct uro_conn *conn);
/* Stops the retransmission. */
void uro_conn_stop_retransmit(struct uro_conn *conn);
/* Sends a message once. */
void uro_conn_reply(struct uro_cm *cm, const struct uro_cm_route *route,
                    const struct uro_cm_msg *msg);

void uro_conn_raise(struct uro_conn *conn, enum uro_conn_event_kind kind, int status);
/* Returns whether a message of the peer can be accepted. False: an earlier event with private data
 * was not fetched yet, so the peer must send the message again. */
bool uro_conn_can_receive(const struct uro_conn *conn);

/* Returns the time 4.096 us * 2^n as Linux computes it: 2^(n-8) ms, from 1 ms to 65.5 s. */
uro_time uro_conn_time(uint8_t exponent);

/* conn.c */

/* Builds a message of this connection with its IDs. */
void uro_conn_message(const struct uro_conn *conn, enum uro_cm_kind kind, struct uro_cm_msg *msg);
struct uro_conn_rej {
    uint64_t tid;
    uint32_t local_id;
    uint32_t peer_id;
    unsigned message; /* URO_CONN_ABOUT_* */
    unsigned reason;
    const void *data;
    uint32_t length;
};
void uro_conn_send_rej(struct uro_cm *cm, const struct uro_cm_route *route,
                       const struct uro_conn_rej *rej);
void uro_conn_send_simple(struct uro_conn *conn, enum uro_cm_kind kind);
void uro_conn_send_mra(struct uro_conn *conn, unsigned message);
/* Leaves a connection that the application has closed, or that ends with the process. Sends the
 * peer a REJ, a DREQ or a SIDR_REP if the state requires it. */
void uro_conn_leave(struct uro_conn *conn);
void uro_conn_enter_timewait(struct uro_conn *conn);
/* Ends a connection: it sends no more messages. Frees the connection unless the application has it.
 */
void uro_conn_end(struct uro_conn *conn);

/* conn_state.c */
void uro_conn_receive(struct uro_cm *cm, const struct uro_cm_route *route,
                      const struct uro_cm_msg *msg);
void uro_conn_on_timer(struct uro_conn *conn);

/* listen.c */
struct uro_listener *uro_listen_find(struct uro_cm *cm, uint64_t service_id,
                                     const struct uro_gid *address);
/* Adds a waiting request to the listener. Returns false when the backlog is full.
 * uro_listen_done() removes the request. */
bool uro_listen_take(struct uro_listener *listener, struct uro_conn *conn);
/* Counts a request beyond the backlog. Returns false if the caller drops the request without a
 * reply. Returns true in a flood, in which the caller rejects the request. */
bool uro_listen_overrun(struct uro_listener *listener);
void uro_listen_done(struct uro_conn *conn);

/* sidr.c */
void uro_sidr_receive(struct uro_cm *cm, const struct uro_cm_route *route,
                      const struct uro_cm_msg *msg);
void uro_sidr_connect(struct uro_conn *conn, const struct uro_conn_param *param);
void uro_sidr_reply(struct uro_conn *conn, unsigned status, const struct uro_conn_param *param);

#define URO_CONN_ABOUT_REQ   0u
#define URO_CONN_ABOUT_REP   1u
#define URO_CONN_ABOUT_OTHER 2u
