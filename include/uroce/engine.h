/* SPDX-License-Identifier: BSD-3-Clause */
/* engine.h - the RoCEv2 engine without any I/O: for those who bring their own packets and their own time, such as the test
 * bench of a network card, a model of a switch, or a program over DPDK.
 *
 * An engine is one port of one device: the transport, ARP, neighbour discovery and ICMP echo. It has no thread, no socket and no
 * clock, makes no callback and prints nothing. Its owner repeats four calls:
 *
 *     uroce_engine_input()    takes frames that arrived
 *     uroce_engine_output()   runs the timers that are due, and returns the frames to send
 *     uroce_engine_event()    returns an event; the first call, after the frames were sent, makes completions visible
 *     uroce_engine_next()     returns the time at which output() must be called even if nothing arrives
 *
 * The same calls with the same seed have the same results. Objects (memory, queues) are in uroce/objects.h.
 *
 * Time is in nanoseconds since any origin, and may be virtual. It never decreases: a call with an earlier time fails with
 * -EINVAL. Frames are Ethernet frames without the frame check sequence: from the destination address to the end of the ICRC.
 *
 * Threads: one thread at a time calls an engine, or creates, changes or destroys its objects. Other threads may post, poll and
 * call uroce_engine_rung() meanwhile (uroce/objects.h). Different engines are independent.
 * Errors: a function that returns int returns a negated errno value when it fails, and has changed nothing then.
 *
 * Sources: IBTA Architecture Specification Vol. 1, Annex A17 (RoCEv2); RFC 826, RFC 4861 (neighbours); IEEE 802.1Q (VLAN).
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
#define UROCE_FRAME_OVERHEAD 18u /* Ethernet header and one VLAN tag, in bytes */

struct uroce_engine;

/* Writes the IPv4 or IPv6 address @text to @gid; an IPv4 address as ::ffff:a.b.c.d (RFC 4291, 2.5.5.2).
 * Returns 0, or -EINVAL when an argument is NULL or @text is no address. */
int uroce_gid_parse(const char *text, uint8_t gid[UROCE_GID_SIZE]);

struct uroce_net {
    uint8_t gid[UROCE_GID_SIZE]; /* an address of the port */
    uint8_t prefix; /* bits that its subnet has in common: 0..32 of IPv4, 0..128 of IPv6 */
};

struct uroce_engine_config {
    size_t size; /* sizeof(struct uroce_engine_config): later versions append members */
    uint8_t mac[UROCE_MAC_SIZE]; /* of the port: unicast */
    uint16_t vlan;               /* 1..4094: every frame has this 802.1Q tag; 0: no frame has one */
    uint32_t mtu;                /* largest IP packet, 576..9600 bytes */
    uint32_t address_count;      /* entries of @addresses, 0..15 */
    struct uroce_net
        addresses[UROCE_ADDRESSES_MAX]; /* entry i has GID index i + 1; index 0 is the link-local
                                                        address of @mac (RFC 4291, appendix A) */
    uint8_t gateway4[UROCE_GID_SIZE];   /* next hop of other IPv4 subnets; zero: none */
    uint8_t gateway6[UROCE_GID_SIZE];   /* likewise IPv6 */
    uint8_t seed[UROCE_SEED_SIZE];      /* of all random numbers: QPNs, keys, first PSNs */
    uint32_t window;                    /* packets in flight of a queue pair, 1..65536; 0: 256 */
    uint32_t
        reorder_buffer; /* packets that are kept when they arrive before their turn, 0..4096; 0: they are
                                dropped, and the peer sends them again */
};

/* Creates an engine. Returns 0 or
 *   -EINVAL  an argument is NULL, @config->size is too small, or a value is out of its range
 *   -E2BIG   @config->size is that of a later version, and a member that this version does not know is not zero
 *   -ENOMEM  out of memory */
int uroce_engine_create(const struct uroce_engine_config *config, uint64_t now,
                        struct uroce_engine **engine);

/* Destroys an engine. Returns 0, -EINVAL when @engine is NULL, or -EBUSY when an object of it exists. */
int uroce_engine_destroy(struct uroce_engine *engine);

