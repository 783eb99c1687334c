/* SPDX-License-Identifier: BSD-3-Clause */
/* device.h - the private struct of a device, only for lib/host. It has one port, one engine, one
 * lock and one service thread. A device with several engines has one such struct for each engine.
 *
 *   host.c       the list of devices, from the configuration
 *   device.c     starts and ends a device, and returns its properties
 *   round.c      one round: receive, send, deliver completions and events
 *   sched.c      decides which thread runs the rounds, and when the service thread sleeps
 *   progress.c   the engine lock, and the rounds of callers
 *   service.c    the service role and the service thread
 *   waiter.c     a thread of the program that runs the engine while it waits for an event
 *   fork.c       handles a device in a forked child
 *   unmapped.c   faults on registered memory that the program unmapped
 *   quota.c      limits of objects and memory, and warnings about them
 *   clock.c      the clocks
 *   report/      for people and other processes:
 *     show.c     the page that shows the device to other processes
 *     log.c      log=: lines on stderr about failures and refused calls
 *     impair.c   impair= and trace=: faults of the link
 *     pcap.c     pcap=: the capture file
 */
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "core/sgl.h"
#include "host/host.h"
#include "host/progress.h"
#include "impair/plan.h"
#include "stats/table_writer.h"

struct uro_pcap_write;

enum uro_device_life {
    URO_DEVICE_IDLE,
    URO_DEVICE_STARTING,
    URO_DEVICE_RUNNING,
    URO_DEVICE_FAILED /* the next use of the device tries to start it again, unless it is dead */
};

struct uro_quota_use {
    atomic_uint_least64_t used[URO_QUOTA_COUNT];
    atomic_bool warned[URO_QUOTA_COUNT]; /* whether the message about the quota was printed */
};

struct uro_device {
    struct uro_device_config config;
    struct uro_quota_use quota_use;               /* objects and memory in use; quota.c */
    atomic_uint fail_calls[URO_INJECT_RULES_MAX]; /* calls that each rule of fail= has seen */
    atomic_bool bound_warned[URO_BOUND_COUNT];    /* message about the bound was printed; quota.c */

    uint32_t generation;              /* generation of the process that uses the device; fork.h */
    struct uro_device *parent_device; /* in a forked child: the device that this one replaces */
    struct uro_device *next_removed;  /* next removed device; host.c */
    struct uro_device *first_engine;  /* this struct, or the engine that starts and ends this one */
    struct uro_device *next_engine;   /* next engine of the same device, or NULL */
    uint32_t engine_index;            /* index of the engine in its device */
    /* Used only in the first engine: */
    atomic_uint engines_running; /* engines that run when the device has started */
    atomic_uint engines_down;    /* engines whose link is down */
    bool engine_stuck;           /* an engine could not be stopped: the device cannot start again */

    /* Start and end. A start holds start_lock while it changes `life` or start_error. */
    pthread_mutex_t start_lock;
    pthread_cond_t start_done;
    atomic_int life; /* enum uro_device_life; RUNNING is stored last */
    int start_error;
    char problem[URO_PORT_ERROR_MAX];         /* reason why the last start failed, or "" */
    char printed_problem[URO_PORT_ERROR_MAX]; /* last reason that was printed on stderr */
    pthread_t thread;                         /* service thread */
    atomic_bool stopping;                     /* the service thread must end */

