/* SPDX-License-Identifier: BSD-3-Clause */
/* load_cm.h - applications of a simulation that connect to each other by messages of the connection
 * manager, and the judgement of what they are told.
 *
 *   load_cm.c       users and services: who acts when
 *   load_cm_ask.c   what they ask for and answer
 *   load_cm_hear.c  what they are told, against what was asked and answered
 *   load_cm_qp.c    their queue pairs: made, connected, ended
 *   load_cm_data.c  what goes over them
 *   load_cm_wire.c  frames against all that
 *
 * A user is an application with at most one connection: a caller asks, a host is asked. While there
 * are faults, users are impatient: they reject, leave in the middle of it, give up. When faults
 * have stopped, what is left ends in bounded time; then each caller makes a last attempt, which must
 * come to a connection that both sides believe in, that carries everything, and whose end both
 * sides are told of, once. An attempt is remembered for ever: what was said in it may come late.
 */
#pragma once

#include "io/sim/load.h"
#include "wire/frame.h"

#define URO_LOAD_CM_USERS_MAX    16u /* of a station */
#define URO_LOAD_CM_MESSAGES_MAX 8u  /* of a side of a connection */
#define URO_LOAD_CM_ANSWERS_MAX  16u /* to an attempt: its request may come again, much later */
#define URO_LOAD_CM_FORGED_MAX   4u
#define URO_LOAD_CM_NONE         UINT32_MAX
#define URO_LOAD_CM_SERVICE      UINT64_C(0x1064000) /* and the one after it: datagrams */
#define URO_LOAD_CM_SERVICES     16u /* between those of a load and the next one's */
#define URO_LOAD_CM_BESIDE       8u  /* octets before and behind each message */

/* In private data: a number, then where the own window is. */
#define URO_LOAD_CM_DATA_KEY     4u
#define URO_LOAD_CM_DATA_ADDRESS 8u
#define URO_LOAD_CM_DATA_LEAST   16u

struct uro_load_cm;
struct uro_load_cm_user;

struct uro_load_cm_data {
    uint32_t length;
    uint8_t octets[URO_CM_DATA_MAX];
};

/* What a host said to a request. */
struct uro_load_cm_answer {
    bool rejects;
    uint32_t qpn;
    uint32_t qkey;
    uint32_t psn; /* the caller starts with it */
    uint8_t responder_resources;
    uint8_t initiator_depth;
    struct uro_load_cm_data data;
};

struct uro_load_cm_message {
    bool read; /* a READ of the other side's window; else a SEND */
    uint32_t length;
    uint64_t seed;
};

/* Side 0 is the caller's, 1 the host's. */
struct uro_load_cm_attempt {
    uint32_t number;
    unsigned from; /* station */
    unsigned to;
    bool query;   /* for a datagram service */
    bool nobody;  /* for a service that is not offered */
    bool absent;  /* to an address that nobody has */
    bool patient; /* neither side leaves or rejects */
    bool polite;  /* and there are no faults any more */
    bool slow;    /* the host takes its time to answer */
    bool stays;   /* long connected */
    uint8_t retries;
    uint8_t response_timeout;
    uint64_t unheard;  /* requests of anybody's, when it began */
    bool late;         /* heard after one of these, perhaps by its last repeat */
    uint32_t requests; /* heard; its request may come again */
    bool left;         /* somebody said that it is over, or went */
    uint32_t refusals; /* sent by an engine, or by a host that went */
    uint64_t tid;
    uint32_t extensions;             /* MRAs that were sent */
    struct uro_load_cm_user *caller; /* as long as it has the connection */
    uint32_t qpn;
    uint32_t psn; /* the host starts with it */
    uint8_t responder_resources;
    uint8_t initiator_depth;
    struct uro_load_cm_data data;
    uint32_t answer_count;
    struct uro_load_cm_answer answers[URO_LOAD_CM_ANSWERS_MAX];
    uint32_t answer;               /* that the caller confirmed, or NONE */
    struct uro_load_cm_user *host; /* whose answer that is, as long as it has the connection */
    unsigned leavers;              /* set of 1 << side: who disconnects when all is done */
    uint64_t seed;                 /* of what the windows hold */
    uint32_t message_count[2];
    struct uro_load_cm_message messages[2][URO_LOAD_CM_MESSAGES_MAX];
};

enum uro_load_cm_step {
    URO_LOAD_CM_FREE,
    URO_LOAD_CM_ASKED,     /* caller: waits for the answer */
    URO_LOAD_CM_RESPONDED, /* caller: has it, and confirms when its turn comes */
    URO_LOAD_CM_REQUESTED, /* host: answers when its turn comes */
    URO_LOAD_CM_ANSWERED,  /* host: waits for the confirmation */
    URO_LOAD_CM_CONNECTED,
    URO_LOAD_CM_LEAVING, /* waits to hear that it is over */
    URO_LOAD_CM_ENDED,   /* heard it, or said no: lets go when its turn comes */
};

struct uro_load_cm_user {
    struct uro_load_owner owner;
    struct uro_load_cm *cm;
    struct uro_station *station;
    unsigned side;   /* of its station */
    uint32_t number; /* of all users */
    bool calls;
    struct uro_rng rng;
    struct uro_node node;
    enum uro_load_cm_step step;
    uro_time due;      /* its turn */
    uro_time leave_at; /* it leaves without a word */
    uint32_t made;     /* attempts */
    uint32_t tries;    /* those among them that had to succeed */
    bool served;       /* caller: the last attempt did all it had to */

    /* Of this connection. */
    struct uro_conn *conn; /* owned */
    struct uro_load_cm_attempt *attempt;
    uint32_t answer;   /* host: its number */
    unsigned heard;    /* set of 1 << enum uro_conn_event_kind */
    uro_time asked_at; /* what it waits for */

