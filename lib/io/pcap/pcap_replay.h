/* SPDX-License-Identifier: BSD-3-Clause */
/* pcap_replay.h - feeds a capture to an engine in recorded time, to reproduce its behaviour. */
#pragma once

#include "engine/engine.h"
#include "io/pcap/pcap_read.h"

struct uro_pcap_replay {
    struct uro_engine *engine;
    uro_time start; /* engine time of the first frame; not before uro_engine_init() */
    /* Called for each frame that the engine sends, unless NULL. */
    void (*sent)(void *user, const struct uro_tx *tx, uro_time now);
    void *user;

    uint64_t frames_in; /* frames that the engine received; 0 at first */
    uint64_t frames_out;
    uro_time now; /* engine time at the end */
};

/* Feeds each remaining frame of @reader to the engine at its time, and runs the engine's timers in
 * between. Then continues for @linger ns. The time never goes back: a frame with an earlier
 * recorded time arrives immediately after the frame before it. A pause of more than three hours
 * counts as three hours. Returns 0, or
 *   -EBADMSG  see uro_pcap_read_next(); the frames before the damage were fed to the engine */
URO_NODISCARD int uro_pcap_replay_run(struct uro_pcap_replay *replay, struct uro_pcap_read *reader,
                                      uro_time linger);
