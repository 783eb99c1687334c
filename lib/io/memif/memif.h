/* SPDX-License-Identifier: BSD-3-Clause */
/* memif.h - internal interfaces of a port over shared memory, for lib/io/memif only.
 *
 * Two processes of one machine share rings of buffers. The sender writes a frame into a buffer and
 * computes the ICRC in the same pass. The receiver reads the frame from that buffer. There is no
 * copy in between.
 *
 *   port.c     opens and closes the port; sleeping
 *   link_options.c  name and options of a link
 *   proto.h    the protocol's messages and rings
 *   control.c  messages between the two sides; how they connect and disconnect
 *   peer_fd.c  descriptors that the other side sent
 *   listen.c   server sockets, which several interfaces of a process may share
 *   queue.c    the shared memory and its rings: receives and sends frames
 */
#pragma once

#include "engine/port.h"
#include "io/memif/control.h"
#include "io/memif/peer_fd.h"
#include "io/memif/proto.h"

#define URO_MEMIF_PATH_MAX 108u /* longest path of a UNIX socket */

/* Options of a link. */
struct uro_memif_options {
    uint32_t role; /* index in the choices of role= */
    bool server;
    bool abstract;       /* the socket has a name, but no file */
    uint32_t id;         /* number of the interface at its socket */
    uint32_t buffer;     /* size of a buffer, in bytes */
    uint32_t slots_log2; /* log2 of the slots of each ring */
    uint32_t user;       /* allowed user ID of the peer, besides root; or URO_MEMIF_ANY_USER */
    bool has_user;       /* the link has user= */
    bool has_mac;
    struct uro_mac mac;
    char path[URO_MEMIF_PATH_MAX];
    char secret[URO_MEMIF_SECRET + 1];
};

enum uro_memif_step {
    URO_MEMIF_ALONE,
    URO_MEMIF_AWAITS_HELLO, /* steps of a client, up to URO_MEMIF_AWAITS_CONNECTED */
    URO_MEMIF_AWAITS_INIT_ACK,
    URO_MEMIF_AWAITS_REGION_ACK,
    URO_MEMIF_AWAITS_OUT_ACK,
    URO_MEMIF_AWAITS_IN_ACK,
    URO_MEMIF_AWAITS_CONNECTED,
    URO_MEMIF_LEARNS, /* server: receives the regions and rings */
    URO_MEMIF_UP,
};

#define URO_MEMIF_REGIONS 16u

struct uro_memif_region {
    uint8_t *base; /* mapped memory; NULL: none */
    size_t size;
    int fd; /* client: the file, to be sent to the server; else -1 */
};

/* One ring. The other side can write only what is in shared memory. */
struct uro_memif_queue {
    struct uro_memif_ring *ring; /* NULL: no ring yet */
    uint32_t slots;              /* number of slots, a power of two */
    uint16_t next;               /* next slot to fill, or to read */
    uint16_t done;               /* slots before this slot were returned */
    int doorbell;                /* eventfd of the receiving side, or -1 */
    uint32_t *buffers;           /* client: offset of each slot's buffer */
    /* client, out: unused buffers; the last used buffer is on top, as it is still in the cache */
    uint32_t *spare;
    uint32_t spare_count;
};

#define URO_MEMIF_WHOLE   512u                     /* longest frame that is always copied, bytes */
#define URO_MEMIF_LONGEST (URO_PORT_MTU_MAX + 18u) /* longer received frames are cut off, bytes */

struct uro_memif {
    struct uro_port port;
    struct uro_memif_options options;
    uint32_t frame_max; /* longest frame that is sent, bytes */
    bool verbose;

    int epoll; /* descriptor that the sleeping thread waits for; the descriptors in it change */
    int timer; /* client: timerfd for the next attempt to connect; else -1 */
    bool timer_runs;
    bool rung; /* a frame ended the last sleep */

    int control;      /* connection to the other side, or -1 */
    bool warned;      /* the warning about a server of another user was printed */
    bool own_process; /* the server is in this process, maybe run by this thread */
    enum uro_memif_step step;
    int64_t since;         /* time of the last attempt or handshake step, ms */
    const char *complaint; /* error of the other side: the connection must end; or NULL */

    struct uro_memif_listener
        *listener;             /* server; NULL while another process has the socket name */
    bool waits;                /* waits for a socket name that another process has: listen.c */
    struct uro_memif *sibling; /* next interface at the same listener */
    bool taken;                /* the interface has a client; under the listener's lock */
    int offered;               /* connection of an accepted client, or -1; listener's lock */
    int called; /* server: eventfd, signalled when `offered` is set, to end a sleep */

    struct uro_memif_peer_fd peer_fd;
    struct uro_memif_region regions[URO_MEMIF_REGIONS];
    struct uro_memif_queue in;
    struct uro_memif_queue out;
    uint8_t *heads;       /* URO_MEMIF_WHOLE bytes for each lent frame */
    uint8_t *longest;     /* a received frame of several buffers, reassembled */
    uint8_t *longest_out; /* a frame to be split; `longest` may be lent */
    uint32_t lent;        /* number of lent frames; above 0, the memory stays mapped */
    uint32_t partial;     /* slots of a frame that is not complete yet */
    uint32_t idle;        /* receive() calls that found no frame */
    uint64_t tx_dropped;  /* dropped frames: no peer, a full ring, too long, or bad buffers */
};

static inline struct uro_memif *uro_memif_of(struct uro_port *port)
{
    return URO_CONTAINER_OF(port, struct uro_memif, port);
}

static inline bool uro_memif_is_up(const struct uro_memif *memif)
{
    return memif->step == URO_MEMIF_UP;
}

/* ---- control.c: the connection; nothing here waits ----------------------------- */

