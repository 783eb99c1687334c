/* SPDX-License-Identifier: BSD-3-Clause */
/* host.h - the process side: configured devices, their engines, and who drives them.
 *
 * Nothing here starts DPDK until uro_device_start(): listing, opening and querying a device cost
 * no more than reading the configuration.
 */
#pragma once

#include "engine/engine.h"
#include "engine/port.h"
#include "host/bound.h"
#include "host/quota.h"

struct uro_device;

#define URO_HOST_DEVICES_MAX 64u /* devices of a process at the same time */

enum uro_progress_mode {
    URO_PROGRESS_HYBRID, /* callers drive; a service thread takes over when they are silent */
    URO_PROGRESS_THREAD, /* a thread of ours spins, on `cpu` if given */
    URO_PROGRESS_CALLER, /* callers only: for programs that poll all the time */
};

/* One device as configured (host/config.c reads UROCE_CONFIG and UROCE_DEVICES). */
struct uro_device_config {
    char name[32];
    char link[256];                                /* "net_memif0,role=server,socket=/run/a.sock" */
    struct uro_gid gids[URO_ENGINE_ADDRESSES_MAX]; /* 0 = link-local, then ip= in order */
    uint8_t prefix[URO_ENGINE_ADDRESSES_MAX];
    uint32_t gid_count;
    uint32_t
        ip_nets; /* bit i: gids[i] was given as a net, as 10.44.0.0/24; with UDP, our address there */
    bool ip_auto;  /* and the addresses the kernel would send from */
    bool loopback; /* ip=auto found nothing but a loopback address */
    bool left_out; /* the interface or the machine has more addresses than uroce uses */
    struct uro_gid gateway4, gateway6;
    struct uro_mac mac; /* always set: ip's interface, the configured one, or derived */
    uint64_t guid;      /* of mac; with other middle octets if an earlier device has this one */
    uint32_t mtu;       /* largest IP packet */
    uint32_t vlan;      /* 802.1Q, of every frame; 0: none */
    uint32_t vendor_part_id;
    uint32_t window;
    bool retry_7_forever;
    enum uro_progress_mode progress;
    int cpu;        /* -1: not pinned */
    char pcap[256]; /* "": no capture */
    uint64_t seed;  /* 0: from the system's CSPRNG */
    uint32_t memory_mib;
    bool verbose;
    uint64_t most[URO_QUOTA_COUNT];
    char problem[448]; /* "" or why the device is not usable, with file and line */
};

/* All devices whose configuration is right, in its order; read once per process. Wrong entries are
 * reported on stderr once, with file and line, and are absent. NULL-terminated, never NULL itself.
 * Thread: any. */
struct uro_device *const *uro_host_devices(void);

/* The same without reading the configuration: empty when nobody has. For handlers of fork(). */
struct uro_device *const *uro_host_known(void);

/* Adds the device that @text describes in the syntax of UROCE_DEVICES. The device starts at its first use. @where names the
 * source of @text in messages. On failure @problem has a message of at most @size bytes, and no device was added. Returns 0
 * or
 *   -EINVAL  the description is wrong
 *   -EEXIST  another device has the name
 *   -ENOSPC  URO_HOST_DEVICES_MAX devices exist already
 *   -ENOMEM  no memory
 * Thread: any. */
URO_NODISCARD int uro_host_add(const char *where, const char *text, char *problem, size_t size);

/* Removes the device, as if its network card were unplugged: open contexts get IBV_EVENT_DEVICE_FATAL, identifiers of
 * rdma_cm RDMA_CM_EVENT_DEVICE_REMOVAL, and programs can only free the objects that are left. Returns 0 or
 *   -ENODEV  no device has this name
 *   -EBUSY   a queue pair, CQ, SRQ, memory region, memory window or address handle of the device exists
 *   -ENOMEM  no memory
 * Thread: any, while no other thread uses the device. */
URO_NODISCARD int uro_host_remove(const char *name);

/* Returns the device with this name, or NULL. Thread: any. */
struct uro_device *uro_host_find(const char *name);

/* Returns the device of the parent process that this device replaces after a fork(), else NULL. */
struct uro_device *uro_device_before(const struct uro_device *device);

/* Every entry, wrong ones too (see ->problem): for `uroce devices`. NULL-terminated. */
const struct uro_device_config *const *uro_host_config(void);

#define URO_HOST_LOOPBACK_MAX 320u
/* Writes the warning for an entry with ->loopback set to @text. Returns @text. */
char *uro_host_loopback_text(const struct uro_device_config *entry,
                             char text[static URO_HOST_LOOPBACK_MAX]);

#define URO_HOST_LEFT_OUT_MAX 256u
/* Writes the warning for an entry with ->left_out set to @text. Returns @text. */
char *uro_host_left_out_text(const struct uro_device_config *entry,
                             char text[static URO_HOST_LEFT_OUT_MAX]);

const struct uro_device_config *uro_device_config(const struct uro_device *device);

