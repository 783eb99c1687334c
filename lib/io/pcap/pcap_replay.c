/* SPDX-License-Identifier: BSD-3-Clause */
/* pcap_replay.c - see pcap_replay.h for the contract. */
#include "io/pcap/pcap_replay.h"

#define BURST                  8u
#define ROUNDS_PER_INSTANT_MAX 100000u /* more rounds mean an endless loop of the engine */
#define SILENCE_MAX            (3 * 3600 * URO_MS(1000)) /* no ACK timeout is longer */

/* Lets the engine send until it has nothing to do at replay->now. */
static void drain(struct uro_pcap_replay *replay)
{
    struct uro_tx tx[BURST];
    uint32_t rounds = 0;
    uint32_t count;

    do {
        count = uro_engine_output(replay->engine, tx, BURST, replay->now);
        for (uint32_t i = 0; i < count && replay->sent != NULL; i++)
            replay->sent(replay->user, &tx[i], replay->now);
        replay->frames_out += count;
        rounds++;
        URO_ASSERT(rounds <= ROUNDS_PER_INSTANT_MAX);
    } while (count > 0 || uro_engine_next(replay->engine) <= replay->now);
}

/* Runs the engine's timers up to and including @until. */
static void advance(struct uro_pcap_replay *replay, uro_time until)
{
    uro_time next;

    while ((next = uro_engine_next(replay->engine)) <= until) {
        if (next > replay->now)
            replay->now = next;
        drain(replay);
    }
    if (until > replay->now)
        replay->now = until;
}

int uro_pcap_replay_run(struct uro_pcap_replay *replay, struct uro_pcap_read *reader,
                        uro_time linger)
{
    struct uro_pcap_read_frame frame;
    uint64_t latest = 0;
    int result;

    replay->now = replay->start;
    while ((result = uro_pcap_read_next(reader, &frame)) == 1) {
        if (replay->frames_in == 0)
            latest = frame.time;
        if (frame.time > latest) {
            uint64_t silence = frame.time - latest;
            advance(replay, replay->now + (silence < SILENCE_MAX ? silence : SILENCE_MAX));
            latest = frame.time;
        }
        uro_engine_input(replay->engine, &frame.pkt, 1, replay->now);
        replay->frames_in++;
        drain(replay);
    }
    advance(replay, replay->now + linger);
    return result;
}
