/* SPDX-License-Identifier: BSD-3-Clause */
/* sim.h - the simulator: runs 2 to 8 engines from a seed, with their links and programs, and checks
 * their behaviour.
 *
 * This is the header for programs. A run is (commit, seed). tests/mutants/oracle.rules lists the
 * invariants. plan/plan.h defines the meaning of a seed.
 */
#pragma once

#include "base/time.h"

struct sim_options {
    uint64_t seed;
    uint32_t without;                /* set of parts to leave out, see sim_part() */
    uint32_t less;                   /* number of times to halve the work */
    const char *pcap;                /* path of a capture of all frames of the hosts; NULL: none */
    void (*trace)(const char *line); /* receives every line at once; NULL: none */
    /* Receives the last lines after a failure, oldest first; NULL: none. */
    void (*print)(const char *line);
};

#define SIM_TEXT_MAX    1024u
#define SIM_SETTING_MAX 16384u

struct sim_result {
    bool passed;
    char failure[SIM_TEXT_MAX];    /* first failure; "": none */
    char setting[SIM_SETTING_MAX]; /* the plan as text, for people */
    uint64_t digest;               /* digest of frames with their times, completions, CM events */
    uint32_t hosts;
    uint64_t frames;
    uint64_t operations;
    uint64_t lives;    /* number of lives of queue pairs */
    uint64_t failures; /* completions in error, all of them expected */
    uro_time duration;
    uro_time patience_used; /* time from the end of faults until all work was done, ns */
};

/* Returns result->passed. */
bool sim_run(const struct sim_options *options, struct sim_result *result);

/* Adds the part with this name to the set. Returns false when no part has this name. */
bool sim_part(const char *name, size_t length, uint32_t *parts);
/* Returns the name of part @number, or NULL when there are no more. */
const char *sim_part_name(size_t number);

/* Reports the last lines and closes the capture. For a handler of SIGABRT, after an assertion
 * failed inside sim_run(). */
void sim_crashed(void);
