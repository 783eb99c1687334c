/* SPDX-License-Identifier: BSD-3-Clause */
/* sim.h - one simulation from a seed: 2 to 8 engines, their links and applications, and the judgement.
 *
 * A run is (commit, seed). What must hold: see docs/TESTING.md; what a seed means: plan.h.
 */
#pragma once

#include "base/time.h"

struct sim_options {
    uint64_t seed;
    uint32_t without;                /* set of SIM_PLAN_PART() */
    uint32_t less;                   /* the work is halved so many times */
    const char *pcap;                /* a capture of all frames sent; NULL: none */
    void (*trace)(const char *line); /* every line as it happens; NULL: none */
    void (*tell)(const char *line);  /* on failure: the last lines, oldest first; NULL: none */
};

#define SIM_TEXT_MAX    1024u
#define SIM_SETTING_MAX 5248u

struct sim_result {
    bool passed;
    char failure[SIM_TEXT_MAX];    /* "" or the first thing that went wrong */
    char setting[SIM_SETTING_MAX]; /* what was on */
    uint64_t digest;               /* of every frame and completion, with its time */
    uint32_t hosts;
    uint64_t frames;
    uint64_t operations;
    uint64_t lives;    /* of pairs of queue pairs */
    uint64_t failures; /* completions in error, all of them expected */
    uro_time duration;
    uro_time patience_used; /* ns after faults stopped until all was done */
};

/* Returns result->passed. */
bool sim_run(const struct sim_options *options, struct sim_result *result);

/* For a handler of SIGABRT: an assertion failed inside sim_run(); tells what can be told of it
 * and closes the capture. */
void sim_crashed(void);
