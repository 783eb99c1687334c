/* SPDX-License-Identifier: BSD-3-Clause */
/* cm.h - programs that connect to each other by messages of the connection manager, and the check
 * of their events.
 *
 *   cm.c         the state of a program, and the endpoint of its connection; requests, answers and
 *                disconnects; listeners; the schedule
 *   cm_events.c  checks events and management datagrams against the requests and answers
 *
 * A user is a program with at most one connection: a caller sends requests, and a server answers
 * requests. While there are faults, users may be impatient: they reject, disconnect early, or give
 * up. When faults have stopped, the remaining connections must end within a time limit. Then each
 * caller makes a last attempt. It must lead to a connection that transfers all data, or to the
 * answer of a datagram service. Both sides must get exactly one event at the end of a connection.
 * The queue pairs are endpoints of rc.h, which move the data and check it. Attempts and endpoints
 * are stored until the end of the run. Messages of an attempt may arrive late, and the checks of
 * one side may need the other endpoint after it is destroyed.
 */
#pragma once

#include <uroce/connection.h>

#include "sim/work/rc.h"
#include "sim/work/workload.h"
#include "wire/frame.h"

#define SIM_CM_USERS_MAX    16u /* users of a host in one workload */
#define SIM_CM_MESSAGES_MAX 8u  /* messages of a side of a connection */
/* Maximum number of answers to an attempt: its request may arrive again much later. */
#define SIM_CM_ANSWERS_MAX 16u
#define SIM_CM_FORGED_MAX  4u
#define SIM_CM_NONE        UINT32_MAX

struct sim_cm;
struct sim_cm_user;

/* A request or an answer. The first four bytes of its private data are the number of the attempt,
 * or of the answer. */
struct sim_cm_message {
    struct uroce_conn_param param;
    uint32_t psn;             /* first PSN that the other side sends */
    bool rejects;             /* the answer is a rejection */
    struct sim_endpoint *end; /* endpoint of a response; NULL: none */
};

struct sim_cm_attempt {
    uint32_t number;
    unsigned to;  /* side of the workload */
    bool query;   /* asks for a datagram service */
    bool nobody;  /* asks for a service without a listener */
    bool absent;  /* asks at an address without a host */
    bool patient; /* neither side leaves or rejects */
    bool calm;    /* patient, and there are no faults */
    bool slow;    /* the server takes its time to answer */
    bool stays;   /* connected for a long time */
    uint8_t retries;
    uint8_t response_timeout;
    /* Requests that the server's host had dropped for lack of room when the attempt began. */
    uint64_t dropped;
    /* True: the request arrived after such a drop, perhaps by its last retransmission. */
    bool late;
    uint32_t requests; /* request events so far; the request may arrive again */
    bool left;         /* a side disconnected, or left without a message */
    uint32_t refusals; /* REJs that were sent, except for timeouts */
    uint64_t tid;
    uint32_t extensions; /* MRAs that were sent */
    struct sim_cm_message request;
    uint32_t answer_count;
    struct sim_cm_message answers[SIM_CM_ANSWERS_MAX];
    uint32_t answer;  /* response that the caller confirmed, or NONE */
    unsigned leavers; /* sides that disconnect at the end: 1 the caller, 2 the server, 3 both */
    uint32_t message_count[2]; /* messages of the caller, of the server */
};

enum sim_cm_step {
    SIM_CM_FREE,
    SIM_CM_REQ_SENT,  /* caller: waits for the answer */
    SIM_CM_RESPONDED, /* caller: has the answer, and confirms at its next turn */
    SIM_CM_REQUESTED, /* server: answers at its next turn */
    SIM_CM_ANSWERED,  /* server: waits for the confirmation */
    SIM_CM_CONNECTED,
    SIM_CM_LEAVING, /* waits for the event of the end */
    SIM_CM_ENDED,   /* got its last event, rejected, or answered a query: next releases */
};

/* The endpoint of a user, connected to the endpoint of another user. */
struct sim_cm_endpoint {
    struct sim_cm_endpoint *next; /* list of all endpoints of the workload */
    struct sim_life life;         /* has one endpoint: ends[0] */
    struct sim_cm_user *user;     /* NULL: the user released it */
};

struct sim_cm_user {
    struct sim_node node;
    struct sim_cm *cm;
    struct uro_rng rng;
    uint32_t number;
    unsigned side; /* side of the workload */
    bool calls;
    enum sim_cm_step step;
    uro_time due;      /* time of the next step */
    uro_time leave_at; /* time at which the user leaves, mostly without a message */
    uint32_t made;     /* attempts */
    uint32_t tries;    /* calm attempts */
    uint32_t lives;    /* endpoints so far */
    bool served;       /* caller: the last attempt did all of its work */

