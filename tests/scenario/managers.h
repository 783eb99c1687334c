/* SPDX-License-Identifier: BSD-3-Clause */
/* managers.h - two connection managers and the wire between them, in virtual time. The wire loses,
 * repeats and holds back what it is told to.
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
    struct uro_cm_msg last; /* that it sent */
    uint32_t sent[URO_CM_KIND_COUNT];
    uint32_t lose[URO_CM_KIND_COUNT]; /* so many of the next ones */
    bool twice[URO_CM_KIND_COUNT];    /* each arrives again at once */
    bool hold[URO_CM_KIND_COUNT];     /* the next one, until managers_release() */
    struct uro_cm_out held;
};

struct managers {
    uro_time now;
    uint32_t asked; /* a's requests, each from a queue pair of its own */
    struct uro_counters counters;
    struct manager a; /* connects */
    struct manager b; /* listens */
};

int managers_open(void **state);
int managers_close(void **state);

#define MANAGERS_QPN 0x123u /* of the first that asks */
struct uro_conn_param managers_param(const char *data);
/* From a to b. */
struct uro_conn_target managers_target(const struct managers *s);
/* a asks b; b listens already. */
void managers_ask(struct managers *s);
/* a asks b for a datagram service. */
void managers_ask_service(struct managers *s, uint64_t service_id);
/* Until both are ESTABLISHED, the events taken. */
void managers_establish(struct managers *s);
/* The application of either side has forgotten its connection. */
void managers_close_both(struct managers *s);

/* Everything that is said at this instant. */
void managers_settle(struct managers *s);
/* Until nothing is due before @until. */
void managers_pass_time(struct managers *s, uro_time until);
/* What was held back of @from arrives. */
void managers_release(struct managers *s, struct manager *from);
/* A message that nobody sent, from @from to the other one. */
void managers_forge(struct managers *s, struct manager *from, const struct uro_cm_msg *msg);

struct uro_conn *managers_expect(struct managers *s, struct manager *at,
                                 enum uro_conn_event_kind kind, int status);
void managers_expect_nothing(struct managers *s, struct manager *at);
