/* SPDX-License-Identifier: BSD-3-Clause */
/* cm.h - programs that connect to each other by messages of the connection manager, and the check of the events that
 * they get.
 *
 *   cm.c       users and listeners, and their schedule
 *   cm_user.c  a user takes its turn, and releases its connection
 *   cm_ask.c   requests and answers
 *   cm_hear.c  checks events against the requests and answers
 *   cm_data.c  queue pairs of connections, and the data that goes over them
 *
 * A user is a program with at most one connection: a caller sends requests, and a server answers requests. While there are
 * faults, users are impatient: they reject, disconnect early, or give up. After faults have stopped, the remaining
 * connections end in bounded time. Then each caller makes a last attempt. This attempt must lead to a connection on both
 * sides that carries all data. Its end must be reported once to both sides. Attempts are kept until the end of the run,
 * since their messages may arrive late.
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
#define SIM_CM_SERVICES     16u                 /* between those of a workload and the next */
#define SIM_CM_BESIDE       8u                  /* bytes before and after each message */

/* Private data: a number, then key and address of the sender's window. */
#define SIM_CM_DATA_KEY     4u
#define SIM_CM_DATA_ADDRESS 8u
#define SIM_CM_DATA_LEAST   16u

struct sim_cm;
struct sim_cm_user;

struct sim_cm_data {
    uint32_t length;
    uint8_t octets[URO_CM_DATA_MAX];
};

/* The answer of a server to a request. */
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
    bool nobody;  /* for a service without a listener */
    bool absent;  /* to an address without a host */
    bool patient; /* neither side leaves or rejects */
    bool polite;  /* and there are no faults any more */
    bool slow;    /* the server takes its time to answer */
    bool stays;   /* long connected */
    uint8_t retries;
    uint8_t response_timeout;
    uint64_t unheard;  /* requests without room so far, when the attempt began */
    bool late;         /* request received after such a drop, perhaps by its last repeat */
    uint32_t requests; /* request events so far; the request may come again */
    bool left;         /* a side disconnected, or left without a message */
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
    SIM_CM_LEAVING, /* waits for the event of the end */
    SIM_CM_ENDED,   /* got the event, or rejected: releases the connection at its turn */
};

struct sim_cm_user {
    struct sim_endpoint endpoint; /* its queue pair, if alive */
    struct sim_cm *cm;
    bool calls;
    struct sim_node node;
    enum sim_cm_step step;
    uro_time due;      /* its turn */
    uro_time leave_at; /* leaves without a message */
    uint32_t made;     /* attempts */
    uint32_t tries;    /* those among them that had to succeed */
    bool served;       /* caller: the last attempt did all it had to */

    /* State of the present connection. */
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
};

/* The listeners of a host. */
struct sim_cm_listeners {
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
    struct sim_cm_listeners listeners[2];
    struct sim_cq cqs[2];
    /* Forged requests of the attacker, unanswered while there is room. Owned. */
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
/* Prepares for the end of faults. */
void sim_cm_calm(struct sim_cm *cm);
/* Returns whether each caller was served and no connection is left. */
bool sim_cm_quiet(const struct sim_cm *cm);
/* Closes the listeners for good. */
void sim_cm_finish(struct sim_cm *cm);
/* Writes which users are not done. Returns the bytes written. */
size_t sim_cm_blame(const struct sim_cm *cm, char *text, size_t room);
/* cm_user.c */
/* Waits for the next attempt, if there is one. */
void sim_cm_rest(struct sim_cm_user *user);
/* Limits the stay of a user that would never learn that the other side is gone. */
void sim_cm_limit_stay(struct sim_cm_user *user);
/* Releases the connection and the queue pair. */
void sim_cm_let_go(struct sim_cm_user *user);
/* Enters @step, and schedules the user's next action. */
void sim_cm_turn(struct sim_cm_user *user, enum sim_cm_step step);
/* When all data has arrived, schedules who disconnects. */
void sim_cm_on_progress(struct sim_cm_attempt *attempt);
void sim_cm_fail(const struct sim_cm_user *user, const char *what);
void sim_cm_note(const struct sim_cm_user *user, const char *what);
/* Returns whether no side had a reason to end the attempt, in spite of network faults. */
bool sim_cm_sure(const struct sim_cm *cm, const struct sim_cm_attempt *attempt);
/* Requests that found no room at a host, so far; and whether there were any since the attempt began. */
uint64_t sim_cm_unheard(const struct sim_cm *cm, unsigned side);
bool sim_cm_crowded(const struct sim_cm *cm, const struct sim_cm_attempt *attempt);
/* Returns whether users do not leave early any more. */
bool sim_cm_polite(const struct sim_cm *cm);

/* Returns the service ID for connections of a workload. The next service ID is for datagrams. */
uint64_t sim_cm_service(uint32_t load);
/* Connections of a side's host that belong to this workload. */
uint32_t sim_cm_owned(const struct sim_cm *cm, unsigned side);

/* cm_ask.c */
/* Gives the user the attempt and the connection; a caller has no connection yet. */
void sim_cm_ask_begin(struct sim_cm_user *user, struct sim_cm_attempt *attempt,
                      struct uro_conn *conn);
void sim_cm_ask_turn(struct sim_cm_user *user);
void sim_cm_ask_leave(struct sim_cm_user *user);

/* cm_hear.c */
/* Rejects forged requests. */
void sim_cm_hear_calm(struct sim_cm *cm);
/* Takes all events of a host's connection manager, for any workload. */
void sim_cm_hear(const struct sim_host_work *at_host);

/* cm_data.c */
/* Creates a queue pair in INIT, with all receives posted. */
void sim_cm_qp_make(struct sim_cm_user *user);
/* Moves it to RTS, as negotiated. @own_answer: a server's answer that is not sent yet; else NULL. */
void sim_cm_qp_connect(struct sim_cm_user *user, const struct sim_cm_answer *own_answer);
void sim_cm_qp_to_error(struct sim_cm_user *user);
/* Does nothing when there is none. */
void sim_cm_qp_destroy(struct sim_cm_user *user);

bool sim_cm_data_can_send(const struct sim_cm_user *user);
void sim_cm_data_send(struct sim_cm_user *user);
/* Returns whether the user has sent and received all messages. */
bool sim_cm_data_done(const struct sim_cm_user *user);
void sim_cm_data_judge(struct sim_cm_user *user, const struct uro_cqe *cqe);

/* Returns false when the frame is of no such connection. */
bool sim_cm_wire(struct sim_cm *cm, struct sim_host *host, const struct uro_frame *frame);
