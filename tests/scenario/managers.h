/* SPDX-License-Identifier: BSD-3-Clause */
/* managers.h - two connection managers and the wire between them, in virtual time. The wire loses,
 * duplicates and delays the messages that a test chooses.
 */
#pragma once

#include "cm/conn.h"
#include "support/check.h"

#define MANAGERS_SERVICE     UINT64_C(0x1061234)
#define MANAGERS_CONNECTIONS 16u

struct manager {
    struct uro_cm *cm;
    void *memory;
    struct uro_gid address;
    struct uro_conn *conn;
    struct uro_listener listener;
    struct uro_cm_msg last; /* the last message that this manager sent */
    uint32_t sent[URO_CM_KIND_COUNT];
    uint32_t lose[URO_CM_KIND_COUNT]; /* number of next messages of the kind to lose */
    bool twice[URO_CM_KIND_COUNT];    /* each message of the kind arrives twice */
    bool hold[URO_CM_KIND_COUNT];     /* keep the next message until managers_release() */
    struct uro_cm_out held;
};

struct managers {
    uro_time now;
    uint32_t asked; /* number of requests of a; each has another QPN */
    struct uro_counters counters;
    struct manager a; /* connects */
    struct manager b; /* listens */
};

int managers_open(void **state);
int managers_close(void **state);

#define MANAGERS_QPN 0x123u /* QPN of the first request */
struct uro_conn_param managers_param(const char *data);
/* Returns the target of a request from a to b. */
struct uro_conn_target managers_target(const struct managers *s);
/* Sends a connection request from a to b, which listens already. */
void managers_ask(struct managers *s);
/* Sends a SIDR request from a to b. */
void managers_ask_service(struct managers *s, uint64_t service_id);
/* Runs until both sides are ESTABLISHED, and takes their events. */
void managers_establish(struct managers *s);
/* Closes the connection on both sides, as if both applications had freed it. */
void managers_close_both(struct managers *s);

/* Delivers all messages that are due at the present time. */
void managers_settle(struct managers *s);
/* Advances the time to @until and delivers all messages that are due before. */
void managers_pass_time(struct managers *s, uro_time until);
/* Delivers the message of @from that the wire has kept. */
void managers_release(struct managers *s, struct manager *from);
/* Delivers the forged message @msg to the peer of @from, as if @from had sent it. */
void managers_forge(struct managers *s, struct manager *from, const struct uro_cm_msg *msg);

struct uro_conn *managers_expect(struct managers *s, struct manager *at,
                                 enum uro_conn_event_kind kind, int status);
void managers_expect_nothing(struct managers *s, struct manager *at);