    /* The engine lock, and the members that it protects. */
    pthread_mutex_t mutex;
    atomic_int waiters; /* threads that wait for the lock; above 0, uro_progress_try_lock() fails */
    bool sent_posts;    /* uro_device_lock_all() has sent posts */
    struct uro_engine *engine;
    struct uro_port *port; /* freed when the device ends: check `closed` first */
    bool awaits_peer;      /* the port has URO_PORT_AWAITS_PEER; for use without the engine lock */
    void *engine_memory;
    size_t engine_size;                  /* bytes */
    struct uro_stats_writer stats;       /* the record of the engine, for other processes */
    struct uro_stats_table_writer table; /* the objects of the engine, for other processes */
    struct uro_snapshot snapshot;        /* unfinished snapshot of the objects */
    struct uro_tx *tx;                   /* frames to send; array of URO_PORT_BURST */
    struct uro_mac *macs;       /* array of URO_ENGINE_MACS_MAX: addresses that the port receives */
    uint32_t multicast_version; /* version of the engine's groups that the port has */
    uint32_t services_version;  /* version of the engine's services that the port has */
    struct uro_pcap_write *capture; /* capture file, or NULL */
    struct uro_observer observer;   /* observer of the engine, for the capture */
    bool impaired;        /* the port is an io/impair port, which contains the real port */
    unsigned impair_seen; /* sequence number of the plan that was last read from the page */
    char impair_text[URO_IMPAIR_TEXT_MAX];
    atomic_bool link_up;     /* the link of this engine is up; any thread reads this */
    bool counted_down;       /* engines_down counts this engine */
    atomic_uint speed;       /* speed of the port, Mb/s; any thread reads this */
    atomic_bool link_was_up; /* the link has been up at least once; any thread reads this */
    atomic_bool closed;      /* the device has ended: it sends and receives no more frames */
    atomic_bool gone;        /* the interface of the port, or the device, was removed for ever */
    uro_time link_checked_at;
    uro_time link_down_since;   /* time when the link went down; valid unless link_up */
    uro_time full_since;        /* start of the time without free slots for frames; 0: none */
    struct uro_guesses guesses; /* counts of suspicious packets */
    struct {
        uint64_t count;          /* number of processed failures of queue pairs */
        uint64_t recorded;       /* number of the newest processed failure that has a record */
    } failures_seen;             /* log.c */
    bool path_warned;            /* the warning about a path with a small MTU was printed */
    struct uro_gid path_checked; /* destination of the last uro_device_check_path() */
    bool armed;                  /* a frame wakes the thread with the service role */
    uro_time send_began;         /* start of the send that is timed; 0: none */

    /* State that callers and the service thread share. */
    struct uro_sched sched;         /* sched.h says which thread uses which member */
    struct uro_sched_shared shared; /* any thread reads and writes this */
    int wake_fd;                    /* eventfd that wakes the service thread */
    int waiter_fd; /* eventfd that wakes the waiting thread with the service role */
    int signal_fd; /* readable when the waiting thread has a signal to handle */
    atomic_uint_least64_t events_delivered; /* events of the engine, connections and link so far */
    sigset_t ignored; /* signals that signal_fd does not report; used by the thread with the role */
};

/* ---- round.c --------------------------------------------------------------- */

/* Runs one round: receives if @receives, sends, and delivers completions and events. Returns the
 * number of frames received and sent. Engine lock held. */
uint32_t uro_round_run(struct uro_device *device, bool receives, uro_time now, uint32_t *received);

/* Runs a round for a poll. Then waits for a WRITE of the peer if it is expected soon. Returns the
 * number of frames received. Engine lock held. */
uint32_t uro_round_of_poll(struct uro_device *device, bool receives, uro_time now);
/* Sends without delivering events. Returns the number of frames sent. Engine lock held. */
uint32_t uro_round_send(struct uro_device *device, uro_time now);

/* Adds the engine to the engines whose link is down, or with @up, removes it. Returns whether the
 * link of the whole device changed. That link is up while the links of all engines are up. Engine
 * lock held, or the device does not run. */
bool uro_round_link_changed(struct uro_device *device, bool up);

/* Returns the time when a round must run even if no program posts and no frame arrives: for a timer
 * of the engine, or for a delayed frame. Engine lock held. */
uro_time uro_round_next(const struct uro_device *device);

/* Returns the number of WRITEs, READs and atomics of peers so far. Engine lock held. */
uint64_t uro_round_served(const struct uro_device *device);

/* Passes the multicast groups that the engine has joined to the port. Engine lock held. */
void uro_round_multicast(struct uro_device *device);

/* Returns the interval between two checks of the link. */
uro_time uro_round_link_interval(const struct uro_device *device);

