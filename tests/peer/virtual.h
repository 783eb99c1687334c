/* SPDX-License-Identifier: BSD-3-Clause */
/* virtual.h - an endpoint for scripts in virtual time: an engine of uroce that listens and follows
 * the parameters of plan.h, on a link without delay.
 */
#pragma once

#include "core/datagram.h"
#include "core/qp.h"
#include "core/rq.h"
#include "engine/engine.h"
#include "plan.h"
#include "script/play.h"

#define VIRTUAL_CONNS 8u
#define VIRTUAL_PORT  7471u

struct virtual_conn {
    struct uro_conn *conn; /* NULL: the slot is free */
    struct uro_qp *qp;
    void *qp_memory;
    struct uro_srq *srq; /* NULL: the queue pair has its own receive queue */
    void *srq_slots;
    struct uro_ah back; /* address of the player, for datagrams that are sent back */
    bool can_answer;    /* `back` is valid */
    struct uro_mcast member;
    struct plan plan;
    uro_time late; /* time at which one more receive is posted, or NEVER */
};

struct virtual
{
    void *engine_memory;
    struct uro_engine *engine; /* engine with the address 10.0.0.1 */
    struct uro_listener stream, datagram, unreliable;
    struct uro_cq *cq;
    uint8_t *region;  /* region with three keys: all rights, READ only, another protection domain */
    uint8_t *buffers; /* buffers of receives and sends */
    struct uro_key keys[4];
    struct virtual_conn conns[VIRTUAL_CONNS];
    bool calls; /* the endpoint connects to port 7471 of the player */
    void *peer_memory;
    struct uro_engine *peer_engine; /* engine of the player, with the address 10.0.0.2 */
    struct uro_mac sent_to;         /* destination MAC of the player's last frame */
    uro_time now;
    struct uro_tx tx[32];
};

struct virtual *virtual_open(void);
void virtual_close(struct virtual *v);

/* Plays a script to its end, at most 300 s of virtual time. @print is as in struct
 * uro_play_config. */
enum uro_play_result virtual_play(struct virtual *v, const struct uro_script *script,
                                  void (*print)(void *user, const char *line), void *user);
