/* SPDX-License-Identifier: BSD-3-Clause */
/* fork.h - handles fork(): the child gets its own devices.
 *
 * Each process has a generation, a number that grows by one in a child of fork(). A device that ran
 * in the parent has an older generation, so the device and its objects are dead in the child. The
 * child's list has a new device in place of the dead device. The new device starts at its first
 * use. A device that was not started before the fork stays usable in both processes. But after the
 * parent has started a device of DPDK, all devices of DPDK are dead in the child.
 *
 * A child of clone() or _Fork() was created without the handlers of fork() and has the generation
 * 0. All its devices are dead until it calls exec(). A child of vfork() shares the memory of its
 * parent, and may only call exec() or _exit().
 */
#pragma once

#include "base/defs.h"

struct uro_device;

/* Handlers that a part of the library runs at fork(). The child handler may wait only for locks
 * that prepare() has taken. Other locks may be held by threads that the child does not have. */
struct uro_fork_part {
    void (*prepare)(void);
    void (*parent)(void);
    void (*child)(void);
};

/* Order of the handlers. prepare() of an outer part runs before the locks of the devices are taken,
 * prepare() of an inner part afterwards. parent() runs in the reverse order. In the child, the
 * locks of the devices are released first. Then child() of inner parts runs, and finally child() of
 * outer parts. */
enum uro_fork_rank {
    URO_FORK_OUTER, /* for locks under which a thread takes an engine lock */
    URO_FORK_INNER, /* for locks that a thread takes while it holds an engine lock */
    URO_FORK_RANKS
};

/* Registers the handlers of @part, which must stay valid. At most 4 parts of a rank. Thread:
 * any. */
void uro_fork_join(enum uro_fork_rank rank, const struct uro_fork_part *part);

/* Installs the handlers of fork() for these devices. @devices is NULL-terminated and must stay
 * valid: a child changes it. */
void uro_fork_watch(struct uro_device **devices);
/* Replaces the list of devices. The caller holds a lock that an outer part takes. */
void uro_fork_watch_list(struct uro_device **devices);

/* Generation of a removed device; no process has this generation. */
#define URO_FORK_NEVER UINT32_MAX

/* Returns whether the parent ran a device. That device is dead in this process. For child
 * handlers. */
bool uro_fork_abandoned(void);

/* Returns the generation of this process. The first process has 1, and each child of fork() has one
 * more than its parent. The generation is 0 in a child that was created without the handlers. */
uint32_t uro_fork_generation(void);
