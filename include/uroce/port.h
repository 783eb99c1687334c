/* SPDX-License-Identifier: BSD-3-Clause */
/* port.h - a link of your own under plain verbs: the program carries the frames, and liburoce does
 * everything else.
 *
 * Use this header for a link that has no driver in uroce: a model of a switch, the bus of a
 * simulated network card, or an application that owns its DPDK queues. The program registers a
 * driver, and then adds devices that use the driver:
 *
 *     uroce_port_add("toy", &ops, NULL);
 *     uroce_device_add("uroce0:toy,lane=3;ip=10.0.0.1/24", error, sizeof error);
 *
 * A program that needs neither verbs nor threads nor real time uses the engine alone:
 * uroce/engine.h.
 *
 * Threads: one thread at a time calls the functions of a port. This may be a thread of the program
 * that polls or posts, or a thread of liburoce. The caller holds a lock of the device. The
 * functions must not block, and must not call verbs, rdma_cm or liburoce.
 */
#ifndef UROCE_PORT_H
#define UROCE_PORT_H

#include <stddef.h>
#include <stdint.h>

#include <uroce/engine.h>

#ifdef __cplusplus
extern "C" {
#endif

#define UROCE_PORT_BURST 32u /* maximum number of frames in one call of receive() or transmit() */

/* Parameters of a link. The struct and its strings are valid only during open(). */
struct uroce_port_config {
    size_t size;        /* size of this struct in liburoce: later versions append members */
    const char *device; /* name of the device, "uroce0" */
    const char *link;   /* link part of the device description: "toy,lane=3" */
    uint32_t mtu; /* largest IP packet, in bytes; frames are at most UROCE_FRAME_OVERHEAD longer */
    uint8_t mac[UROCE_MAC_SIZE]; /* deliver frames for this address and for group addresses */
};

/* The functions of a driver. A frame begins with the destination address and has no frame
 * check sequence, as in uroce/engine.h. */
struct uroce_port_ops {
    size_t size; /* sizeof(struct uroce_port_ops): later versions append members */

    /* Opens the link and writes a handle for the functions below to @port. Returns 0, or a negated
     * errno value and a message of at most @error_size bytes in @error. @user is the argument of
     * uroce_port_add(). */
    int (*open)(void *user, const struct uroce_port_config *config, void **port, char *error,
                size_t error_size);
    /* Closes the link and frees the handle. */
    void (*close)(void *port);

    /* Lends at most @max received frames until release(). The driver guarantees that no other
     * process writes to these frames; uroce ignores their member `shared`. Returns the number of
     * frames. */
    uint32_t (*receive)(void *port, struct uroce_packet *packets, uint32_t max);
    /* Takes back the frames of the last receive(). NULL: the frames are valid until the next
     * receive(). */
    void (*release)(void *port, const struct uroce_packet *packets, uint32_t count);

    /* Returns the number of frames that transmit() can take now; 0 when the link is full. NULL:
     * always UROCE_PORT_BURST. */
    uint32_t (*tx_free_count)(void *port);
    /* Sends the frames, whose memory is valid only during the call. @count is at most the last
     * result of tx_free_count(), and at most UROCE_PORT_BURST. */
    void (*transmit)(void *port, const struct uroce_packet *packets, uint32_t count);

    /* Returns a file descriptor that is readable while a frame waits for receive(). Returns -1
     * without such a descriptor: liburoce then polls the link at short intervals. NULL: -1. */
    int (*wait_fd)(void *port);
    /* Returns 0 while the link is down, else 1. NULL: 1. */
    int (*link_up)(void *port);
};

/* Registers the driver @name for links such as "toy" or "toy,lane=3". @ops is copied. A driver
 * cannot be removed. Returns 0 or
 *   -EINVAL  an argument except @user is NULL, @name is not 1 to 15 lowercase letters, digits or _,
 *            @ops->size is too small, or open, close, receive or transmit is NULL
 *   -E2BIG   @ops->size exceeds 4096, or a member that this version does not have is not NULL
 *   -EEXIST  another driver has this name
 *   -ENOSPC  there are 8 drivers already */
int uroce_port_add(const char *name, const struct uroce_port_ops *ops, void *user);

#ifdef __cplusplus
}
#endif

#endif
