/* SPDX-License-Identifier: BSD-3-Clause */
/* memif.h - the inside of a port over shared memory, for lib/io/memif only.
 *
 * Two processes of one machine share rings of buffers. A frame is written into its buffer by
 * whoever sends it, with the ICRC summed in the same pass, and read from there by whoever receives
 * it; nothing between.
 *
 *   port.c     opens and closes; sleeping
 *   link_options.c  name and options of a link
 *   proto.h    the protocol's messages and rings
 *   control.c  messages between the two sides
 *   peer_fd.c   descriptors that the other side gave
 *   listen.c   servers' sockets, each of which several interfaces of the process may have
 *   connect.c  how two sides find each other, and part
 *   memory.c   the memory that both have
 *   queue.c    frames in, frames out
 */
#pragma once

#include "engine/port.h"
#include "io/memif/control.h"
#include "io/memif/memory.h"
#include "io/memif/peer_fd.h"
#include "io/memif/proto.h"

#define URO_MEMIF_PATH_MAX 108u /* of a UNIX socket */

/* Options of a link. */
struct uro_memif_options {
    uint32_t role; /* index of the choice */
    bool server;
    bool abstract;       /* the socket has a name, but no file */
    uint32_t id;         /* number of the interface among those of one socket */
    uint32_t buffer;     /* size of a buffer, in bytes */
    uint32_t slots_log2; /* of each ring */
    uint32_t user;       /* of the other side, besides root; URO_MEMIF_ANY_USER */
    bool has_user;       /* the link has user= */
    bool has_mac;
    struct uro_mac mac;
    char path[URO_MEMIF_PATH_MAX];
    char secret[URO_MEMIF_SECRET + 1];
};

enum uro_memif_step {
    URO_MEMIF_ALONE,
    URO_MEMIF_AWAITS_HELLO, /* a client's steps: */
    URO_MEMIF_AWAITS_INIT_ACK,
    URO_MEMIF_AWAITS_REGION_ACK,
    URO_MEMIF_AWAITS_OUT_ACK,
    URO_MEMIF_AWAITS_IN_ACK,
    URO_MEMIF_AWAITS_CONNECTED,
    URO_MEMIF_LEARNS, /* a server that is told the parts */
    URO_MEMIF_UP,
};

/* One ring. All that is not in shared memory is ours alone. */
struct uro_memif_queue {
    struct uro_memif_ring *ring; /* NULL: not there yet */
    uint32_t slots;              /* a power of two */
    uint16_t next;               /* slot to be filled, or read */
    uint16_t done;               /* slots up to it were given back */
    int doorbell;                /* eventfd of who receives, or -1 */
    uint32_t *buffers;           /* client: where the buffer of each slot is */
    uint32_t
        *spare; /* client, out: buffers in no slot, the one used last on top: the caches have it */
    uint32_t spare_count;
};

#define URO_MEMIF_WHOLE   512u /* octets of frames that are copied, whatever they are */
#define URO_MEMIF_LONGEST (URO_PORT_MTU_MAX + 18u) /* of all frames: longer ones are cut off */

struct uro_memif {
    struct uro_port port;
    struct uro_memif_options options;
    uint32_t frame_max; /* longest frame sent */
    bool verbose;

    int epoll; /* what a sleeper waits for: what is in it comes and goes */
    int timer; /* a client's, to try again */
    bool timer_runs;
    bool rung; /* a frame ended the last sleep */

    int control;      /* to the other side, or -1 */
    bool warned;      /* that the server is somebody else's */
    bool own_process; /* where the server is: this very thread may be the one that drives it */
    enum uro_memif_step step;
    int64_t since;         /* ms: when the client last tried, or began to connect */
    const char *complaint; /* the other side broke a rule: to be told and left */

    struct uro_memif_listener
        *listener;             /* server; NULL while it waits for the name of its socket */
    bool waits;                /* for the name, if another process has it: listen.c */
    struct uro_memif *sibling; /* another one there */
    bool taken;                /* it has a client; the listener's lock */
    int offered; /* a client that was found by a sibling, or -1; the listener's lock */
    int called; /* eventfd of a server: rung when there is one, for it may have slept since before */

    struct uro_memif_peer_fd peer_fd;
    struct uro_memif_region regions[URO_MEMIF_REGIONS];
    struct uro_memif_queue in;
    struct uro_memif_queue out;
    uint8_t *heads;       /* URO_MEMIF_WHOLE octets for each frame that is lent */
    uint8_t *longest;     /* a frame in several buffers, received, in one piece */
    uint8_t *longest_out; /* likewise sent: the other one may be lent */
    uint32_t lent;        /* frames: as long as there are any, the memory stays */
    uint32_t partial;     /* slots that wait, of a frame whose end is not there yet */
    uint32_t idle;        /* looks for frames while there is no peer */
    uint64_t tx_dropped;  /* there was no peer, or it took nothing so long */
};

static inline struct uro_memif *uro_memif_of(struct uro_port *port)
{
    return URO_CONTAINER_OF(port, struct uro_memif, port);
}

static inline bool uro_memif_is_up(const struct uro_memif *memif)
{
    return memif->step == URO_MEMIF_UP;
}

/* Reads the options of @link, whose frames have at most @frame_max bytes. Returns 0 or -1 with a
 * sentence in @error. */
URO_NODISCARD int uro_memif_options_read(const char *link, uint32_t frame_max,
                                         struct uro_memif_options *into,
                                         char error[static URO_PORT_ERROR_MAX]);

uro_port_open_fn uro_memif_open;

extern const struct uro_port_plugin uro_port_plugin __attribute__((visibility("default")));
