/* SPDX-License-Identifier: BSD-3-Clause */
/* device.h - the inside of a device, for lib/host only: one port, one engine, one lock, one thread.
 *
 *   devices.c    the list, from the configuration
 *   lifetime.c   starts the port and the engine, closes them
 *   round.c      one round: frames in, frames out, events
 *   progress.c   who drives the rounds, and when the service thread sleeps
 *   ask.c        what connections want of the port
 *   learn.c      whether the program or the service thread drives
 *   gather.c     which posts wait for the program's next call
 */
#pragma once

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "host/host.h"
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
    struct uro_quota_use quota_use;          /* quota.c */
    atomic_bool bound_said[URO_BOUND_COUNT]; /* bound.c */

    uint32_t generation;       /* of the process that it belongs to; fork.h */
    struct uro_device *before; /* in a forked child: the parent's, or NULL */

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
    bool gathers, awaits_peer; /* the port's, for those who have no lock */
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
    bool told;  /* an event, since the service thread last looked: a program may be about to wake */
    bool armed; /* the port was asked for a wake-up */
    atomic_uint_least64_t sent_at; /* when a round last sent something; read at the end */
    atomic_uint_least64_t
        send_took;       /* how long sending one or two frames takes, of late; round.c */
    uro_time send_began; /* such a send, which is timed; 0: none is */

    /* Between callers and the service thread; see progress.c. */
    int doorbell; /* eventfd: the service thread must look */
    struct pollfd
        sleeps_on[1 + URO_PORT_FDS_MAX]; /* the thread's own: the doorbell, and the port's */
    uint32_t sleeps_on_count;
    atomic_bool in_charge;         /* the service thread drives */
    atomic_bool hears;             /* it sleeps, or is about to, and a frame wakes it */
    atomic_uint_least64_t called;  /* when a caller's last round ended that polled */
    atomic_uint_least64_t posted;  /* when a caller's last round ended in which posts left */
    atomic_uint_least64_t silence; /* of callers, after which they drive no more; learned */
    uro_time moved_at;             /* when the service thread last moved a frame; its own */
    atomic_uint_least64_t wakes;   /* when the sleeping thread will wake by itself; 0 = awake */
    atomic_int balance;            /* who finds the frames; learn.c */
    atomic_uint_least64_t polled; /* when a caller last polled, whether it found something or not */
    atomic_uint gathered;         /* posts in a row that left sending to the next call */
    atomic_uint burst;            /* about so many posts without a poll or a pause; gather.c */
    uint64_t served;       /* requests of peers that no completion tells of; counted up to here */
    int reply_score;       /* above 0: after an ACK a poll looks for the peer's WRITE; learn.c */
    atomic_uint in_vain;   /* polls in a row that found nothing, or somebody else driving */
    uint32_t caller_empty; /* rounds of callers in a row that found nothing */
    bool took_over;        /* the service thread, in vain so far, since a caller last drove */
    atomic_bool caller_in; /* a caller is in a round */
    atomic_uint_least64_t
        knocked;     /* first poll without the lock since the thread's last round began; 0: none */
    uro_time let_in; /* when the thread last made way for one of those; its own */
    bool must_look;  /* though it did: a bell was left to it; its own */
    bool was_needed; /* it did what no caller would have, since callers drove; its own */
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

/* The service thread looks so often, at least, whether callers drive. */
#define URO_STAND_BACK_MAX URO_US(1000)

/* progress.c: the service thread's body, once the port and the engine are there. */
void uro_progress_serve(struct uro_device *device);
/* Makes the service thread look at the device now. Thread: any. */
void uro_progress_wake(struct uro_device *device);

/* devices.c: in a forked child, a new device in place of the parent's. Without memory for it: @device. */
struct uro_device *uro_device_again(struct uro_device *device);

/* finish.c: closes all devices when the process ends. */
void uro_finish_watch(void);

/* clock.c: nanoseconds since 1970. */
uint64_t uro_host_wall_clock(void);

/* lifetime.c: the sink installed by lib/verbs, never NULL. */
const struct uro_event_sink *uro_host_sink(void);
/* Likewise lib/ucma's; NULL when nobody connects. */
const struct uro_conn_sink *uro_host_conn_sink(void);
