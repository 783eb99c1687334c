/* SPDX-License-Identifier: BSD-3-Clause */
/* cm.h - applications of a simulation that connect to each other by messages of the connection
 * manager, and the judgement of what they are told.
 *
 *   cm.c        users and services: who acts when
 *   cm_user.c   a user takes its turn, and lets go
 *   cm_ask.c   what they ask for and answer
 *   cm_hear.c  what they are told, against what was asked and answered
 *   cm_data.c   their queue pairs, and what goes over them
 *
 * A user is an application with at most one connection: a caller asks, a server is asked. While there
 * are faults, users are impatient: they reject, leave in the middle of it, give up. When faults
 * have stopped, what is left ends in bounded time; then each caller makes a last attempt, which must
 * come to a connection that both sides believe in, that carries everything, and whose end both
 * sides are told of, once. An attempt is remembered for ever: what was said in it may come late.
 */
#pragma once

#include "sim/work/endpoint.h"
#include "sim/work/workload.h"
#include "wire/frame.h"

#define SIM_CM_USERS_MAX    16u /* of a host */
#define SIM_CM_MESSAGES_MAX 8u  /* of a side of a connection */
#define SIM_CM_ANSWERS_MAX  16u /* to an attempt: its request may come again, much later */
#define SIM_CM_FORGED_MAX   4u
#define SIM_CM_NONE         UINT32_MAX
#define SIM_CM_SERVICE      UINT64_C(0x1064000) /* and the one after it: datagrams */
#define SIM_CM_SERVICES     16u                 /* between those of a load and the next one's */
#define SIM_CM_BESIDE       8u                  /* octets before and behind each message */

/* In private data: a number, then where the own window is. */
#define SIM_CM_DATA_KEY     4u
#define SIM_CM_DATA_ADDRESS 8u
#define SIM_CM_DATA_LEAST   16u

struct sim_cm;
struct sim_cm_user;

struct sim_cm_data {
    uint32_t length;
    uint8_t octets[URO_CM_DATA_MAX];
};

/* What a server said to a request. */
struct sim_cm_answer {
    bool rejects;
    uint32_t qpn;
    uint32_t qkey;
    uint32_t psn; /* the caller starts with it */
    uint8_t responder_resources;
    uint8_t initiator_depth;
    struct sim_cm_data data;
};

struct sim_cm_message {
    bool read; /* a READ of the other side's window; else a SEND */
    uint32_t length;
    uint64_t seed;
};

/* Side 0 is the caller's, 1 the server's. */
struct sim_cm_attempt {
    uint32_t number;
    unsigned from; /* host */
    unsigned to;
    bool query;   /* for a datagram service */
    bool nobody;  /* for a service that is not offered */
    bool absent;  /* to an address that nobody has */
    bool patient; /* neither side leaves or rejects */
    bool polite;  /* and there are no faults any more */
    bool slow;    /* the server takes its time to answer */
    bool stays;   /* long connected */
    uint8_t retries;
    uint8_t response_timeout;
    uint64_t unheard;  /* requests of anybody's, when it began */
    bool late;         /* heard after one of these, perhaps by its last repeat */
    uint32_t requests; /* heard; its request may come again */
    bool left;         /* somebody said that it is over, or went */
    uint32_t refusals; /* sent by an engine, or by a server that went */
    uint64_t tid;
    uint32_t extensions;        /* MRAs that were sent */
    struct sim_cm_user *caller; /* as long as it has the connection */
    uint32_t qpn;
    uint32_t psn; /* the server starts with it */
    uint8_t responder_resources;
    uint8_t initiator_depth;
    struct sim_cm_data data;
    uint32_t answer_count;
    struct sim_cm_answer answers[SIM_CM_ANSWERS_MAX];
    uint32_t answer;            /* that the caller confirmed, or NONE */
    struct sim_cm_user *server; /* whose answer that is, as long as it has the connection */
    unsigned leavers;           /* set of 1 << side: who disconnects when all is done */
    uint64_t seed;              /* of what the windows hold */
    uint32_t message_count[2];
    struct sim_cm_message messages[2][SIM_CM_MESSAGES_MAX];
};

enum sim_cm_step {
    SIM_CM_FREE,
    SIM_CM_ASKED,     /* caller: waits for the answer */
    SIM_CM_RESPONDED, /* caller: has it, and confirms when its turn comes */
    SIM_CM_REQUESTED, /* server: answers when its turn comes */
    SIM_CM_ANSWERED,  /* server: waits for the confirmation */
    SIM_CM_CONNECTED,
    SIM_CM_LEAVING, /* waits to hear that it is over */
    SIM_CM_ENDED,   /* heard it, or said no: lets go when its turn comes */
};

struct sim_cm_user {
    struct sim_endpoint endpoint; /* its queue pair, if alive */
    struct sim_cm *cm;
    unsigned side;   /* of its host */
    uint32_t number; /* of all users */
    bool calls;
    struct uro_rng rng;
    struct sim_node node;
    enum sim_cm_step step;
    uro_time due;      /* its turn */
    uro_time leave_at; /* it leaves without a word */
    uint32_t made;     /* attempts */
    uint32_t tries;    /* those among them that had to succeed */
    bool served;       /* caller: the last attempt did all it had to */

