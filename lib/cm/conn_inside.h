/* SPDX-License-Identifier: BSD-3-Clause */
/* conn_inside.h - what the files of lib/cm offer to each other. */
#pragma once

#include "cm/conn.h"

/* cm.c */

/* A connection from the pool with a random ID; when all are in use, one that nobody owns any more.
 * NULL when all are owned. */
struct uro_conn *uro_conn_new(struct uro_cm *cm, const struct uro_cm_route *route);
/* Back to the pool: nobody refers to it. */
void uro_conn_free(struct uro_conn *conn);
/* Its state changed, or its owner went: if it is nobody's now, it may be reused before its time. */
void uro_conn_linger(struct uro_conn *conn);
/* The peer is known now. */
void uro_conn_set_peer(struct uro_conn *conn, uint64_t guid, uint32_t id, uint32_t qpn);
/* Messages of the peer's do not find it by the peer any more. */
void uro_conn_unset_peer(struct uro_conn *conn);
struct uro_conn *uro_conn_by_id(const struct uro_cm *cm, uint32_t id);
/* The connection with the peer's communication ID, or with its queue pair; NULL if none. */
struct uro_conn *uro_conn_by_peer(struct uro_cm *cm, uint64_t guid, uint32_t peer_id);
struct uro_conn *uro_conn_by_peer_qpn(struct uro_cm *cm, uint64_t guid, uint32_t qpn);

/* Sends conn->mad now and again every @interval until answered, @retries times more. */
void uro_conn_send(struct uro_conn *conn, uro_time interval, uint32_t retries);
/* Once more now, out of turn: how long we wait for an answer stays as it is. */
void uro_conn_send_again(struct uro_conn *conn);
void uro_conn_quiet(struct uro_conn *conn);
/* Sends a message once. */
void uro_conn_reply(struct uro_cm *cm, const struct uro_cm_route *route,
                    const struct uro_cm_msg *msg);

void uro_conn_raise(struct uro_conn *conn, enum uro_conn_event_kind kind, int status);
/* False: an event with private data was not fetched yet, so the message must come again. */
bool uro_conn_can_hear(const struct uro_conn *conn);

/* 4.096 us * 2^n, as Linux counts it: 2^(n-8) ms, at least 1 ms and at most a minute. */
uro_time uro_conn_time(uint8_t exponent);

/* conn.c */

/* A message of this connection with its IDs filled in. */
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
/* Tells the peer what it must know when nobody is interested any more. */
void uro_conn_part(struct uro_conn *conn);
void uro_conn_enter_timewait(struct uro_conn *conn);
/* Nothing more will happen: the owner, if any, closes it. */
void uro_conn_end(struct uro_conn *conn);

/* conn_state.c */
void uro_conn_receive(struct uro_cm *cm, const struct uro_cm_route *route,
                      const struct uro_cm_msg *msg);
void uro_conn_on_timer(struct uro_conn *conn);

/* listen.c */
struct uro_listener *uro_listen_find(struct uro_cm *cm, uint64_t service_id,
                                     const struct uro_gid *address);
/* A request waits with the listener, or does not any more. */
bool uro_listen_take(struct uro_listener *listener, struct uro_conn *conn);
/* Counts a request that found no room. Returns false to leave it unanswered, true if there were so
 * many that it is a flood. */
bool uro_listen_overrun(struct uro_listener *listener);
void uro_listen_done(struct uro_conn *conn);

/* sidr.c */
void uro_sidr_receive(struct uro_cm *cm, const struct uro_cm_route *route,
                      const struct uro_cm_msg *msg);
void uro_sidr_connect(struct uro_conn *conn, const struct uro_conn_param *param);
void uro_sidr_answer(struct uro_conn *conn, unsigned status, const struct uro_conn_param *param);

#define URO_CONN_ABOUT_REQ   0u
#define URO_CONN_ABOUT_REP   1u
#define URO_CONN_ABOUT_OTHER 2u
