/* SPDX-License-Identifier: BSD-3-Clause */
/* fork.h - fork(): the child starts with devices of its own.
 *
 * Each process has a generation, a number that a child of fork() counts up. A device that ran in the parent is dead in
 * the child, and so is every object that was made on it: its generation is an older one. The child's list of devices has
 * a new device in its place, which starts when it is needed. A device that had not started lives on in both.
 *
 * A child that was made without the handlers of fork(), by clone() or _Fork(), has the generation 0: all its devices are
 * dead until it calls exec(). A child of vfork() shares the memory of its parent, and may only call exec() or _exit().
 */
#pragma once

#include "base/defs.h"

struct uro_device;

/* What a part of the library does around fork(). Handlers of the child must not wait for a lock that prepare() does not
 * take: a thread that the child does not have may hold it. */
struct uro_fork_part {
    void (*prepare)(void);
    void (*parent)(void);
    void (*child)(void);
};

/* When prepare() is called: before the devices' locks are taken, for locks that are held while an engine is locked; or
 * afterwards, for locks that are taken under an engine's lock. The others are called the other way round. */
enum uro_fork_rank { URO_FORK_OUTER, URO_FORK_INNER, URO_FORK_RANKS };

/* @part is kept. At most 4 of a rank. Thread: any. */
void uro_fork_join(enum uro_fork_rank rank, const struct uro_fork_part *part);

/* Watches fork() for these devices. @devices is NULL-terminated and kept: a child changes its entries. */
void uro_fork_watch(struct uro_device **devices);
/* Replaces the list of devices that a fork() handles. The caller holds a lock that every fork() takes first. */
void uro_fork_watch_list(struct uro_device **devices);

/* Generation of a removed device; no process has this generation. */
#define URO_FORK_NEVER UINT32_MAX

/* For handlers of the child: whether a device ran in the parent, so that it is dead here. */
bool uro_fork_abandoned(void);

/* Of this process: 1, one more in each child of fork(), 0 in a child made without its handlers. */
uint32_t uro_fork_generation(void);