/* Advances the connection: connects, handles messages, and ends the connection when the other side
 * has disconnected or broken the protocol. Does nothing while frames are lent, because they are in
 * the shared memory. */
void uro_memif_tend(struct uro_memif *memif);

int64_t uro_memif_now_ms(void);

/* Ends the connection, if there is one, and sends @reason to the other side. */
void uro_memif_leave(struct uro_memif *memif, const char *reason);
/* Closes a forked child's copy of the connection. The parent continues to use it, and the other
 * side notices nothing. */
void uro_memif_leave_forked(struct uro_memif *memif);

/* ---- listen.c: the sockets of servers --------------------------------------- */

/* The interfaces of a process may share a socket, each with its own id. Different threads may run
 * these interfaces. */

/* Starts listening for @memif. Returns 0, or -1 with a sentence in @error. Also returns 0 when
 * another process listens there and @memif waits for the name: call uro_memif_listen_again()
 * later. */
URO_NODISCARD int uro_memif_listen(struct uro_memif *memif, char error[static URO_PORT_ERROR_MAX]);
/* Tries to listen again, at most twice a second. Returns true when @memif listens. */
bool uro_memif_listen_again(struct uro_memif *memif);
void uro_memif_unlisten(struct uro_memif *memif);
/* Closes the copies of the sockets in a forked child. The parent continues to listen. */
void uro_memif_listen_forked(struct uro_memif *memif);

/* Handles the clients at the socket. Returns the descriptor of a client for @memif, or -1. This
 * client has sent a valid INIT, which the caller must acknowledge. Other clients are refused until
 * uro_memif_free(). */
int uro_memif_accept(struct uro_memif *memif);
void uro_memif_free(struct uro_memif *memif);

/* Returns a descriptor that is readable when uro_memif_accept() has work. -1 while @memif waits for
 * the name. */
int uro_memif_listen_fd(const struct uro_memif *memif);

/* Writes the address of a memif's socket. Returns its length. */
struct sockaddr_un;
uint32_t uro_memif_address(const struct uro_memif_options *options, struct sockaddr_un *address);

/* ---- queue.c: the memory that both sides share -------------------------------- */

/* The client makes the memory, and the server maps it. Any process that can reach the socket may be
 * the client of a server. So the server checks all offsets, and the client's file must be sealed
 * against shrinking: otherwise an access could end the server's process. */

/* Makes the client's region, filled with zeros. Returns false when there is no memory. */
URO_NODISCARD bool uro_memif_region_make(struct uro_memif_region *region, size_t size);

/* Maps @size bytes of the file @fd for the server. @fd remains property of the caller. Returns
 * NULL, or the reason for failure. */
URO_NODISCARD const char *uro_memif_region_map(struct uro_memif_region *region, int fd,
                                               uint64_t size);

/* Populates the mapping, so that the first frames are as fast as the others. Takes 3 ms for 9
 * MB. */
void uro_memif_region_populate(const struct uro_memif_region *region);

void uro_memif_region_drop(struct uro_memif_region *region);

/* Returns the address of @length bytes at @offset of @region, or NULL when they are not inside a
 * region. */
static inline uint8_t *uro_memif_region_find(
    const struct uro_memif_region regions[static URO_MEMIF_REGIONS], uint32_t region,
    uint32_t offset, uint32_t length)
{
    if (region >= URO_MEMIF_REGIONS || regions[region].base == NULL ||
        regions[region].size < length || regions[region].size - length < offset)
        return NULL;
    return regions[region].base + offset;
}

/* ---- queue.c: receives and sends frames --------------------------------------------- */

/* The other side may write to shared memory at any time. So everything is copied before it is
 * checked: descriptors, and the headers of each frame. Only the payload of data packets for a queue
 * pair is used in place. All other frames are copied as a whole. */

/* Makes the client's memory, both rings and their buffers. Returns false when there is no memory;
 * then call uro_memif_queue_close() and uro_memif_region_drop() to free the parts. */
URO_NODISCARD bool uro_memif_queue_make(struct uro_memif *memif);

/* Sets up the server's view of a ring that the client described. Returns NULL, or the reason for
 * failure. */
URO_NODISCARD const char *uro_memif_queue_join(struct uro_memif *memif,
                                               struct uro_memif_queue *queue, uint32_t region,
                                               uint32_t offset, uint32_t slots_log2);
/* Starts the rings when both sides are connected: a client offers its buffers. */
void uro_memif_queue_start(struct uro_memif *memif);
void uro_memif_queue_close(struct uro_memif_queue *queue);

/* Operations of the port. */
uint32_t uro_memif_receive(struct uro_port *port, struct uro_pkt *pkts, uint32_t max);
void uro_memif_release(struct uro_port *port, struct uro_pkt *pkts, uint32_t count);
uint32_t uro_memif_tx_free_count(struct uro_port *port);
void uro_memif_transmit(struct uro_port *port, const struct uro_tx *frames, uint32_t count);

/* Returns whether there is a new frame. No frame may be lent. */
bool uro_memif_peek(const struct uro_memif *memif);

/* Requests to be woken by the other side, or withdraws the request. */
void uro_memif_arm(struct uro_memif *memif, bool wanted);

/* ---- link_options.c, port.c ------------------------------------------------------- */

/* Reads the options of @link. @frame_max: the longest frame in bytes. Returns 0, or -1 with a
 * sentence in @error. */
URO_NODISCARD int uro_memif_options_read(const char *link, uint32_t frame_max,
                                         struct uro_memif_options *into,
                                         char error[static URO_PORT_ERROR_MAX]);

uro_port_open_fn uro_memif_open;

extern const struct uro_port_plugin uro_port_plugin __attribute__((visibility("default")));
