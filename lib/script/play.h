/* SPDX-License-Identifier: BSD-3-Clause */
/* play.h - plays a script against an endpoint: takes packets and the time, returns packets, and
 * decides whether the endpoint did what the script expects.
 *
 * The caller drives a play like an engine (engine/engine.h). The play uses an engine for protocols
 * that are not tested: ARP, neighbour discovery, echo. That engine gets no RoCE packet; only the
 * script sends and receives RoCE.
 */
#pragma once

#include "base/rng.h"
#include "engine/engine.h"
#include "script/packet.h"
#include "script/script.h"

/* Received packets that no step has matched yet; more packets are a deviation. */
#define URO_PLAY_INBOX    64u
#define URO_PLAY_OUTBOX   64u
#define URO_PLAY_RULES    8u /* rules: `on` and `drop` steps */
#define URO_PLAY_LINE_MAX 1024u

enum uro_play_result {
    URO_PLAY_RUNNING,
    URO_PLAY_HELD, /* the endpoint did all that the script expects */
    URO_PLAY_DEVIATED,
    URO_PLAY_UNREACHED, /* the endpoint's MAC address was not found: the script was not played */
};

/* The caller owns the strings, the engine and the script, and frees them after the play. */
struct uro_play_config {
    struct uro_engine *engine;
    struct uro_mac mac;
    struct uro_gid address; /* our address: GID @sgid_index of the engine */
    uint8_t sgid_index;
    struct uro_gid peer;
    uint16_t port;
    uint64_t seed; /* seed of our random numbers */
    /* Receives a line for each packet and each deviation. The line is valid during the call. */
    void (*print)(void *user, const char *line);
    void *user;
};

struct uro_play_frame {
    uint32_t length;
    uro_time time;
    uint8_t octets[URO_PACKET_FRAME_MAX];
};

struct uro_play_ring {
    uint32_t first;
    uint32_t count;
    struct uro_play_frame *frames;
};

/* A rule of an `on` or `drop` step, which is applied to a packet before the script gets it. */
struct uro_play_rule {
    const struct uro_script_step *step;
    uint64_t seen;
};

/* The state of the connection. Numbers that a script can name are variables instead. */
struct uro_play_link {
    bool requested;   /* a REQ was sent or received */
    bool confirmed;   /* RTU was sent or received */
    bool ended;       /* a DREQ was received, or a DREP or REJ sent or received */
    uint64_t tid;     /* transaction ID of our REQ */
    uint64_t sent_id; /* the communication ID of our last message */
    uint64_t their_tid;
    uint32_t mad_psn;
};

struct uro_play {
    struct uro_play_config config;
    const struct uro_script *script;
    enum uro_play_result result;
    bool deviated;
    bool closing; /* the steps have ended: the connection is being closed */
    uint32_t closing_left;
    struct uro_resolve resolve;
    bool met;
    uro_time now;
    uro_time began;
    uro_time step_began;
    uint32_t step;
    uint32_t part; /* current part of a CONNECT or ACCEPT step; DISCONNECT: number of DREQs sent */
    uint32_t tries;
    uro_time due; /* time at which the step times out or continues; NEVER: no timer */
    uint64_t repeats;
    struct uro_rng rng;
    struct uro_play_link link;
    uint64_t values[URO_SCRIPT_NAMES_MAX];
    uint64_t known; /* a bit for each variable with a value */
    struct uro_play_rule rules[URO_PLAY_RULES];
    uint32_t rule_count;
    struct uro_play_ring packets;  /* received packets to our queue pair */
    struct uro_play_ring messages; /* received CM messages */
    struct uro_play_ring out;
    uint32_t written; /* number of frames in the last output */
    char line[URO_PLAY_LINE_MAX];
    struct uro_play_frame frames[2 * URO_PLAY_INBOX + URO_PLAY_OUTBOX];
};

/* Starts the play. Returns 0, or the result of uro_engine_resolve_begin() for the endpoint's
 * address. */
URO_NODISCARD int uro_play_init(struct uro_play *play, const struct uro_script *script,
                                const struct uro_play_config *config, uro_time now);
void uro_play_fini(struct uro_play *play);

/* Sets a variable. Call this before the first output. Returns false when the script does not use
 * the variable. */
bool uro_play_set(struct uro_play *play, const char *name, size_t length, uint64_t value);

/* Take input, and return output and the next time, like uro_engine_input(), uro_engine_output() and
 * uro_engine_next(). */
void uro_play_input(struct uro_play *play, const struct uro_pkt *pkts, uint32_t count,
                    uro_time now);
URO_NODISCARD uint32_t uro_play_output(struct uro_play *play, struct uro_tx *tx, uint32_t max,
                                       uro_time now);
uro_time uro_play_next(const struct uro_play *play);