/* A frame that arrived; the memory is borrowed for the call. */
struct uroce_packet {
    const uint8_t *bytes;
    uint32_t length; /* bytes */
};

/* Room for a frame to send. */
struct uroce_buffer {
    uint8_t *bytes;
    uint32_t size;   /* bytes that there is room for */
    uint32_t length; /* bytes of the frame, written by uroce_engine_output() */
};

/* Takes @count frames that arrived, in their order. A frame may have any content and any length: what is wrong is dropped
 * and counted. Returns 0, or -EINVAL when an argument is NULL, or @now earlier than before. */
int uroce_engine_input(struct uroce_engine *engine, const struct uroce_packet *packets,
                       uint32_t count, uint64_t now);

/* Writes at most @room frames to send into @buffers, each with at least uroce_engine_frame_max() bytes. Timers that are due
 * run first. Payload is copied from registered memory here, and nowhere else. There may be more frames although fewer than
 * @room were written: uroce_engine_next() says so.
 * Returns how many frames there are, or -EINVAL when an argument is NULL, a buffer too small, @room more than INT_MAX, or @now earlier
 * than before. */
int uroce_engine_output(struct uroce_engine *engine, struct uroce_buffer *buffers, uint32_t room,
                        uint64_t now);

/* Returns the length of the longest frame that the engine sends, in bytes: its MTU and UROCE_FRAME_OVERHEAD. */
uint32_t uroce_engine_frame_max(const struct uroce_engine *engine);

/* Returns when uroce_engine_output() must be called even if nothing arrives: a time that may have passed, or
 * UROCE_TIME_NEVER when only a frame or a posted request can make work. */
uint64_t uroce_engine_next(const struct uroce_engine *engine);

/* Returns 1 when a request was posted that the engine has not seen yet: call output(). Else 0. Threads: any. */
int uroce_engine_rung(const struct uroce_engine *engine);

enum uroce_event_kind {
    UROCE_EVENT_COMPLETION = 0,    /* of a CQ: a completion since uroce_cq_arm() */
    UROCE_EVENT_CQ_ERR = 1,        /* of a CQ: it overflowed; IBV_EVENT_CQ_ERR */
    UROCE_EVENT_QP_FATAL = 2,      /* of a queue pair, as the rest: IBV_EVENT_QP_FATAL */
    UROCE_EVENT_QP_REQ_ERR = 3,    /* IBV_EVENT_QP_REQ_ERR */
    UROCE_EVENT_QP_ACCESS_ERR = 4, /* IBV_EVENT_QP_ACCESS_ERR */
    UROCE_EVENT_COMM_EST = 5,      /* IBV_EVENT_COMM_EST */
    UROCE_EVENT_SQ_DRAINED = 6     /* IBV_EVENT_SQ_DRAINED */
};

struct uroce_event {
    enum uroce_event_kind kind; /* man 3 ibv_get_async_event; more kinds may come */
    void *user;                 /* of the CQ or queue pair, as given at its creation */
};

/* Takes the next event. Completions that the last calls of input() and output() made become visible to uroce_cq_poll() with
 * the first call: make it after the frames of output() were sent, so that a peer has its acknowledgement before the
 * program acts on a message. Returns 1 when there is an event, 0 when there is none, or -EINVAL when an argument is NULL. */
int uroce_engine_event(struct uroce_engine *engine, struct uroce_event *event);

/* The link went down (@up 0) or came up: neighbours are asked again. A link that is never mentioned is up. Returns 0, or
 * -EINVAL when @engine is NULL, or @now earlier than before. */
int uroce_engine_link(struct uroce_engine *engine, int up, uint64_t now);

/* Writes the counter @counter to @value; the names are those of uroce_counter_name() (uroce/uroce.h). Returns 0, -EINVAL when an argument is
 * NULL, or -ENOENT when no counter has this name. */
int uroce_engine_counter(const struct uroce_engine *engine, const char *counter, uint64_t *value);

#ifdef __cplusplus
}
#endif

#endif
