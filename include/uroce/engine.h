/* SPDX-License-Identifier: BSD-3-Clause */
/* engine.h - the RoCEv2 engine without any I/O, for programs that supply packets and time
 * themselves. Examples are the test bench of a network card, a model of a switch, and a program
 * over DPDK.
 *
 * An engine is one port of one device: the transport, connections, multicast groups, ARP, neighbour
 * discovery and ICMP echo. It has no thread, no socket and no clock, makes no callback and prints
 * nothing. The program repeats four calls:
 *
 *     uroce_engine_input()    takes frames that arrived
 *     uroce_engine_output()   runs the timers that are due, and returns the frames to send
 *     uroce_engine_event()    returns an event. Call it after the frames were sent, until it
 *                             returns 0: these calls make new completions visible
 *     uroce_engine_next()     returns the time at which output() must be called even if nothing
 *                             arrives
 *
 * The same calls with the same seed have the same results. Objects (memory, queues) are in
 * uroce/objects.h.
 *
 * Time is in nanoseconds since any origin, and may be virtual. It never decreases: a call with an
 * earlier time fails with -EINVAL. Frames are Ethernet frames from the destination address on,
 * without the frame check sequence.
 *
 * Threads: one thread at a time calls an engine, or creates, changes or destroys its objects. Other
 * threads may post, poll, arm and call uroce_engine_rung() meanwhile (uroce/objects.h). Different
 * engines are independent.
 * Errors: a function that returns int returns a negated errno value when it fails, and has changed
 * nothing then.
 *
 * Sizes: as in uroce/objects.h.
 *
 * Sources: IBTA Architecture Specification Vol. 1, Annex A17 (RoCEv2); RFC 826, RFC 4861
 * (neighbours); RFC 2236, RFC 2710 (multicast groups); IEEE 802.1Q (VLAN).
 */
#ifndef UROCE_ENGINE_H
#define UROCE_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define UROCE_GID_SIZE       16u
#define UROCE_MAC_SIZE       6u
#define UROCE_SEED_SIZE      32u
#define UROCE_ADDRESSES_MAX  15u
#define UROCE_TIME_NEVER     UINT64_MAX
#define UROCE_FRAME_OVERHEAD 18u  /* Ethernet header and one VLAN tag, in bytes */
#define UROCE_WINDOW_DEFAULT 256u /* uroce_engine_config.window when it is 0 */

struct uroce_engine;

/* Parses the IPv4 or IPv6 address @text into @gid. An IPv4 address becomes ::ffff:a.b.c.d (RFC
 * 4291, 2.5.5.2). Returns 0, or -EINVAL when an argument is NULL or @text is not an address. */
int uroce_gid_parse(const char *text, uint8_t gid[UROCE_GID_SIZE]);

struct uroce_net {
    uint8_t gid[UROCE_GID_SIZE]; /* unicast address of the port */
    uint8_t prefix;              /* length of the subnet prefix: 0..32 for IPv4, 0..128 for IPv6 */
};

struct uroce_engine_config {
    size_t size; /* sizeof(struct uroce_engine_config): later versions append members */
    uint8_t mac[UROCE_MAC_SIZE]; /* unicast MAC address of the port */
    uint16_t vlan;               /* VLAN ID of the 802.1Q tag in every frame, 1..4094; 0: no tag */
    uint32_t mtu;                /* largest IP packet, 576..9600 bytes */
    uint32_t address_count;      /* entries of @addresses, 0..15 */
    struct uroce_net addresses[UROCE_ADDRESSES_MAX]; /* GIDs 1..; GID 0 is made from @mac */
    uint8_t gateway4[UROCE_GID_SIZE]; /* next hop for other IPv4 subnets; zero: none */
    uint8_t gateway6[UROCE_GID_SIZE]; /* next hop for other IPv6 subnets; zero: none */
    uint8_t seed[UROCE_SEED_SIZE];    /* seed of all random numbers of the engine */
    uint32_t window;         /* packets that a queue pair may have in flight, 1..65536; 0: 256 */
    uint32_t reorder_buffer; /* packets, 0..4096; 0: drop out-of-order packets */
    uint16_t source_port;    /* UDP source port of all packets; 0: a port for each connection */
    uint8_t qpn_prefix;      /* upper 6 bits of all QPNs, 1..62, for engines that share an address;
                                0: any */
    uint8_t timeout_min;     /* shortest ACK timeout, as uroce_qp_attr.timeout, 0..31; 0: none */
    uint32_t connections;    /* maximum connections at the same time, 0..1048576; 0: 4096 */
    int link_routes;     /* not 0: the link finds next hops, without ARP and neighbour discovery */
    int retry_7_forever; /* not 0: retry_cnt 7 never gives up, as in Linux rxe */
};

/* Creates an engine. Returns 0 or
 *   -EINVAL  an argument is NULL, @config->size is too small, or a value is out of its range
 *   -E2BIG   @config->size exceeds 4096, or a member that this version does not have is not zero
 *   -ENOMEM  out of memory */
int uroce_engine_create(const struct uroce_engine_config *config, uint64_t now,
                        struct uroce_engine **engine);

/* Destroys an engine. Returns 0, -EINVAL when @engine is NULL, or -EBUSY while an object of the
 * engine exists. */
int uroce_engine_destroy(struct uroce_engine *engine);

/* A frame. The engine does not use its memory after uroce_engine_input(). */
struct uroce_packet {
    const uint8_t *bytes;
    uint32_t length; /* bytes */
    uint32_t shared; /* not 0: another process can write to the bytes meanwhile */
};

