/* SPDX-License-Identifier: BSD-3-Clause */
/* pcap_replay.h - feeds a capture to an engine in recorded time, to see again what it did. */
#pragma once

#include "engine/engine.h"
#include "io/pcap/pcap_read.h"

struct uro_pcap_replay {
    struct uro_engine *engine;
    uro_time start; /* engine time of the first frame: not before its uro_engine_init() */
    /* Each frame the engine sends; NULL when they do not matter. */
    void (*sent)(void *user, const struct uro_tx *tx, uro_time now);
    void *user;

    uint64_t frames_in; /* counted here; zero at first */
    uint64_t frames_out;
    uro_time now; /* where it stopped */
};

/* Gives every frame that is left in @reader to the engine at its time, and between them whatever
 * the engine's timers want; then goes on for @linger ns. Frames out of order in the file arrive at
 * the time of the latest one before; a silence of more than three hours counts as three. Returns 0,
 * or
 *   -EBADMSG  as uro_pcap_read_next(); the frames before it were given */
URO_NODISCARD int uro_pcap_replay_run(struct uro_pcap_replay *replay, struct uro_pcap_read *reader,
                                      uro_time linger);
