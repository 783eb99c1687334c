/* SPDX-License-Identifier: BSD-3-Clause */
/* port.h - a link of your own under plain verbs: the program brings the frames, liburoce everything else.
 *
 * For a link that no driver of uroce has, such as a model of a switch, the bus of a simulated network card, or an application over
 * DPDK that owns the queues. The program registers a driver, and adds devices with it:
 *
 *     uroce_port_add("toy", &ops, NULL);
 *     uroce_device_add("uroce0:toy,lane=3;ip=10.0.0.1/24", error, sizeof error);
 *
 * Those who have no use for verbs, threads or real time use the engine alone: uroce/engine.h.
 *
 * Threads: the functions of one port are called by one thread at a time, which may be a thread of the program that polls or posts, or
 * one of liburoce. None of them may call verbs, rdma_cm or another function of liburoce, or block: a lock of the device is held.
 */
#ifndef UROCE_PORT_H
#define UROCE_PORT_H

#include <stddef.h>
#include <stdint.h>

#include <uroce/engine.h>

#ifdef __cplusplus
extern "C" {
#endif

#define UROCE_PORT_BURST 32u /* frames that are sent or received at once, at most */

/* What a device wants of its link; borrowed for the call of open(). */
struct uroce_port_config {
    size_t size;        /* of this struct, as liburoce knows it: later versions append members */
    const char *device; /* name of the device, "uroce0" */
    const char *link;   /* what the description says: "toy,lane=3" */
    uint32_t mtu; /* largest IP packet, in bytes; frames are at most UROCE_FRAME_OVERHEAD longer */
    uint8_t mac
        [UROCE_MAC_SIZE]; /* of the device: frames for this address, and group addresses, are wanted */
};

/* What a driver does. Frames are as in uroce/engine.h: from the destination address to the ICRC, without a check
 * sequence. */
struct uroce_port_ops {
    size_t size; /* sizeof(struct uroce_port_ops): later versions append members */

    /* Opens the link and writes a handle for the functions below to @port. Returns 0, or a negated errno value and
     * a sentence of at most @error_size bytes in @error. @user is that of uroce_port_add(). */
    int (*open)(void *user, const struct uroce_port_config *config, void **port, char *error,
                size_t error_size);
    /* Ends it. */
    void (*close)(void *port);

    /* Lends at most @room frames that arrived, until release(); returns how many. */
    uint32_t (*receive)(void *port, struct uroce_packet *packets, uint32_t room);
    /* Takes back what the last receive() lent. NULL: nothing is to be done. */
    void (*release)(void *port, const struct uroce_packet *packets, uint32_t count);

    /* Returns how many frames transmit() would take now; 0 when the link is full. NULL: always UROCE_PORT_BURST. */
    uint32_t (*room)(void *port);
    /* Sends the frames, which are borrowed for the call. @count is at most what room() said. */
    void (*transmit)(void *port, const struct uroce_packet *packets, uint32_t count);

    /* Returns a descriptor that is readable while a frame waits for receive(), -1 when there is none: the link is
     * then polled at short intervals while the program waits for events. NULL: -1. */
    int (*wait_fd)(void *port);
    /* Returns 0 while the link is down, else 1. NULL: 1. */
    int (*link_up)(void *port);
};

/* Makes the driver @name known: links that begin with it, such as "toy" or "toy,lane=3". @ops is copied. It cannot be taken
 * back.
 * Returns 0 or
 *   -EINVAL  an argument but @user is NULL, @name is not 1 to 15 small letters, digits or _, @ops->size is too small, or open, close,
 *            receive or transmit is NULL
 *   -E2BIG   @ops->size is that of a later version, and a member that this version does not know is not NULL
 *   -EEXIST  a driver has this name
 *   -ENOSPC  there are 8 drivers already */
int uroce_port_add(const char *name, const struct uroce_port_ops *ops, void *user);

#ifdef __cplusplus
}
#endif

#endif
