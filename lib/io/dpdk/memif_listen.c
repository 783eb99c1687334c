/* SPDX-License-Identifier: BSD-3-Clause */
/* memif_listen.c - an orderly end for memif servers, which DPDK's driver does not have.
 *
 * When the last server of a socket closes, the driver frees what belongs to the socket but goes on
 * listening, with callbacks into freed memory; and a client that comes back while the device is
 * being taken down is connected to what is left of it. So the driver's listening socket and the
 * connections it accepts are noted (the linker's --wrap), and at the end the socket is closed, the
 * connections are shut, and DPDK's interrupt thread is waited for: it sees their end and frees
 * them as it would had the clients left, while the device still exists.
 *
 * A client that gave up before the server said hello is no better for the driver: it closes the
 * connection and leaves its callback, and DPDK's interrupt thread ends the process for the descriptor
 * that is none. So what a client does not hear any more counts as sent: the end of the connection is
 * read next.
 */
#define ALLOW_EXPERIMENTAL_API
#include "io/dpdk/memif_listen.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <rte_alarm.h>
#include <rte_interrupts.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "io/dpdk/link.h"

#define LISTENERS_MAX 16u
#define CLIENTS_MAX   64u

struct listener {
    int fd; /* 0: free */
    uint32_t users;
    char path[sizeof((struct uro_link *)0)->socket];
    const struct rte_intr_handle *handle; /* the driver's */
    rte_intr_callback_fn function;
    void *argument;
};

struct client {
    int fd;       /* 0: free */
    int listener; /* descriptor it was accepted from */
};

int __real_rte_intr_callback_register(const struct rte_intr_handle *handle,
                                      rte_intr_callback_fn function, void *argument);
int __wrap_rte_intr_callback_register(const struct rte_intr_handle *handle,
                                      rte_intr_callback_fn function, void *argument);
int __real_accept(int fd, struct sockaddr *address, socklen_t *length);
int __wrap_accept(int fd, struct sockaddr *address, socklen_t *length);
ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
int __real_close(int fd);
int __wrap_close(int fd);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of both tables */
static struct listener listeners[LISTENERS_MAX];
static struct client clients[CLIENTS_MAX];

/* This thread plugs a memif device, and so far nothing listens for it. */
static _Thread_local bool noting;
static _Thread_local struct listener *noted;

static struct listener *find_listener(int fd)
{
    for (uint32_t i = 0; i < LISTENERS_MAX; i++)
        if (listeners[i].fd == fd)
            return &listeners[i];
    return NULL;
}

static struct client *find_client(int fd)
{
    for (uint32_t i = 0; i < CLIENTS_MAX; i++)
        if (clients[i].fd == fd)
            return &clients[i];
    return NULL;
}

int __wrap_rte_intr_callback_register(const struct rte_intr_handle *handle,
                                      rte_intr_callback_fn function, void *argument)
{
    if (noting && noted == NULL) {
        pthread_mutex_lock(&lock);
        noted = find_listener(0);
        if (noted != NULL)
            *noted = (struct listener){ .fd = rte_intr_fd_get(handle),
                                        .handle = handle,
                                        .function = function,
                                        .argument = argument };
        pthread_mutex_unlock(&lock);
    }
    return __real_rte_intr_callback_register(handle, function, argument);
}

int __wrap_accept(int fd, struct sockaddr *address, socklen_t *length)
{
    int accepted = __real_accept(fd, address, length);

    if (accepted <= 0)
        return accepted;
    pthread_mutex_lock(&lock);
    struct client *client = find_client(0);
    if (client != NULL && find_listener(fd) != NULL)
        *client = (struct client){ .fd = accepted, .listener = fd };
    pthread_mutex_unlock(&lock);
    return accepted;
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    ssize_t sent = __real_sendmsg(fd, message, flags);

    if (sent >= 0 || (errno != EPIPE && errno != ECONNRESET))
        return sent;
    pthread_mutex_lock(&lock);
    bool ours = find_client(fd) != NULL;
    pthread_mutex_unlock(&lock);
    if (!ours)
        return -1;
    sent = 0;
    for (size_t i = 0; i < message->msg_iovlen; i++)
        sent += (ssize_t)message->msg_iov[i].iov_len;
    return sent;
}

int __wrap_close(int fd)
{
    if (fd <= 0)
        return __real_close(fd);
    pthread_mutex_lock(&lock);
    struct client *client = find_client(fd);
    if (client != NULL)
        client->fd = 0;
    int status = __real_close(fd);
    pthread_mutex_unlock(&lock);
    return status;
}

void uro_memif_listen_begin(void)
{
    noted = NULL;
    noting = true;
}

void uro_memif_listen_end(const struct uro_link *link, bool plugged)
{
    noting = false;
    pthread_mutex_lock(&lock);
    struct listener *listener = noted;
    for (uint32_t i = 0; i < LISTENERS_MAX && listener == NULL; i++)
        if (listeners[i].users > 0 && strcmp(listeners[i].path, link->socket) == 0)
            listener = &listeners[i];
    if (listener != NULL && plugged && !link->client) {
        listener->users++;
        snprintf(listener->path, sizeof listener->path, "%s", link->socket);
    } else if (noted != NULL) {
        noted->fd = 0;
    }
    pthread_mutex_unlock(&lock);
}

static void tell(void *fd)
{
    uint64_t one = 1;

    (void)!write((int)(intptr_t)fd, &one, sizeof one);
}

/* Returns when DPDK's interrupt thread has dealt with everything that was ready before. */
static void wait_for_interrupts(void)
{
    int fd = eventfd(0, EFD_CLOEXEC);
    uint64_t count;

    if (fd < 0)
        return;
    /* Twice: the first alarm may be in the batch that the thread has begun already. */
    for (unsigned i = 0; i < 2; i++)
        if (rte_eal_alarm_set(1, tell, (void *)(intptr_t)fd) == 0)
            while (read(fd, &count, sizeof count) < 0) {
            }
    close(fd);
}

void uro_memif_listen_close(const char *path)
{
    struct listener listener = { 0 };

    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < LISTENERS_MAX; i++) {
        if (listeners[i].users > 0 && strcmp(listeners[i].path, path) == 0 &&
            --listeners[i].users == 0) {
            listener = listeners[i];
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    if (listener.fd == 0)
        return;
    rte_intr_callback_unregister_sync(listener.handle, listener.function, listener.argument);
    close(listener.fd);

    pthread_mutex_lock(&lock);
    find_listener(listener.fd)->fd = 0;
    for (uint32_t i = 0; i < CLIENTS_MAX; i++)
        if (clients[i].fd != 0 && clients[i].listener == listener.fd)
            shutdown(clients[i].fd, SHUT_RDWR);
    pthread_mutex_unlock(&lock);
    wait_for_interrupts();
}
