/* SPDX-License-Identifier: BSD-3-Clause */
/* control.c - the connection to the other side: its messages (control.h), and how the two sides
 * connect and disconnect (memif.h). */
#define _GNU_SOURCE
#include "io/memif/control.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "io/memif/memif.h"

#define FDS_MAX 4u /* descriptors that fit beside a message; more than the protocol sends */
#define WATCHED_MAX                                                                                \
    8 /* more than a port has in its epoll: listener, `called` or `timer`, control, doorbell */

union fds {
    struct cmsghdr header;
    uint8_t octets[CMSG_SPACE(FDS_MAX * sizeof(int))];
};

bool uro_memif_send_message(int control, const struct uro_memif_message *message, int fd)
{
    union fds fds = { 0 };
    struct iovec octets = { (void *)(uintptr_t)message, sizeof *message };
    struct msghdr header = { .msg_iov = &octets, .msg_iovlen = 1 };

    if (fd >= 0) {
        header.msg_control = &fds;
        header.msg_controllen = CMSG_SPACE(sizeof fd);
        fds.header = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof fd),
                                       .cmsg_level = SOL_SOCKET,
                                       .cmsg_type = SCM_RIGHTS };
        memcpy(CMSG_DATA(&fds.header), &fd, sizeof fd);
    }
    return sendmsg(control, &header, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof *message;
}

/* Returns the first descriptor that came, or -1 when there is none. Closes all others. */
static int take_fd(struct msghdr *header, const struct uro_memif_peer_fd *peer_fd)
{
    int first = -1;

    for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(header); cmsg != NULL;
         cmsg = CMSG_NXTHDR(header, cmsg)) {
        if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t used = CMSG_LEN(0); used + sizeof(int) <= cmsg->cmsg_len; used += sizeof(int)) {
            int fd;
            memcpy(&fd, (const uint8_t *)cmsg + used, sizeof fd);
            if (first < 0)
                first = fd;
            else
                uro_memif_peer_fd_close(peer_fd, fd);
        }
    }
    return first;
}

enum uro_memif_read_result uro_memif_read_message(int control, struct uro_memif_message *message)
{
    ssize_t length = recv(control, message, sizeof *message, MSG_DONTWAIT | MSG_TRUNC);

    if (length < 0)
        return errno == EAGAIN || errno == EINTR ? URO_MEMIF_NOTHING : URO_MEMIF_GONE;
    return length == (ssize_t)sizeof *message ? URO_MEMIF_READ : URO_MEMIF_GONE;
}

