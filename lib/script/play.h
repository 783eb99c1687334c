/* SPDX-License-Identifier: BSD-3-Clause */
/* play.h - plays a script against an endpoint: packets and the time in, packets out, and whether
 * what came was what the script expects.
 *
 * Driven like an engine (engine/engine.h), which it has beside it for what is not the subject: ARP,
 * neighbour discovery, echo. No RoCE packet reaches that engine; the script alone speaks RoCE.
 */
#pragma once

#include "base/rng.h"
#include "engine/engine.h"
#include "script/packet.h"
#include "script/script.h"

#define URO_PLAY_INBOX    64u /* packets that the script has not looked at; more are a deviation */
#define URO_PLAY_OUTBOX   64u
#define URO_PLAY_RULES    8u /* on and drop */
#define URO_PLAY_LINE_MAX 1024u

enum uro_play_result {
    URO_PLAY_RUNNING,
    URO_PLAY_HELD,
    URO_PLAY_DEVIATED,
    URO_PLAY_UNREACHED, /* the endpoint's address did not answer: nothing was played */
};

/* Strings, the engine and the script are the caller's, for the life of the play. */
struct uro_play_config {
    struct uro_engine *engine;
    struct uro_mac mac;
    struct uro_gid address; /* ours: number @sgid_index of the engine's */
    uint8_t sgid_index;
    struct uro_gid peer;
    uint16_t port;
    uint64_t seed; /* of our numbers */
    /* A line for each packet and each mistake; borrowed for the call. */
    void (*tell)(void *user, const char *line);
    void *user;
};

struct uro_play_frame {
    uint32_t length;
    uro_time at;
    uint8_t octets[URO_PACKET_FRAME_MAX];
};

struct uro_play_ring {
    uint32_t first;
    uint32_t count;
    struct uro_play_frame *frames;
};

/* on and drop: what a packet meets before the script looks. */
struct uro_play_rule {
    const struct uro_script_step *step;
    uint64_t seen;
};

/* The numbers of the connection; those that a script can name are variables. */
struct uro_play_link {
    bool requested;   /* a REQ of ours, or of the endpoint's, is under way */
    bool confirmed;   /* by RTU */
    bool ended;       /* by DREQ, DREP or REJ */
    uint64_t tid;     /* of our REQ */
    uint64_t said_id; /* the communication ID of our last message */
    uint64_t their_tid;
    uint32_t mad_psn;
};

struct uro_play {
    struct uro_play_config config;
    const struct uro_script *script;
    enum uro_play_result result;
    bool deviated;
    bool closing; /* all steps are done: the connection is ended */
    uint32_t closing_left;
    struct uro_resolve resolve;
    bool met;
    uro_time now;
    uro_time began;
    uro_time step_began;
    uint32_t step;
    uint32_t part; /* of a step that has several: CONNECT, ACCEPT */
    uint32_t tries;
    uro_time due; /* when the step gives up or goes on; never: it waits for nothing */
    uint64_t repeats;
    struct uro_rng rng;
    struct uro_play_link link;
    uint64_t values[URO_SCRIPT_NAMES_MAX];
    uint64_t known; /* a bit for each variable */
    struct uro_play_rule rules[URO_PLAY_RULES];
    uint32_t rule_count;
    struct uro_play_ring packets;  /* that came for our queue pair */
    struct uro_play_ring messages; /* that came for connection management */
    struct uro_play_ring out;
    uint32_t written; /* of them, described in the last output */
    char line[URO_PLAY_LINE_MAX];
    struct uro_play_frame frames[2 * URO_PLAY_INBOX + URO_PLAY_OUTBOX];
};

/* Returns 0, or what uro_engine_resolve_begin() says about the endpoint's address. */
URO_NODISCARD int uro_play_init(struct uro_play *play, const struct uro_script *script,
                                const struct uro_play_config *config, uro_time now);
void uro_play_fini(struct uro_play *play);

/* Before the first output. False: the script uses no such variable. */
bool uro_play_set(struct uro_play *play, const char *name, size_t length, uint64_t value);

/* As of an engine. */
void uro_play_input(struct uro_play *play, const struct uro_pkt *pkts, uint32_t count,
                    uro_time now);
URO_NODISCARD uint32_t uro_play_output(struct uro_play *play, struct uro_tx *tx, uint32_t room,
                                       uro_time now);
uro_time uro_play_next(const struct uro_play *play);
