/* SPDX-License-Identifier: BSD-3-Clause */
/* device.h - the inside of a device, for lib/host only: one port, one engine, one lock, one thread.
 *
 *   devices.c    the list, from the configuration
 *   lifetime.c   starts the port and the engine, closes them
 *   round.c      one round: frames in, frames out, events
 *   sched.c      decides which thread runs the rounds, and when the service thread sleeps
 *   lock.c       the engine lock and the doorbell
 *   progress.c   the rounds of callers
 *   service.c    the service thread
 *   ask.c        what connections want of the port
 */
#pragma once

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "host/host.h"
#include "host/progress.h"
#include "host/suspect.h"

struct uro_pcap_write;

enum uro_device_life {
    URO_DEVICE_IDLE,
    URO_DEVICE_STARTING,
    URO_DEVICE_RUNNING,
    URO_DEVICE_FAILED /* the next start tries again */
};

struct uro_quota_use {
    atomic_uint_least64_t used[URO_QUOTA_COUNT];
    atomic_bool told[URO_QUOTA_COUNT]; /* that there is no more */
};

struct uro_device {
    struct uro_device_config config;
    struct uro_quota_use quota_use;          /* objects that exist; quota.c */
    atomic_bool bound_said[URO_BOUND_COUNT]; /* message was printed; bound.c */

    uint32_t generation; /* generation of its process; fork.h */
    struct uro_device
        *before; /* in a forked child: device of the parent that this device replaces, or NULL */
    struct uro_device *next_removed; /* next removed device; devices.c */

    /* Lifetime; start_lock guards them. */
    pthread_mutex_t start_lock;
    pthread_cond_t start_done;
    atomic_int life; /* enum uro_device_life; RUNNING is published last */
    int start_error;
    char problem[URO_PORT_ERROR_MAX]; /* why the last start failed, or "" */
    char printed[URO_PORT_ERROR_MAX]; /* the last reason that stderr has been given */
    pthread_t thread;
    atomic_bool stopping;

    /* The engine lock, and what only its holder touches. */
    pthread_mutex_t mutex;
    atomic_int waiters; /* blocked or about to block: callers that could try stand back */
    struct uro_engine *engine;
    struct uro_port *port; /* freed when the process ends: only with the lock, and unless closed */
    bool awaits_peer;      /* copy of port->awaits_peer, for use without the engine lock */
    void *engine_memory;
    size_t engine_size;
    struct uro_tx *tx;                /* URO_PORT_BURST of them */
    struct uro_mac *macs;             /* URO_ENGINE_MACS_MAX of them: what the port lets in */
    uint32_t multicast_version;       /* of the engine's list, when it was given to the port */
    uint32_t services_version;        /* likewise of what is listened for */
    struct uro_pcap_write *capture;   /* pcap=, or NULL; capture.c */
    atomic_bool link_up, link_was_up; /* programs ask for them without the lock; was: once */
    atomic_bool closed; /* likewise: the process ends, nothing comes or goes any more */
    atomic_bool gone;   /* the port's link will never be up again */
    uro_time link_checked;
    uro_time full_since; /* the port has no room; 0: it has */
    struct uro_suspect suspect;
    bool told_narrow; /* the warning that a path carries less than a queue pair sends was printed */
    struct uro_gid checked_way; /* the destination that was last looked at for that; ask.c */
    bool armed;                 /* the port was asked for a wake-up */
    uro_time send_began;        /* start of the send that is timed; 0: none */

    /* State shared by callers and the service thread. */
    struct uro_sched sched;         /* sched.h says which thread uses which member */
    struct uro_sched_shared shared; /* any thread */
    int doorbell;                   /* eventfd: wakes the service thread */
    struct pollfd
        sleeps_on[1 + URO_PORT_FDS_MAX]; /* the thread's own: the doorbell, and the port's */
    uint32_t sleeps_on_count;
};

/* round.c. The engine lock is held. Receives if @receives, sends, and delivers completions and events. Returns how many
 * frames came or went. */
uint32_t uro_round_run(struct uro_device *device, bool receives, uro_time now, uint32_t *received);
/* Sends, and tells nobody anything. Returns how many frames went. */
uint32_t uro_round_send(struct uro_device *device, uro_time now);

/* Tells the port which groups the engine wants to hear. The engine lock is held. */
void uro_round_multicast(struct uro_device *device);

/* How often somebody must look at the link. */
uro_time uro_round_link_interval(const struct uro_device *device);

/* Tells lib/ucma that the port is gone, once. No lock is held. */
void uro_round_tell_gone(struct uro_device *device, bool *told);

/* devices.c: in a forked child, a new device in place of the parent's. Without memory for it: @device. */
struct uro_device *uro_device_again(struct uro_device *device);

/* finish.c: closes all devices when the process ends. */
void uro_finish_watch(void);
/* Disconnects the peers, ends the service thread and closes the port. Returns false when a thread did not release the device
 * in time: the caller must then not free the device. */
URO_NODISCARD bool uro_finish_device(struct uro_device *device);

/* lifetime.c: stops a device that is in no list any more, and frees its members. The struct stays allocated, since programs
 * may still have pointers to it. */
void uro_device_end(struct uro_device *device);

/* clock.c: nanoseconds since 1970. */
uint64_t uro_host_wall_clock(void);

/* lifetime.c: the sink installed by lib/verbs, never NULL. */
const struct uro_event_sink *uro_host_sink(void);
/* Likewise lib/ucma's; NULL when nobody connects. */
const struct uro_conn_sink *uro_host_conn_sink(void);