/* Reports to the handlers of connections, only once, that the port was removed. *@reported is true
 * after that. No lock is held. */
void uro_round_report_removal(struct uro_device *device, bool *reported);

/* ---- report/show.c ------------------------------------------------------- */

/* Opens the counters that `uroce stat` reads. On failure the device runs without them. */
void uro_show_open(struct uro_device *device);

/* Writes the state of the process and of the link for other processes. Engine lock held. */
void uro_show_state(struct uro_device *device, enum uro_stats_state state);

/* If another process has requested them, writes the objects of the engine for other processes.
 * Returns whether this function must be called again soon, because there are more objects. Engine
 * lock held. */
bool uro_show_objects(struct uro_device *device, uro_time now);

/* Returns whether only some of the objects have been written. Engine lock held. */
bool uro_show_in_progress(const struct uro_device *device);

/* ---- report/impair.c ----------------------------------------------------- */

/* Puts a port with faults around the port of the device, if its configuration has impair=. Returns
 * 0, or -EINVAL or -ENOMEM with the reason in device->problem. */
URO_NODISCARD int uro_impair_open(struct uro_device *device);

/* Writes the plan for other processes, after the page of the device was made. */
void uro_impair_show(struct uro_device *device);

/* Writes the counters for other processes, and reports a failed write of the trace. Engine lock
 * held. */
void uro_impair_update(struct uro_device *device);

/* ---- report/log.c -------------------------------------------------------- */

/* Prints "uroce: DEVICE: TEXT" if log= is not none, the text is new and the rate allows. Thread:
 * any. */
URO_PRINTF(2) void uro_log_line(const struct uro_device *device, const char *format, ...);

/* Prints how many lines were left out since the last line, if any. */
void uro_log_end(const struct uro_device *device);

/* Completes the records of new failures of queue pairs, and prints them. Engine lock held. */
void uro_log_failures(struct uro_device *device);

/* ---- host.c ---------------------------------------------------------------- */

/* Returns a new device for a forked child, in place of the parent's. Returns @device when out of
 * memory. */
struct uro_device *uro_host_make_for_child(struct uro_device *device);

/* Returns the handlers that lib/verbs installed, or handlers that ignore all events. */
const struct uro_event_handlers *uro_host_event_handlers(void);
/* Returns the handlers that lib/ucma installed, or NULL. */
const struct uro_conn_handlers *uro_host_conn_handlers(void);

/* ---- waiter.c -------------------------------------------------------------- */

/* Returns a descriptor, or -1 with errno. The descriptor is readable while the thread that polls
 * the descriptor has a signal to handle. */
int uro_waiter_signal_fd(const struct uro_device *device);

/* ---- device.c -------------------------------------------------------------- */

/* Closes wake_fd, waiter_fd and signal_fd. */
void uro_device_close_fds(struct uro_device *device);

/* Stops a device that is in no list any more, and frees its members if nothing uses them. The
 * struct stays allocated, since programs may still have pointers to it. */
void uro_device_end(struct uro_device *device);

/* ---- clock.c --------------------------------------------------------------- */

/* Returns the wall clock in ns since 1970. */
uint64_t uro_host_wall_clock(void);

/* ---- unmapped.c ------------------------------------------------------------ */

/* Installs handlers of SIGSEGV and SIGBUS, once for the process. A program may unmap registered
 * memory. The handler then maps an empty page, so that a copy can continue. A network card would
 * continue to use its pinned pages. Other faults go to the handlers that were installed before.
 * docs/decisions/0037 has the reasons. Thread: any. */
void uro_unmapped_watch(void);

/* Records that the calling thread, which holds the engine lock, accesses registered memory of
 * @device from now on. NULL ends the access. This is only one store, because each round calls
 * it. */
void uro_unmapped_touch(struct uro_device *device);

/* Accesses on-demand memory; core/sgl.h describes uro_touch_attempt. The attempt fails if another
 * thread unmaps, protects or truncates the memory. */
uro_touch_attempt uro_unmapped_attempt;