    /* State of the present connection. */
    struct uroce_conn *conn; /* owned */
    struct sim_cm_attempt *attempt;
    struct sim_cm_endpoint *own; /* NULL: no queue pair */
    uint32_t answer;             /* number of the answer that the user sent or got */
    unsigned seen;               /* events so far: set of 1 << enum uroce_conn_event_kind */
    uro_time waiting_since;      /* start of the present wait */
};

/* The listeners of a host. */
struct sim_cm_listeners {
    struct sim_node node; /* due: next time at which the listeners are opened or closed */
    struct sim_cm *cm;
    unsigned side;
    bool open;
    struct uroce_listener *services[2]; /* for connections and for datagrams */
};

struct sim_cm {
    struct sim_workload *workload;
    const struct sim_plan_cm *plan;
    struct uro_rng rng;
    struct sim_endpoint_ops ops; /* operations of the endpoints */
    /* Plan of the endpoints; ends[1] has no requests that need responder resources. */
    struct sim_plan_pair pair;
    struct sim_cm_listeners listeners[2];
    /* Forged requests of the attacker, unanswered while there is room. Owned. */
    struct uroce_conn *forged[2][SIM_CM_FORGED_MAX];
    uint32_t user_count[2]; /* callers first */
    struct sim_cm_user users[2][SIM_CM_USERS_MAX];
    struct sim_cm_endpoint *endpoints; /* owned */
    struct sim_cm_attempt **attempts;  /* owned, as each attempt is */
    uint32_t attempt_count;
};

/* cm.c */
struct sim_cm *sim_cm_make(struct sim_workload *workload);
void sim_cm_free(struct sim_cm *cm);
/* Prepares for the end of faults. */
void sim_cm_calm(struct sim_cm *cm);
/* Returns whether each caller was served and no connection is left. */
bool sim_cm_idle(const struct sim_cm *cm);
/* Closes the listeners for good. */
void sim_cm_finish(struct sim_cm *cm);
/* Appends which users are not done. */
void sim_cm_explain(const struct sim_cm *cm, char *text, size_t size);
/* Returns the service ID for connections of a workload. The next service ID is for datagrams. */
uint64_t sim_cm_service(uint32_t workload);
/* Returns the service ID that the attempt asks for. */
uint64_t sim_cm_requested(const struct sim_cm *cm, const struct sim_cm_attempt *attempt);

/* Gives the user the attempt and the connection; a caller has no connection yet. */
void sim_cm_begin(struct sim_cm_user *user, struct sim_cm_attempt *attempt,
                  struct uroce_conn *conn);
/* Enters @step, and schedules the user's next action. */
void sim_cm_enter(struct sim_cm_user *user, enum sim_cm_step step);
/* Returns whether the user's endpoint and the other side's have moved all data. */
bool sim_cm_worked(const struct sim_cm_user *user);
/* When all data has arrived, schedules who disconnects. */
void sim_cm_on_progress(struct sim_cm_user *user);
void sim_cm_fail(const struct sim_cm_user *user, const char *problem);
void sim_cm_note(const struct sim_cm_user *user, const char *problem);
/* Returns whether no side had a reason to end the attempt, in spite of network faults. */
bool sim_cm_sure(const struct sim_cm *cm, const struct sim_cm_attempt *attempt);
/* Returns whether the server's host dropped requests for lack of room since the attempt began. */
bool sim_cm_crowded(const struct sim_cm *cm, const struct sim_cm_attempt *attempt);

/* cm_events.c */
/* Takes all events of a host's connection manager, for any workload. */
void sim_cm_events(const struct sim_host_workloads *host_workloads);
/* Checks a management datagram that a host sent. */
void sim_cm_check_mad(struct sim_cm *cm, const struct sim_host *host,
                      const struct uro_frame *frame);
/* Rejects forged requests. */
void sim_cm_reject_forged(struct sim_cm *cm);

static inline struct sim_endpoint *sim_cm_end(const struct sim_cm_user *user)
{
    return user->own != NULL ? &user->own->life.ends[0] : NULL;
}

/* Returns the user of an endpoint, or NULL. */
static inline struct sim_cm_user *sim_cm_user(const struct sim_endpoint *end)
{
    return URO_CONTAINER_OF(end->life, struct sim_cm_endpoint, life)->user;
}

static inline uro_time sim_cm_now(const struct sim_cm_user *user)
{
    return user->cm->workload->world->now;
}

static inline struct sim_host *sim_cm_host(const struct sim_cm_user *user)
{
    return user->cm->workload->hosts[user->side];
}

static inline struct uroce_engine *sim_cm_engine(const struct sim_cm *cm, unsigned side)
{
    return cm->workload->hosts[side]->engine;
}