/* Opens the port and builds the engine; does nothing when the device runs. On failure returns
 * -ENODEV (stderr has the reason, uro_device_problem() keeps it), -ENOMEM, or -EIO when the device
 * is dead. A call after a failure tries again; stderr is given each reason once, until another one takes its
 * place. Thread: any; blocks while the device starts. */
URO_NODISCARD int uro_device_start(struct uro_device *device);
bool uro_device_started(const struct uro_device *device);
const char *uro_device_problem(const struct uro_device *device);

/* The engine lock. While held, core's object functions may be called. Short: it stops the
 * datapath. */
void uro_device_lock(struct uro_device *device);
void uro_device_unlock(struct uro_device *device);
/* Started devices only. */
struct uro_engine *uro_device_engine(struct uro_device *device);
struct uro_shard *uro_device_shard(struct uro_device *device);
uro_time uro_device_now(void);

/* The wall clock when uro_device_now() said @at, in ns since 1970. @offset is kept from one call to
 * the next, 0 at first, so that times keep their order and distance while nobody sets the clock. */
uint64_t uro_host_wall_time(uro_time at, uint64_t *offset);

/* Called from ibv_poll_cq on an empty CQ (@posted false) and after ibv_post_* (@posted true):
 * drives one bounded round in the caller unless somebody else holds the engine. */
void uro_device_progress(struct uro_device *device, bool posted);

/* The program polled and found something without that: posts that waited to leave together do so now. */
void uro_device_polled(struct uro_device *device);

/* An application thread is about to wait for events instead of polling: let the service thread
 * take over at once (from ibv_req_notify_cq, ibv_get_cq_event). */
void uro_device_hand_over(struct uro_device *device);

/* Events of the engine, and of the port, are delivered to one sink, installed once by lib/verbs,
 * from whichever thread drove the round, with the engine lock held: it must only queue and wake. */
enum uro_port_event {
    URO_PORT_ACTIVE,
    URO_PORT_ERR,
    URO_PORT_GONE /* after ERR, once and for ever */
};
struct uro_event_sink {
    void (*engine_event)(struct uro_device *device, const struct uro_event *event);
    void (*port_event)(struct uro_device *device, enum uro_port_event event);
};
void uro_host_set_sink(const struct uro_event_sink *sink);

/* The same for the events of connections, installed by lib/ucma. The functions of cm/conn.h and
 * uro_engine_resolve_end() may be called. */
struct uro_conn_sink {
    void (*conn_event)(struct uro_device *device, const struct uro_conn_event *event);
    void (*resolved)(struct uro_device *device, struct uro_resolve *resolve);
    /* After URO_PORT_GONE; the engine is not locked, and may be by this. */
    void (*removed)(struct uro_device *device);
};
void uro_host_set_conn_sink(const struct uro_conn_sink *sink);

/* The index of the kernel's interface that the device's link names, 0 when there is none. */
uint32_t uro_device_interface(const struct uro_device *device);

/* Not started, or nobody joined a link that awaits a peer yet: up. */
bool uro_device_link_up(const struct uro_device *device);

/* The largest IP packet that its link carries: when it was opened, or less since. rule PORT.MTU */
uint32_t uro_device_mtu(struct uro_device *device);

/* Before it listens for @what, and afterwards; the engine lock is held. Returns 0, -EADDRINUSE when another
 * process does at that address, or another -errno when that cannot be found out. */
URO_NODISCARD int uro_device_claim(struct uro_device *device, const struct uro_listened *what);
void uro_device_unclaim(struct uro_device *device, const struct uro_listened *what);

/* The largest IP packet that the way from @from, an address of its own, to @to carries, 0 when nobody knows; it may
 * be more than its link does. The engine lock is held. */
uint32_t uro_device_route_mtu(struct uro_device *device, const struct uro_gid *from,
                              const struct uro_gid *to);

/* Warns on stderr, once for the device, when the kernel's route from its address number @from to @to carries no
 * packets of @payload octets, which a queue pair is about to send. The engine lock is held. */
void uro_device_check_way(struct uro_device *device, uint32_t from, const struct uro_gid *to,
                          uint32_t payload);

/* Returns the number of multicast groups that the device can join. The device need not run. */
uint32_t uro_device_groups_max(const struct uro_device *device);

/* Its port is gone: it can do nothing more, and never will. */
bool uro_device_gone(const struct uro_device *device);

/* The device ran in the process that this one was forked from (fork.h): whatever was made on it may be freed, and every
 * other call must fail with EIO. Two loads: it is asked by each post and each poll. */
bool uro_device_dead(const struct uro_device *device);

/* Returns whether the program removed the device. Programs may still read the events in its queues. */
bool uro_device_removed(const struct uro_device *device);

/* 0, or -EIO when the device is dead: stderr has been given the reason once. */
URO_NODISCARD int uro_device_refusal(const struct uro_device *device);

/* This is a child made without the handlers of fork(): threads that it does not have may hold any lock. */
bool uro_host_cloned(void);
