/* SPDX-License-Identifier: BSD-3-Clause */
/* id.h - an rdma_cm_id as the kernel has it: addresses, a device, and what it waits for.
 *
 *   bind.c     its own address and port; listening
 *   resolve.c  the other address, which device leads there, and whether anybody answers
 *   connect.c  the connection: asked for, accepted, refused, ended
 *   cm_event.c puts events of the engine into the queue of the channel
 *   mcast.c    groups
 *   remove.c   its device is gone
 *   query.c    what a program may know; option.c: what it may ask for; attr.c: its queue pair's
 *              attributes
 *
 * Commands change it, one at a time (channel.h has the locks); state and conn are changed by events
 * too, with the engine of its device locked.
 */
#pragma once

#include "host/host.h"
#include "ucma/channel.h"
#include "ucma/sock.h"

#define URO_ID_QKEY 0x01234567u /* of datagram services that do not choose another */

enum uro_id_state {
    URO_ID_IDLE,
    URO_ID_BOUND,
    URO_ID_RESOLVING,
    URO_ID_RESOLVED,
    URO_ID_ROUTED,
    URO_ID_LISTENING,
    URO_ID_CONNECTING, /* and everything after that */
};

/* A listener of the engine: one for each address that the identifier hears. */
struct uro_id_ear {
    struct uro_device *device; /* NULL: it hears no more */
    struct uro_listener listener;
};

struct uro_mcast {
    struct uro_link link; /* in uro_id.mcasts */
    uint32_t number;      /* that LEAVE_MCAST names */
    struct uro_id *id;
    uint64_t uid;
    uint32_t events_reported;
};

struct uro_id {
    uint32_t number;              /* that commands name */
    struct uro_link channel_link; /* in uro_channel.ids, under the channels lock */
    struct uro_channel *channel;  /* under the same lock */
    struct uro_link port_link;    /* among those that have a port; bind.c */
    uint64_t uid;                 /* librdmacm's own; 0 until it accepts a request */
    uint32_t events_reported;     /* under the channels lock */
    uint16_t port_space;          /* enum rdma_ucm_port_space */
    uint8_t qp_type;              /* enum ibv_qp_type */
    enum uro_id_state state;
    struct uro_sock source, dest; /* no family: none yet */
    struct uro_device *device;    /* once an address of its own is known */
    uint8_t sgid_index;
    struct uro_gid remote; /* where dest is reached, once resolved */
    uint32_t route_mtu;    /* the largest IP packet on the way there, once resolved; 0: not known */
    struct uro_resolve resolve;
    struct uro_conn *conn;
    struct uro_id_ear *ears;
    uint32_t ear_count;
    uint32_t ear_room; /* size of the array `ears` */
    struct uro_list mcasts;
    uint32_t qkey;
    uint8_t tos;
    uint8_t ack_timeout; /* of its queue pair, if ack_timeout_set; 0: none */
    bool anywhere;       /* no address of its own was asked for */
    bool ack_timeout_set;
    bool reuse; /* until it listens */
    bool
        family_only; /* of its port and of what it hears; the family says so unless family_only_set */
    bool family_only_set;
    bool known;   /* the program was told its number, by CREATE_ID or by an event it fetched */
    bool removed; /* with its device: it can only be destroyed */
};

/* A new identifier of @channel, which nobody knows yet. Thread: any; takes the channels lock. NULL:
 * no memory. */
struct uro_id *uro_id_new(struct uro_channel *channel, uint64_t uid, uint16_t port_space,
                          uint8_t qp_type);

/* Sets @id to the one that a command means. Returns 0 or
 *   -ENOENT  there is none of that number, or nobody was told of it yet
 *   -EINVAL  it is another channel's
 *   -ENXIO   its device is gone; @id is set all the same */
URO_NODISCARD int uro_id_find(const struct uro_channel *channel, uint32_t number,
                              struct uro_id **id);

/* The identifier of the lowest number from @number on, which is set to its number; NULL when there
 * is none. The commands lock is held. */
struct uro_id *uro_id_next(uint32_t *number);

/* Ends everything it does, as its device is gone; only the identifier itself stays. */
void uro_id_cut_off(struct uro_id *id);

/* Ends everything it does. Returns how many of its events were reported. */
uint32_t uro_id_destroy(struct uro_id *id);

/* Stops the engine of its device, or of those where it listens: nothing of it is told meanwhile. */
void uro_id_lock(const struct uro_id *id);
void uro_id_unlock(const struct uro_id *id);

/* Its own address on its device. */
struct uro_gid uro_id_local(const struct uro_id *id);

/* The largest path MTU that its link carries now, and the way to its peer did when it was resolved:
 * 1 = 256 .. 5 = 4096. */
uint8_t uro_id_path_mtu(const struct uro_id *id);

/* Groups; mcast.c. As uro_id_find(). */
URO_NODISCARD int uro_id_mcast_find(const struct uro_channel *channel, uint32_t number,
                                    struct uro_mcast **mcast);
/* Returns how many of its events were reported. */
uint32_t uro_id_mcast_drop(struct uro_mcast *mcast);
struct uro_mcast *uro_id_mcast_new(struct uro_id *id, uint64_t uid);
