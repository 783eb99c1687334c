/* SPDX-License-Identifier: BSD-3-Clause */
/* threads.h - the threads of a simulated host with two processors: the program, which posts,
 * polls and waits for events, and the service thread of lib/host. host/sched.h decides which
 * thread runs the engine. A program that waits may have the service role (host/waiter.c).
 *
 * Without these threads, the engine of a host runs at once. With them, a round takes time and holds
 * the engine lock, a wake-up takes time, and a thread can lose its processor. The program has times
 * in which it polls, waits for events, or does neither. Work that no thread does within
 * SIM_THREADS_LATE is a lost wake-up, which fails the run.
 */
#pragma once

#include "host/sched.h"
#include "sim/net/world.h"

/* The longest time until a thread runs the engine. It includes two waits for a processor. It also
 * includes the longest time without a call after which host/sched.h counts the program as silent,
 * and the interval of that check. */
#define SIM_THREADS_LATE URO_MS(5)
/* The time until a thread runs the engine, unless a thread loses its processor more than once. */
#define SIM_THREADS_USUAL URO_MS(4)

struct sim_host;

enum sim_program {
    SIM_PROGRAM_POLLS,    /* calls ibv_poll_cq all the time */
    SIM_PROGRAM_WAITS,    /* waits for an event, then polls */
    SIM_PROGRAM_COMPUTES, /* only posts */
    SIM_PROGRAMS
};

/* The engine of the host, as its threads run it. */
struct sim_threads_engine {
    /* Receives frames if @receives, sends frames and passes on events. Returns the number of
     * received frames; writes the number of received and sent frames to @moved. */
    uint32_t (*round)(struct sim_host *host, bool receives, uint32_t *moved);
    /* Returns the time of the engine's next work that needs no frame and no doorbell, but not
     * before the transmit ring has room. */
    uro_time (*due)(const struct sim_host *host);
};

struct sim_threads {
    struct sim_host *host;
    const struct sim_threads_engine *engine;
    struct uro_rng rng;
    struct uro_sched sched;
    struct uro_sched_vars vars;
    enum sim_program program;
    uro_time program_until;  /* time when the program begins to do something else */
    uro_time program_at;     /* next call of the program; NEVER: it sleeps */
    uro_time thread_at;      /* time when the thread that has the service role runs again */
    uro_time round_until;    /* a round holds the engine lock until then */
    uint64_t completions;    /* completions that the program found */
    bool thread_has_lock;    /* the round in progress is of the thread with the service role */
    bool thread_ends;        /* that thread must end its round next */
    bool caller_again;       /* a caller runs another round, for a doorbell during its round */
    bool armed;              /* a frame wakes the thread that has the service role */
    bool waiter;             /* the program waits and has the service role */
    bool slept;              /* the service thread must check the role before it runs */
    bool at_once;            /* the service thread was woken to run at once */
    uro_time look_at;        /* with `waiter`: time when the service thread checks the role */
    uro_time returned_at;    /* time when the program last returned the role; 0: never */
    uint32_t waits;          /* number of times that the program took the role */
    bool posted;             /* the simulator has processed the program's doorbell */
    uro_time due;            /* next timer of the engine */
    uro_time due_since;      /* time of the round or command that set this timer */
    uint32_t vain;           /* polls since the last round that moved frames */
    uro_time frame_since;    /* time since which a frame waits; NEVER: no frame waits */
    uro_time doorbell_since; /* time since which a posted request waits; NEVER: no request waits */
    struct uro_sched_thread_round round;
};

void sim_threads_init(struct sim_threads *threads, struct sim_host *host,
                      const struct sim_threads_engine *engine);

/* Returns the time at which sim_threads_run() has work. */
uro_time sim_threads_next(const struct sim_threads *threads);
void sim_threads_run(struct sim_threads *threads);

/* Reports a frame in the receive ring. */
void sim_threads_on_frame(struct sim_threads *threads);