enum uro_memif_read_result uro_memif_read_message_fd(int control, struct uro_memif_message *message,
                                                     const struct uro_memif_peer_fd *peer_fd,
                                                     int *fd)
{
    union fds fds;
    struct iovec octets = { message, sizeof *message };
    struct msghdr header = {
        .msg_iov = &octets, .msg_iovlen = 1, .msg_control = &fds, .msg_controllen = sizeof fds
    };

    *fd = -1;
    if (!uro_memif_peer_fd_may_take())
        return URO_MEMIF_GONE;
    ssize_t length = recvmsg(control, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (length < 0)
        return errno == EAGAIN || errno == EINTR ? URO_MEMIF_NOTHING : URO_MEMIF_GONE;
    *fd = take_fd(&header, peer_fd);
    if (length == (ssize_t)sizeof *message && (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0)
        return URO_MEMIF_READ;
    if (*fd >= 0)
        uro_memif_peer_fd_close(peer_fd, *fd);
    *fd = -1;
    return URO_MEMIF_GONE;
}

bool uro_memif_is_from(int control, uint32_t user)
{
    struct ucred peer;
    socklen_t length = sizeof peer;

    return getsockopt(control, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
           (user == URO_MEMIF_ANY_USER || peer.uid == 0 || peer.uid == user);
}

static bool watch(int epoll, int fd, uint32_t events)
{
    struct epoll_event event = { .events = events, .data.fd = fd };

    return fd >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

bool uro_memif_watch(int epoll, int fd)
{
    return watch(epoll, fd, EPOLLIN);
}

bool uro_memif_watch_doorbell(int epoll, int doorbell)
{
    return watch(epoll, doorbell, EPOLLIN | EPOLLET);
}

bool uro_memif_was_rung(int epoll, int doorbell)
{
    struct epoll_event events[WATCHED_MAX];
    bool rung = false;

    if (doorbell < 0)
        return false;
    int count = epoll_wait(epoll, events, WATCHED_MAX, 0);
    for (int i = 0; i < count; i++)
        rung = rung || events[i].data.fd == doorbell;
    return rung;
}

void uro_memif_send_disconnect(int control, const char *reason)
{
    struct uro_memif_message message = uro_memif_message(URO_MEMIF_DISCONNECT);

    (void)snprintf((char *)message.octets + URO_MEMIF_DISCONNECT_REASON, URO_MEMIF_REASON, "%s",
                   reason);
    bool sent = uro_memif_send_message(control, &message, -1);
    (void)sent; /* false if the other side has disconnected */
}

/* ---- connecting -------------------------------------------------------- */

#define RETRY_MS     20   /* time between connection attempts of a client */
#define HANDSHAKE_MS 1000 /* timeout for each step of the other side */

int64_t uro_memif_now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Removes @fd from the epoll set. Closing @fd is not enough: child processes and the other side may
 * have the same descriptor, which would then wake this process for ever. */
static void unwatch(const struct uro_memif *memif, int fd)
{
    if (fd >= 0)
        (void)epoll_ctl(memif->epoll, EPOLL_CTL_DEL, fd, NULL);
}

static void begin(struct uro_memif *memif, int control, enum uro_memif_step step)
{
    memif->control = control;
    memif->step = step;
    memif->since = uro_memif_now_ms();
    (void)uro_memif_watch(memif->epoll, control);
}

void uro_memif_leave(struct uro_memif *memif, const char *reason)
{
    if (memif->control < 0)
        return;
    if (memif->verbose)
        fprintf(stderr, "uroce: memif: socket=%s: the connection ends: %s\n", memif->options.path,
                reason);
    uro_memif_send_disconnect(memif->control, reason);
    unwatch(memif, memif->control);
    unwatch(memif, memif->in.doorbell);
    (void)close(memif->control);
    memif->control = -1;
    memif->step = URO_MEMIF_ALONE;
    memif->since = uro_memif_now_ms();
    memif->complaint = NULL;
    memif->partial = 0;
    uro_memif_queue_close(&memif->in);
    uro_memif_queue_close(&memif->out);
    for (uint32_t i = 0; i < URO_MEMIF_REGIONS; i++)
        uro_memif_region_drop(&memif->regions[i]);
    if (memif->options.server)
        uro_memif_free(memif);
}

void uro_memif_leave_forked(struct uro_memif *memif)
{
    if (memif->control >= 0)
        (void)close(memif->control);
    memif->control = -1;
    uro_memif_queue_close(&memif->in);
    uro_memif_queue_close(&memif->out);
    for (uint32_t i = 0; i < URO_MEMIF_REGIONS; i++)
        uro_memif_region_drop(&memif->regions[i]);
}

/* Completes the connection: from now on frames can be sent and received. */
static void come_up(struct uro_memif *memif, const uint8_t *name)
{
    if (memif->verbose)
        fprintf(stderr, "uroce: memif: socket=%s: connected with \"%.*s\"\n", memif->options.path,
                (int)URO_MEMIF_NAME, (const char *)name);
    uro_memif_queue_start(memif);
    (void)uro_memif_watch_doorbell(memif->epoll, memif->in.doorbell);
    memif->step = URO_MEMIF_UP;
}

/* ---- a client ----------------------------------------------------------- */

static bool is_own_process(int fd)
{
    struct ucred server;
    socklen_t length = sizeof server;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &server, &length) == 0 && server.pid == getpid();
}

/* Returns whether the server runs as an allowed user. Only such a server gets the secret. */
static bool is_welcome(struct uro_memif *memif, int fd)
{
    if (uro_memif_is_from(fd, memif->options.user))
        return true;
    if (!memif->warned)
        fprintf(stderr,
                "uroce: memif: socket=%s: a process of another user listens there, so uroce does "
                "not connect; choose another socket=, or allow that user with user=\n",
                memif->options.path);
    memif->warned = true;
    return false;
}

static void call_server(struct uro_memif *memif)
{
    struct sockaddr_un address;
    uint32_t length = uro_memif_address(&memif->options, &address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    memif->since = uro_memif_now_ms();
    if (fd >= 0 && connect(fd, (const void *)&address, length) == 0 && is_welcome(memif, fd)) {
        memif->own_process = is_own_process(fd);
        begin(memif, fd, URO_MEMIF_AWAITS_HELLO);
    } else if (fd >= 0) {
        (void)close(fd);
    }
}

static struct uro_memif_message init_message(const struct uro_memif *memif)
{
    struct uro_memif_message message = uro_memif_message(URO_MEMIF_INIT);

    uro_memif_put16(&message, URO_MEMIF_INIT_VERSION, URO_MEMIF_VERSION);
    uro_memif_put32(&message, URO_MEMIF_INIT_ID, memif->options.id);
    uro_memif_put8(&message, URO_MEMIF_INIT_MODE, URO_MEMIF_ETHERNET);
    memcpy(message.octets + URO_MEMIF_INIT_SECRET, memif->options.secret, URO_MEMIF_SECRET);
    uro_memif_put_name(&message, URO_MEMIF_INIT_NAME);
    return message;
}

/* Checks HELLO, and makes the rings. Returns NULL, or the reason why this server cannot be used. */
static const char *handle_hello(struct uro_memif *memif, const struct uro_memif_message *hello)
{
    if (uro_memif_type_of(hello) != URO_MEMIF_HELLO)
        return "expected HELLO first";
    if (uro_memif_get16(hello, URO_MEMIF_HELLO_MIN_VERSION) > URO_MEMIF_VERSION ||
        uro_memif_get16(hello, URO_MEMIF_HELLO_MAX_VERSION) < URO_MEMIF_VERSION)
        return "this side supports version 2.0 only";
    if (uro_memif_get8(hello, URO_MEMIF_HELLO_MAX_SLOTS_LOG2) < memif->options.slots_log2)
        return "the server does not accept rings of this size; set a smaller rsize=";
    return uro_memif_queue_make(memif) ? NULL : "out of memory";
}

static struct uro_memif_message region_message(const struct uro_memif *memif)
{
    struct uro_memif_message message = uro_memif_message(URO_MEMIF_ADD_REGION);

    uro_memif_put64(&message, URO_MEMIF_REGION_SIZE, memif->regions[0].size);
    return message;
}

static struct uro_memif_message ring_message(const struct uro_memif *memif,
                                             const struct uro_memif_queue *queue, uint16_t flags)
{
    struct uro_memif_message message = uro_memif_message(URO_MEMIF_ADD_RING);

    uro_memif_put16(&message, URO_MEMIF_RING_FLAGS, flags);
    uro_memif_put32(&message, URO_MEMIF_RING_OFFSET,
                    (uint32_t)((const uint8_t *)queue->ring - memif->regions[0].base));
    uro_memif_put8(&message, URO_MEMIF_RING_SLOTS_LOG2, (uint8_t)memif->options.slots_log2);
    return message;
}

/* Returns the message that ends @step, and in @fd the descriptor to send with it, or -1. */
static struct uro_memif_message next_message(const struct uro_memif *memif,
                                             enum uro_memif_step step, int *fd)
{
    struct uro_memif_message message = uro_memif_message(URO_MEMIF_CONNECT);

    *fd = -1;
    if (step == URO_MEMIF_AWAITS_HELLO) {
        message = init_message(memif);
    } else if (step == URO_MEMIF_AWAITS_INIT_ACK) {
        message = region_message(memif);
        *fd = memif->regions[0].fd;
    } else if (step == URO_MEMIF_AWAITS_REGION_ACK) {
        message = ring_message(memif, &memif->out, URO_MEMIF_TO_SERVER);
        *fd = memif->out.doorbell;
    } else if (step == URO_MEMIF_AWAITS_OUT_ACK) {
        message = ring_message(memif, &memif->in, 0);
        *fd = memif->in.doorbell;
    } else {
        uro_memif_put_name(&message, URO_MEMIF_CONNECT_NAME);
    }
    return message;
}

/* Handles a message to the client. Returns NULL, or the reason to end the connection. */
static const char *client_handle(struct uro_memif *memif, const struct uro_memif_message *message)
{
    int fd;

    if (memif->step == URO_MEMIF_AWAITS_CONNECTED) {
        if (uro_memif_type_of(message) != URO_MEMIF_CONNECTED)
            return "expected CONNECTED";
        come_up(memif, message->octets + URO_MEMIF_CONNECT_NAME);
        return NULL;
    }
    if (memif->step == URO_MEMIF_AWAITS_HELLO) {
        const char *reason = handle_hello(memif, message);
        if (reason != NULL)
            return reason;
    } else if (uro_memif_type_of(message) != URO_MEMIF_ACK) {
        return "expected ACK";
    }
    const struct uro_memif_message next = next_message(memif, memif->step, &fd);
    memif->step++;
    memif->since = uro_memif_now_ms();
    return uro_memif_send_message(memif->control, &next, fd) ? NULL : "the server is gone";
}

/* ---- a server ----------------------------------------------------------- */

static bool acknowledge(const struct uro_memif *memif)
{
    const struct uro_memif_message ack = uro_memif_message(URO_MEMIF_ACK);

    return uro_memif_send_message(memif->control, &ack, -1);
}

static const char *add_region(struct uro_memif *memif, const struct uro_memif_message *message,
                              int fd)
{
    const uint16_t index = uro_memif_get16(message, URO_MEMIF_REGION_INDEX);

    if (index >= URO_MEMIF_REGIONS || memif->regions[index].base != NULL)
        return "a region's number is too high, or was used before";
    return fd < 0 ? "a region without a file descriptor"
                  : uro_memif_region_map(&memif->regions[index], fd,
                                         uro_memif_get64(message, URO_MEMIF_REGION_SIZE));
}

static const char *add_ring(struct uro_memif *memif, const struct uro_memif_message *message,
                            int *fd)
{
    const bool in = (uro_memif_get16(message, URO_MEMIF_RING_FLAGS) & URO_MEMIF_TO_SERVER) != 0;
    struct uro_memif_queue *queue = in ? &memif->in : &memif->out;

    if (uro_memif_get16(message, URO_MEMIF_RING_INDEX) != 0 || queue->ring != NULL)
        return "only one ring in each direction is supported";
    if (*fd >= 0 && !uro_memif_peer_fd_is_eventfd(&memif->peer_fd, *fd))
        return "a ring without an eventfd";
    const char *reason =
        uro_memif_queue_join(memif, queue, uro_memif_get16(message, URO_MEMIF_RING_REGION),
                             uro_memif_get32(message, URO_MEMIF_RING_OFFSET),
                             uro_memif_get8(message, URO_MEMIF_RING_SLOTS_LOG2));
    if (reason == NULL) {
        queue->doorbell = *fd;
        *fd = -1;
        if (queue->doorbell >= 0 && uro_memif_peer_fd_waits(&memif->peer_fd))
            (void)fcntl(queue->doorbell, F_SETFL, O_NONBLOCK);
    }
    return reason;
}

static const char *server_handle(struct uro_memif *memif, const struct uro_memif_message *message,
                                 int *fd)
{
    const uint16_t type = uro_memif_type_of(message);
    const char *reason = "unexpected message from the client";

    if (memif->step == URO_MEMIF_UP)
        return reason;
    memif->since = uro_memif_now_ms();
    if (type == URO_MEMIF_CONNECT) {
        struct uro_memif_message answer = uro_memif_message(URO_MEMIF_CONNECTED);
        uro_memif_put_name(&answer, URO_MEMIF_CONNECT_NAME);
        if (memif->in.ring == NULL || memif->out.ring == NULL)
            return "a ring is missing";
        come_up(memif, message->octets + URO_MEMIF_CONNECT_NAME);
        return uro_memif_send_message(memif->control, &answer, -1) ? NULL : "the client is gone";
    }
    if (type == URO_MEMIF_ADD_REGION)
        reason = add_region(memif, message, *fd);
    else if (type == URO_MEMIF_ADD_RING)
        reason = add_ring(memif, message, fd);
    return reason != NULL || acknowledge(memif) ? reason : "the client is gone";
}

/* ---- both --------------------------------------------------------------- */

static const char *handle_message(struct uro_memif *memif, const struct uro_memif_message *message,
                                  int *fd)
{
    if (uro_memif_type_of(message) == URO_MEMIF_DISCONNECT) {
        if (memif->verbose)
            fprintf(stderr, "uroce: memif: socket=%s: the other side reports: %.*s\n",
                    memif->options.path, (int)URO_MEMIF_REASON,
                    (const char *)message->octets + URO_MEMIF_DISCONNECT_REASON);
        return "the other side closed the connection";
    }
    if (memif->options.server)
        return server_handle(memif, message, fd);
    return memif->step == URO_MEMIF_UP ? "unexpected message from the server"
                                       : client_handle(memif, message);
}

/* Receives a message. Only a client that sends regions and rings may send descriptors. */
static enum uro_memif_read_result read_next(const struct uro_memif *memif,
                                            struct uro_memif_message *message, int *fd)
{
    *fd = -1;
    return memif->step == URO_MEMIF_LEARNS
               ? uro_memif_read_message_fd(memif->control, message, &memif->peer_fd, fd)
               : uro_memif_read_message(memif->control, message);
}

static void read_all(struct uro_memif *memif)
{
    while (memif->control >= 0) {
        struct uro_memif_message message;
        int fd;
        enum uro_memif_read_result result = read_next(memif, &message, &fd);

        if (result == URO_MEMIF_NOTHING)
            break;
        const char *reason = "the other side is gone";
        if (result == URO_MEMIF_READ)
            reason = handle_message(memif, &message, &fd);
        if (fd >= 0)
            uro_memif_peer_fd_close(&memif->peer_fd, fd);
        if (reason != NULL)
            uro_memif_leave(memif, reason);
    }
}

static void look_for_peer(struct uro_memif *memif)
{
    if (memif->options.server) {
        int fd = uro_memif_listen_again(memif) ? uro_memif_accept(memif) : -1;
        if (fd < 0)
            return;
        begin(memif, fd, URO_MEMIF_LEARNS);
        if (!acknowledge(memif))
            uro_memif_leave(memif, "the client is gone");
    } else if (memif->control < 0 && uro_memif_now_ms() - memif->since >= RETRY_MS) {
        call_server(memif);
    }
}

void uro_memif_tend(struct uro_memif *memif)
{
    if (memif->lent > 0)
        return;
    read_all(memif);
    if (memif->complaint != NULL)
        uro_memif_leave(memif, memif->complaint);
    if (memif->control >= 0 && memif->step != URO_MEMIF_UP &&
        uro_memif_now_ms() - memif->since >= HANDSHAKE_MS)
        uro_memif_leave(memif, "no answer for a second");
    /* A connected server also accepts connections, so that a second client gets an error. */
    look_for_peer(memif);
    read_all(memif);
}