/* Memory for a frame to send. */
struct uroce_buffer {
    uint8_t *bytes;
    uint32_t size;   /* size of the memory, in bytes */
    uint32_t length; /* length of the frame in bytes, written by uroce_engine_output() */
};

/* Processes @count received frames in order. A frame may have any content and any length: the
 * engine drops and counts invalid frames. The engine copies the headers of a shared frame before it
 * checks them. It reads the payload once to check it and once to copy it. Returns 0, or -EINVAL
 * when an argument is NULL or @now is earlier than in the last call. */
int uroce_engine_input(struct uroce_engine *engine, const struct uroce_packet *packets,
                       uint32_t count, uint64_t now);

/* Writes at most @max frames to send into @buffers, each with at least uroce_engine_frame_max()
 * bytes. Expired timers run first. Only this function copies payload from registered memory. More
 * frames may be ready even if fewer than @max were written: uroce_engine_next() then returns a
 * time that has passed. Returns the number of frames written. Returns -EINVAL when an argument is
 * NULL, a buffer is too small, @max exceeds INT_MAX, or @now is earlier than in the last call. */
int uroce_engine_output(struct uroce_engine *engine, struct uroce_buffer *buffers, uint32_t max,
                        uint64_t now);

/* Returns the length of the longest frame that the engine sends, in bytes: MTU +
 * UROCE_FRAME_OVERHEAD. */
uint32_t uroce_engine_frame_max(const struct uroce_engine *engine);

/* Returns the time at which uroce_engine_output() must be called even if nothing arrives. This time
 * may have passed. Returns UROCE_TIME_NEVER when the engine has nothing to do until a frame arrives
 * or a request is posted, and when @engine is NULL. */
uint64_t uroce_engine_next(const struct uroce_engine *engine);

/* Returns 1 when a posted request waits for uroce_engine_output(), else 0. Threads: any. */
int uroce_engine_rung(const struct uroce_engine *engine);

enum uroce_event_kind {
    UROCE_EVENT_COMPLETION = 0,    /* CQ: a completion was added after uroce_cq_arm() */
    UROCE_EVENT_CQ_ERR = 1,        /* CQ overflowed; IBV_EVENT_CQ_ERR */
    UROCE_EVENT_QP_FATAL = 2,      /* queue pair; IBV_EVENT_QP_FATAL */
    UROCE_EVENT_QP_REQ_ERR = 3,    /* queue pair; IBV_EVENT_QP_REQ_ERR */
    UROCE_EVENT_QP_ACCESS_ERR = 4, /* queue pair; IBV_EVENT_QP_ACCESS_ERR */
    UROCE_EVENT_COMM_EST = 5,      /* queue pair; IBV_EVENT_COMM_EST */
    UROCE_EVENT_SQ_DRAINED = 6,    /* queue pair; IBV_EVENT_SQ_DRAINED */
    UROCE_EVENT_LAST_WQE = 7,      /* queue pair; IBV_EVENT_QP_LAST_WQE_REACHED */
    UROCE_EVENT_SRQ_LIMIT = 8      /* SRQ; IBV_EVENT_SRQ_LIMIT_REACHED */
};

struct uroce_event {
    enum uroce_event_kind kind; /* see man 3 ibv_get_async_event; later versions may add kinds */
    void *user;                 /* @user of the CQ, queue pair or SRQ */
};

/* Takes the next event. These calls make new completions visible to uroce_cq_poll(): all of them
 * are visible when a call has returned 0. Send the frames of uroce_engine_output() before this
 * call: the peer then gets its acknowledgement before the program acts on a message. Returns 1 when
 * there is an event, 0 when there is none, or -EINVAL when an argument is NULL. */
int uroce_engine_event(struct uroce_engine *engine, struct uroce_event *event);

/* Makes new completions visible to uroce_cq_poll() without taking an event. A program that takes
 * all events does not need this function. Returns 0, or -EINVAL when @engine is NULL. */
int uroce_engine_deliver(struct uroce_engine *engine);

/* Fills @packets with frames that the engine sends to its own addresses, at most @max. The next
 * uroce_engine_output() processes these frames, but does not return them: captures need this
 * function. The entries point to memory of the engine, which is valid until the next
 * uroce_engine_output(). Returns the number of frames, or -EINVAL when an argument is NULL. */
int uroce_engine_looped(const struct uroce_engine *engine, struct uroce_packet *packets,
                        uint32_t max);

/* Sets the largest IP packet that the link carries from now on, in bytes. Connected queue pairs
 * keep their path MTU. A queue pair that connects later cannot get a path MTU that needs larger IP
 * packets. Returns 0, or -EINVAL when @engine is NULL, or @mtu is below 576 or exceeds the MTU of
 * the configuration. */
int uroce_engine_set_mtu(struct uroce_engine *engine, uint32_t mtu);

/* Reports that the link went down (@up is 0) or came up. When the link comes up, the engine
 * resolves its neighbours again. A new engine assumes that the link is up. Returns 0, or -EINVAL
 * when @engine is NULL or @now is earlier than in the last call. */
int uroce_engine_link(struct uroce_engine *engine, int up, uint64_t now);

/* Writes the value of the counter with the name @counter to @value. uroce_counter_name() lists the
 * names (uroce/uroce.h). Returns 0, -EINVAL when an argument is NULL, or -ENOENT when no counter
 * of an engine has this name: engines have no counters of cables. */
int uroce_engine_counter(const struct uroce_engine *engine, const char *counter, uint64_t *value);

/* Returns the value of the counter @index, a number as in uroce_counter_name(). Returns 0 for the
 * counters of cables, for an unknown number, and when @engine is NULL. */
uint64_t uroce_engine_counter_at(const struct uroce_engine *engine, unsigned index);

#ifdef __cplusplus
}
#endif

#endif