    /* load_cm_qp.c and load_cm_data.c */
    bool alive;
    bool broken; /* a completion in error was seen */
    uint32_t life;
    uint32_t qpn;
    struct uro_qp *qp;
    void *qp_memory; /* owned */
    struct uro_arena arena;
    uint32_t peer_qpn;
    uint32_t first_psn;
    uint32_t reads_max; /* that the other side answers at once */
    uint64_t window_address;
    uint32_t window_key;
    uint32_t posted;
    uint32_t confirmed;
    uint32_t taken; /* receives */
};

/* Services of a station. */
struct uro_load_cm_house {
    struct uro_node node;
    struct uro_load_cm *cm;
    unsigned side;
    bool open;
    uro_time due;                    /* opens or shuts */
    struct uro_listener services[2]; /* connections, datagrams */
};

struct uro_load_cm {
    struct uro_load *load;
    const struct uro_swarm_cm *plan;
    struct uro_rng rng;
    struct uro_load_cm_house houses[2];
    struct uro_load_cq cqs[2];
    /* Requests that a hostile forged: nobody answers them, as long as there is room. Owned. */
    struct uro_conn *forged[2][URO_LOAD_CM_FORGED_MAX];
    uint32_t user_count[2]; /* callers first */
    struct uro_load_cm_user users[2][URO_LOAD_CM_USERS_MAX];
    struct uro_load_cm_attempt **attempts; /* owned, and each of them */
    uint32_t attempt_count;
    uint64_t established; /* that both sides knew of */
};

/* load_cm.c */
struct uro_load_cm *uro_load_cm_make(struct uro_load *load);
void uro_load_cm_free(struct uro_load_cm *cm);
/* Faults have stopped. */
void uro_load_cm_calm(struct uro_load_cm *cm);
/* Everybody was served and nothing is left of it. */
bool uro_load_cm_quiet(const struct uro_load_cm *cm);
/* Services shut for good. */
void uro_load_cm_finish(struct uro_load_cm *cm);
/* Who is not done. Returns octets written. */
size_t uro_load_cm_blame(const struct uro_load_cm *cm, char *text, size_t room);
/* Lets go of the connection and of the queue pair. */
void uro_load_cm_let_go(struct uro_load_cm_user *user);
/* It acts some time soon. */
void uro_load_cm_turn(struct uro_load_cm_user *user, enum uro_load_cm_step step);
/* Everything was said: who shall leave does. */
void uro_load_cm_on_progress(struct uro_load_cm_attempt *attempt);
void uro_load_cm_fail(const struct uro_load_cm_user *user, const char *what);
void uro_load_cm_note(const struct uro_load_cm_user *user, const char *what);
/* Nobody had a reason to end the attempt, whatever the network did. */
bool uro_load_cm_sure(const struct uro_load_cm *cm, const struct uro_load_cm_attempt *attempt);
/* Requests that a station's listener had no room for, so far; whether there were any since the attempt began. */
uint64_t uro_load_cm_unheard(const struct uro_load_cm *cm, unsigned side);
bool uro_load_cm_crowded(const struct uro_load_cm *cm, const struct uro_load_cm_attempt *attempt);
/* Nobody leaves early any more. */
bool uro_load_cm_polite(const struct uro_load_cm *cm);

/* Service of connections of a load; that of datagrams is the next one. */
uint64_t uro_load_cm_service(uint32_t load);
/* Connections of a side's station that somebody of this load has. */
uint32_t uro_load_cm_owned(const struct uro_load_cm *cm, unsigned side);

/* load_cm_ask.c */
/* It has the connection from now on; a caller has none yet. */
void uro_load_cm_ask_begin(struct uro_load_cm_user *user, struct uro_load_cm_attempt *attempt,
                           struct uro_conn *conn);
void uro_load_cm_ask_turn(struct uro_load_cm_user *user);
void uro_load_cm_ask_leave(struct uro_load_cm_user *user);

/* load_cm_hear.c */
/* Rejects what was forged. */
void uro_load_cm_hear_calm(struct uro_load_cm *cm);
/* Takes what the connection manager of a station has to tell, whichever load it is for. */
void uro_load_cm_hear(const struct uro_load_site *site);

/* load_cm_qp.c */
/* In INIT, with all receives posted. */
void uro_load_cm_qp_make(struct uro_load_cm_user *user);
/* To RTS, with what was agreed on. @own_answer: a host's, which is not said yet; else NULL. */
void uro_load_cm_qp_connect(struct uro_load_cm_user *user,
                            const struct uro_load_cm_answer *own_answer);
void uro_load_cm_qp_to_error(struct uro_load_cm_user *user);
/* Harmless when there is none. */
void uro_load_cm_qp_destroy(struct uro_load_cm_user *user);
/* Once, before all others. */
void uro_load_cm_qp_own(struct uro_load_cm_user *user);

/* load_cm_data.c */
void uro_load_cm_data_receives(struct uro_load_cm_user *user);
bool uro_load_cm_data_can_send(const struct uro_load_cm_user *user);
void uro_load_cm_data_send(struct uro_load_cm_user *user);
/* All that it sends and all that it gets. */
bool uro_load_cm_data_done(const struct uro_load_cm_user *user);
void uro_load_cm_data_judge(struct uro_load_cq *cq, const struct uro_cqe *cqe);
/* 0: the caller's */
unsigned uro_load_cm_data_side(const struct uro_load_cm_user *user);

/* load_cm_wire.c */
/* False when the frame is none of theirs. */
bool uro_load_cm_wire(struct uro_load_cm *cm, struct uro_station *station,
                      const struct uro_frame *frame);
