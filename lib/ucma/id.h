/* SPDX-License-Identifier: BSD-3-Clause */
/* id.h - an identifier, the kernel's side of an rdma_cm_id: addresses, device and connection.
 *
 *   bind.c      source address and port; listening
 *   resolve.c   destination address, and the device and next hop for it
 *   connect.c   connections: request, accept, reject, disconnect
 *   cm_event.c  queues events of the engine on the channel
 *   mcast.c     multicast groups
 *   remove.c    removal of a device
 *   query.c     queries
 *   option.c    options
 *   attr.c      attributes of the queue pair
 *   refusal.c   reasons why commands fail
 *   list.c      copies of the identifiers for other processes
 *
 * Commands change an identifier, one at a time; channel.h has the locks. Events also change `state`
 * and `conn`, with the engine lock held.
 */
#pragma once

#include "host/host.h"
#include "ucma/channel.h"
#include "ucma/sock.h"

#define URO_ID_QKEY 0x01234567u /* Q_Key of datagram services that choose none */

enum uro_id_state {
    URO_ID_IDLE,
    URO_ID_BOUND,
    URO_ID_RESOLVING,
    URO_ID_RESOLVED,
    URO_ID_ROUTED,
    URO_ID_LISTENING,
    URO_ID_CONNECTING, /* this state includes all later states of the connection */
};

/* A listener of the engine: an identifier has a listener for each address that it listens at. */
struct uro_id_listener {
    struct uro_device *device; /* NULL: it has stopped listening */
    struct uro_listener cm_listener;
};

struct uro_mcast {
    struct uro_link link; /* in uro_id.mcasts */
    uint32_t number;      /* number in LEAVE_MCAST */
    struct uro_id *id;
    uint64_t uid;
    uint32_t events_reported;
};

struct uro_id {
    uint32_t number;              /* number in commands */
    struct uro_link channel_link; /* in uro_channel.ids, under the channels lock */
    struct uro_channel *channel;  /* channel of the identifier, under the channels lock */
    struct uro_link port_link;    /* in the list of identifiers with a port; bind.c */
    uint64_t uid;             /* librdmacm's identifier; 0 until librdmacm accepts the request */
    uint32_t events_reported; /* number of reported events, under the channels lock */
    uint16_t port_space;      /* enum rdma_ucm_port_space */
    uint8_t qp_type;          /* enum ibv_qp_type */
    enum uro_id_state state;
    struct uro_sock source, dest; /* family 0: not set */
    struct uro_device *device;    /* set with the source address */
    uint8_t sgid_index;
    struct uro_gid remote; /* address of the peer, once resolved */
    uint32_t route_mtu;    /* largest IP packet of the route, once resolved; 0: unknown */
    struct uro_resolve resolve;
    uro_time began; /* start of the resolution of the address, or of the connection */
    struct uro_conn *conn;
    struct uro_id_listener *listeners;
    uint32_t listener_count;
    uint32_t listener_capacity; /* size of the array `listeners` */
    struct uro_list mcasts;
    uint32_t qkey;
    uint8_t tos;
    uint8_t ack_timeout; /* ACK timeout of its queue pair, if ack_timeout_set; 0: none */
    bool anywhere;       /* the program chose no source address */
    bool ack_timeout_set;
    bool reuse;           /* REUSEADDR; cleared when the identifier listens */
    bool family_only;     /* AFONLY: excludes the other IP version */
    bool family_only_set; /* false: the default of the family applies */
    /* The program knows the number of the identifier, from CREATE_ID or an event. */
    bool known;
    bool removed; /* the device was removed: the identifier can only be destroyed */
};

/* Creates an identifier of @channel, without reporting its number to the program. Returns NULL when
 * out of memory. Takes the channels lock. Thread: any. */
struct uro_id *uro_id_new(struct uro_channel *channel, uint64_t uid, uint16_t port_space,
                          uint8_t qp_type);

/* Finds the identifier of a command. Returns 0 or
 *   -ENOENT  no identifier has that number, or the program has not received it yet
 *   -EINVAL  the identifier belongs to another channel
 *   -ENXIO   its device was removed; @id is set all the same */
URO_NODISCARD int uro_id_find(const struct uro_channel *channel, uint32_t number,
                              struct uro_id **id);

/* Finds the first identifier whose number is at least *@number, and writes its number there.
 * Returns NULL if there is none. Commands lock held. */
struct uro_id *uro_id_next(uint32_t *number);

/* Copies the identifiers that use @device; see uro_conn_handlers.list. Engine lock held. */
int uro_id_list(const struct uro_device *device, struct uro_snapshot_id *rows, uint32_t capacity);

/* Ends all activity of an identifier whose device was removed. The identifier is not freed. */
void uro_id_cut_off(struct uro_id *id);

/* Ends all activity and frees the identifier. Returns the number of its events that were
 * reported. */
uint32_t uro_id_destroy(struct uro_id *id);

/* Takes the engine lock of the identifier's device, or of all devices where it listens. No engine
 * queues an event of the identifier while the lock is held. */
void uro_id_lock(const struct uro_id *id);
void uro_id_unlock(const struct uro_id *id);

/* Returns the source address of the identifier on its device. */
struct uro_gid uro_id_local(const struct uro_id *id);

/* Returns the largest path MTU that the link carries now, and that the route carried when it was
 * resolved: 1 = 256 .. 5 = 4096. */
uint8_t uro_id_path_mtu(const struct uro_id *id);

/* mcast.c: finds a group. Returns the same as uro_id_find(). */
URO_NODISCARD int uro_id_mcast_find(const struct uro_channel *channel, uint32_t number,
                                    struct uro_mcast **mcast);
/* Frees a group. Returns the number of its events that were reported. */
uint32_t uro_id_mcast_drop(struct uro_mcast *mcast);
struct uro_mcast *uro_id_mcast_new(struct uro_id *id, uint64_t uid);
