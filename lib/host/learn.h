/* SPDX-License-Identifier: BSD-3-Clause */
/* learn.h - whether the program drives or the service thread, learned from who finds the frames.
 *
 * A balance goes down when callers find frames, and when the thread finds what
 * they were about to find. It goes up when the thread finds what a peer did with the program's memory while the
 * program did not poll: that program spins on its memory, whatever it posts and polls in between. A
 * program that announces that it will wait (uro_device_hand_over) puts it at its top.
 *
 * While the program drives, the thread takes over after a silence. How long it is, is learned, too: a program that comes
 * back soon after that is only slow.
 *
 * A program that spins on memory between its posts (ib_write_lat) polls for the ACK of its WRITE, and then only looks at
 * its memory for the peer's. That WRITE comes a moment after the ACK, and the thread would have to be woken for it. The
 * reply score says whether a poll that found such an ACK looks for the WRITE, too.
 */
#pragma once

#include "host/device.h"

#define URO_SILENCE_MIN URO_US(50)

/* The program polls, whether it drives or not, and found something or nothing. */
void uro_learn_poll(struct uro_device *device, bool found);

/* It will wait for an event: the thread is in charge. Returns whether it was. Losing it to somebody who has the
 * engine lock would be made good by the next frames. */
bool uro_learn_waits(struct uro_device *device);

/* ---- the engine lock is held -------------------------------------------- */

/* A caller's round found frames. */
void uro_learn_caller(struct uro_device *device);

/* A round of the thread found frames. A program that polls finds its completions itself. It does not find what a peer
 * does with its memory: when it neither polls in vain, it waits for that by looking at its memory, or not at all. */
void uro_learn_thread(struct uro_device *device, uro_time now);

/* The requests of peers so far that no completion tells of, and others that write. */
uint64_t uro_learn_served(const struct uro_device *device);

/* A poll that had found an ACK looked for the peer's WRITE, which @came or not. */
void uro_learn_reply(struct uro_device *device, bool came);

/* The thread believed that the program was silent; at @now it called. */
void uro_learn_silence(struct uro_device *device, uro_time now);