    /* Of this connection. */
    struct uro_conn *conn; /* owned */
    struct sim_cm_attempt *attempt;
    uint32_t answer;   /* server: its number */
    unsigned heard;    /* set of 1 << enum uro_conn_event_kind */
    uro_time asked_at; /* what it waits for */

    /* cm_data.c */
    bool broken; /* a completion in error was seen */
    uint32_t life;
    uint32_t peer_qpn;
    uint32_t first_psn;
    uint32_t reads_max; /* that the other side answers at once */
    uint64_t window_address;
    uint32_t window_key;
    uint32_t posted;
    uint32_t confirmed;
    uint32_t taken; /* receives */
};

/* Services of a host. */
struct sim_cm_house {
    struct sim_node node;
    struct sim_cm *cm;
    unsigned side;
    bool open;
    uro_time due;                    /* opens or shuts */
    struct uro_listener services[2]; /* connections, datagrams */
};

struct sim_cm {
    struct sim_workload *load;
    const struct sim_plan_cm *plan;
    struct uro_rng rng;
    struct sim_cm_house houses[2];
    struct sim_cq cqs[2];
    /* Requests that a attacker forged: nobody answers them, as long as there is room. Owned. */
    struct uro_conn *forged[2][SIM_CM_FORGED_MAX];
    uint32_t user_count[2]; /* callers first */
    struct sim_cm_user users[2][SIM_CM_USERS_MAX];
    struct sim_cm_attempt **attempts; /* owned, and each of them */
    uint32_t attempt_count;
    uint64_t established; /* that both sides knew of */
};

/* cm.c */
struct sim_cm *sim_cm_make(struct sim_workload *load);
void sim_cm_free(struct sim_cm *cm);
/* Faults have stopped. */
void sim_cm_calm(struct sim_cm *cm);
/* Everybody was served and nothing is left of it. */
bool sim_cm_quiet(const struct sim_cm *cm);
/* Services shut for good. */
void sim_cm_finish(struct sim_cm *cm);
/* Who is not done. Returns octets written. */
size_t sim_cm_blame(const struct sim_cm *cm, char *text, size_t room);
/* cm_user.c */
/* Waits for the next attempt, if there is one. */
void sim_cm_rest(struct sim_cm_user *user);
/* Limits the time that a user stays whom nobody tells that the other side is gone. */
void sim_cm_limit_stay(struct sim_cm_user *user);
/* Lets go of the connection and of the queue pair. */
void sim_cm_let_go(struct sim_cm_user *user);
/* It acts some time soon. */
void sim_cm_turn(struct sim_cm_user *user, enum sim_cm_step step);
/* Everything was said: who shall leave does. */
void sim_cm_on_progress(struct sim_cm_attempt *attempt);
void sim_cm_fail(const struct sim_cm_user *user, const char *what);
void sim_cm_note(const struct sim_cm_user *user, const char *what);
/* Nobody had a reason to end the attempt, whatever the network did. */
bool sim_cm_sure(const struct sim_cm *cm, const struct sim_cm_attempt *attempt);
/* Requests that a host's listener had no room for, so far; whether there were any since the attempt began. */
uint64_t sim_cm_unheard(const struct sim_cm *cm, unsigned side);
bool sim_cm_crowded(const struct sim_cm *cm, const struct sim_cm_attempt *attempt);
/* Nobody leaves early any more. */
bool sim_cm_polite(const struct sim_cm *cm);

/* Service of connections of a load; that of datagrams is the next one. */
uint64_t sim_cm_service(uint32_t load);
/* Connections of a side's host that somebody of this load has. */
uint32_t sim_cm_owned(const struct sim_cm *cm, unsigned side);

/* cm_ask.c */
/* It has the connection from now on; a caller has none yet. */
void sim_cm_ask_begin(struct sim_cm_user *user, struct sim_cm_attempt *attempt,
                      struct uro_conn *conn);
void sim_cm_ask_turn(struct sim_cm_user *user);
void sim_cm_ask_leave(struct sim_cm_user *user);

/* cm_hear.c */
/* Rejects what was forged. */
void sim_cm_hear_calm(struct sim_cm *cm);
/* Takes what the connection manager of a host has to tell, whichever load it is for. */
void sim_cm_hear(const struct sim_host_work *at_host);

/* In INIT, with all receives posted. */
void sim_cm_qp_make(struct sim_cm_user *user);
/* To RTS, with what was agreed on. @own_answer: a server's, which is not said yet; else NULL. */
void sim_cm_qp_connect(struct sim_cm_user *user, const struct sim_cm_answer *own_answer);
void sim_cm_qp_to_error(struct sim_cm_user *user);
/* Harmless when there is none. */
void sim_cm_qp_destroy(struct sim_cm_user *user);

/* cm_data.c */
void sim_cm_data_receives(struct sim_cm_user *user);
bool sim_cm_data_can_send(const struct sim_cm_user *user);
void sim_cm_data_send(struct sim_cm_user *user);
/* All that it sends and all that it gets. */
bool sim_cm_data_done(const struct sim_cm_user *user);
void sim_cm_data_judge(struct sim_cm_user *user, const struct uro_cqe *cqe);
/* 0: the caller's */
unsigned sim_cm_data_side(const struct sim_cm_user *user);

/* False when the frame is none of theirs. */
bool sim_cm_wire(struct sim_cm *cm, struct sim_host *host, const struct uro_frame *frame);
