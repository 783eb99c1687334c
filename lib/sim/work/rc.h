/* SPDX-License-Identifier: BSD-3-Clause */
/* rc.h - reliable connections (RC and XRC): their requests, and the checks of the results.
 *
 *   rc.c        their lives, their memory windows, and the choice of the next request
 *   rc_judge.c  checks completions, memory and frames against the requests
 */
#pragma once

#include "sim/work/endpoint.h"

#define SIM_RC_MWS         2u /* memory windows of an endpoint */
#define SIM_RC_WINDOWS_MAX (SIM_REQUESTS_MAX + 8u + SIM_RC_MWS)
/* Address of the shared word in each protection domain. */
#define SIM_RC_SHARED UINT64_C(0x800000000)
/* Distance between the numbers of the first pairs of two workloads. */
#define SIM_RC_FAMILY 100u

struct uro_frame;
struct sim_workload;

enum sim_rc_mw_state { SIM_RC_MW_FREE, SIM_RC_MW_BINDING, SIM_RC_MW_BOUND, SIM_RC_MW_DYING };

/* A memory window, of type 1 or 2. */
struct sim_rc_mw {
    struct uroce_mw *mw; /* owned; NULL: none */
    bool first_type;
    enum sim_rc_mw_state state; /* state known to the owner and the peer */
    uint32_t rkey;
    uint32_t offset; /* offset in its slot */
    uint32_t length;
    uint32_t access;
    uint64_t base; /* address of its first byte */
};

/* A slot of the peer's memory that this endpoint reads and writes; free when it has no users. */
struct sim_rc_window {
    uint32_t users;
    uint32_t writers; /* number of WRITEs posted so far */
    bool revoked;     /* the memory window was invalidated while in use */
    uint64_t seed;
    uint32_t offset;
    uint32_t length;
};

struct sim_rc_state {
    bool revoked[SIM_MEMORY_SECTIONS]; /* deregistered or given a new key while in use */
    /* First request that may use the section with its new key; MAX: none. */
    uint64_t renewed;
    uint32_t psn;        /* PSN of the next posted request */
    uint32_t msn_sent;   /* last MSN that our responder sent */
    uint64_t remote;     /* posted requests that the peer executes */
    uint32_t read_parts; /* READ requests that begin inside a READ: the peer counts them */
    /* Region of the word that all connections share, in our PD; owned. */
    struct uroce_mr *shared_word;
    uint32_t shared_key;                              /* key of that region */
    struct sim_rc_window windows[SIM_RC_WINDOWS_MAX]; /* slots in the peer's memory */
    struct sim_rc_mw mws[SIM_RC_MWS];                 /* windows of this endpoint */
    uint64_t word; /* value of the peer's word after all posted requests */
    uint32_t word_maybes;
    uint64_t word_maybe[SIM_REQUESTS_MAX]; /* other possible values of the word */
};

/* Makes two endpoints peers of each other. cm.h connects them. */
void sim_rc_meet(struct sim_endpoint *a, struct sim_endpoint *b);

/* Updates the windows after the request succeeded. */
void sim_rc_window_done(struct sim_endpoint *end, const struct sim_request *request);
/* Updates the windows after a SEND_WITH_INV arrived. */
void sim_rc_window_invalidated(struct sim_endpoint *end, uint32_t rkey);

/* rc_judge.c: struct sim_endpoint_ops */
void sim_rc_confirm(struct sim_endpoint *end, const struct sim_request *request);
bool sim_rc_expected(const struct sim_endpoint *end, const struct sim_request *request,
                     uint32_t status);
void sim_rc_on_error(struct sim_endpoint *end, const struct sim_request *request, uint32_t status);
void sim_rc_take(struct sim_endpoint *end, const struct sim_receive *receive);
bool sim_rc_recv_expected(const struct sim_endpoint *end, const struct sim_receive *receive);
/* Handles a request that will never complete: the peer may have executed it or not. */
void sim_rc_uncertain(struct sim_endpoint *end, const struct sim_request *request);
void sim_rc_wire(struct sim_endpoint *end, const struct uro_frame *frame);
