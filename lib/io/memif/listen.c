/* SPDX-License-Identifier: BSD-3-Clause */
/* listen.c - the listening sockets of servers, and the begin of the handshake: a server sends HELLO
 * and checks the INIT of a client. control.c does the rest of the handshake. See memif.h. */
#define _GNU_SOURCE /* accept4 */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "io/memif/control.h"
#include "io/memif/memif.h"

#define PENDING_MAX                                                                                \
    16u /* connections that have not sent INIT yet; a further connection replaces the oldest */

#define AGAIN_MS 500 /* interval of attempts to bind a name that another process uses */

struct uro_memif_listener {
    struct uro_memif_listener *next;
    struct uro_memif *users;
    int fd;
    int epoll; /* watches `fd` and `pending` */
    int spare; /* closed when no descriptor is left, so that a refusal can be sent; -1: none */
    int pending[PENDING_MAX];
    uint32_t newest;
    struct sockaddr_un address;
    uint32_t length;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects all listeners */
static struct uro_memif_listener *listeners;

uint32_t uro_memif_address(const struct uro_memif_options *options, struct sockaddr_un *address)
{
    const size_t length = strlen(options->path);

    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path + options->abstract, options->path, length);
    return (uint32_t)(offsetof(struct sockaddr_un, sun_path) + length + 1);
}

/* ---- the socket --------------------------------------------------------- */

/* Returns whether no process listens at the name. A name in the file system remains when its
 * process has ended. */
static bool is_left_over(const struct sockaddr_un *address, uint32_t length)
{
    struct stat status;

    if (address->sun_path[0] == '\0' || lstat(address->sun_path, &status) != 0 ||
        !S_ISSOCK(status.st_mode))
        return false;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool dead = fd >= 0 && connect(fd, (const void *)address, length) != 0 && errno == ECONNREFUSED;
    if (fd >= 0)
        (void)close(fd);
    return dead;
}

static int bind_socket(const struct sockaddr_un *address, uint32_t length)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -1;
    int bound = bind(fd, (const void *)address, length);
    if (bound != 0 && errno == EADDRINUSE && is_left_over(address, length) &&
        unlink(address->sun_path) == 0)
        bound = bind(fd, (const void *)address, length);
    if (bound == 0 && listen(fd, PENDING_MAX) == 0)
        return fd;
    int reason = errno;
    (void)close(fd);
    errno = reason;
    return -1;
}

/* Frees the listener. Its name in the file system remains. */
static void drop_listener(struct uro_memif_listener *listener)
{
    for (uint32_t i = 0; i < PENDING_MAX; i++)
        if (listener->pending[i] >= 0)
            (void)close(listener->pending[i]);
    if (listener->fd >= 0)
        (void)close(listener->fd);
    if (listener->spare >= 0)
        (void)close(listener->spare);
    if (listener->epoll >= 0)
        (void)close(listener->epoll);
    free(listener);
}

static void close_listener(struct uro_memif_listener *listener)
{
    if (listener->fd >= 0 && listener->address.sun_path[0] != '\0')
        (void)unlink(listener->address.sun_path);
    drop_listener(listener);
}

static struct uro_memif_listener *open_listener(const struct sockaddr_un *address, uint32_t length)
{
    struct uro_memif_listener *listener = malloc(sizeof *listener);

    if (listener == NULL)
        return NULL;
    *listener =
        (struct uro_memif_listener){ .fd = -1, .spare = -1, .address = *address, .length = length };
    memset(listener->pending, 0xff, sizeof listener->pending); /* -1 */
    listener->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (listener->epoll >= 0)
        listener->spare = fcntl(listener->epoll, F_DUPFD_CLOEXEC, 0);
    if (listener->spare >= 0)
        listener->fd = bind_socket(address, length);
    if (listener->fd >= 0 && uro_memif_watch(listener->epoll, listener->fd))
        return listener;
    int reason = errno;
    close_listener(listener);
    errno = reason;
    return NULL;
}

static struct uro_memif_listener *find_listener(const struct sockaddr_un *address, uint32_t length)
{
    for (struct uro_memif_listener *entry = listeners; entry != NULL; entry = entry->next)
        if (entry->length == length && memcmp(&entry->address, address, length) == 0)
            return entry;
    return NULL;
}

static void explain(const struct uro_memif_options *options, char error[static URO_PORT_ERROR_MAX])
{
    int reason = errno;

    (void)snprintf(error, URO_PORT_ERROR_MAX, "link net_memif: socket=%s: %s%s", options->path,
                   strerror(reason),
                   reason == EADDRINUSE ? ": another process listens there; end it, choose another "
                                          "socket=, or connect to it with role=client"
                                        : "");
}

/* ---- listeners -------------------------------------------------------------- */

static struct uro_memif *find_user(const struct uro_memif_listener *listener, uint32_t id)
{
    for (struct uro_memif *entry = listener->users; entry != NULL; entry = entry->sibling)
        if (entry->options.id == id)
            return entry;
    return NULL;
}

/* Adds @memif to the listener of its socket name. Creates the listener if there is none. Returns 0,
 * or -1 with a message in @error. Also returns 0 if another process uses the name and @memif may
 * wait for it. Lock held. */
static int join(struct uro_memif *memif, char error[static URO_PORT_ERROR_MAX])
{
    struct sockaddr_un address;
    uint32_t length = uro_memif_address(&memif->options, &address);
    struct uro_memif_listener *listener = find_listener(&address, length);

    if (listener == NULL) {
        listener = open_listener(&address, length);
        if (listener == NULL) {
            const bool taken = errno == EADDRINUSE;
            explain(&memif->options, error);
            return taken && memif->waits ? 0 : -1;
        }
        listener->next = listeners;
        listeners = listener;
    } else if (find_user(listener, memif->options.id) != NULL) {
        (void)snprintf(error, URO_PORT_ERROR_MAX,
                       "link net_memif: socket=%s has an interface with id=%u already; choose a "
                       "different id= or socket=",
                       memif->options.path, memif->options.id);
        return -1;
    }
    memif->listener = listener;
    memif->sibling = listener->users;
    listener->users = memif;
    return 0;
}

int uro_memif_listen(struct uro_memif *memif, char error[static URO_PORT_ERROR_MAX])
{
    memif->called = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (memif->called < 0) {
        explain(&memif->options, error);
        return -1;
    }
    (void)pthread_mutex_lock(&lock);
    int status = join(memif, error);
    (void)pthread_mutex_unlock(&lock);
    return status;
}

bool uro_memif_listen_again(struct uro_memif *memif)
{
    char error[URO_PORT_ERROR_MAX];

    if (memif->listener != NULL)
        return true;
    if (uro_memif_now_ms() - memif->since < AGAIN_MS)
        return false;
    memif->since = uro_memif_now_ms();
    (void)pthread_mutex_lock(&lock);
    (void)join(memif, error);
    (void)pthread_mutex_unlock(&lock);
    return memif->listener != NULL && uro_memif_watch(memif->epoll, uro_memif_listen_fd(memif));
}

void uro_memif_unlisten(struct uro_memif *memif)
{
    struct uro_memif_listener *listener = memif->listener;

    if (listener == NULL)
        return;
    (void)pthread_mutex_lock(&lock);
    struct uro_memif **user = &listener->users;
    while (*user != memif)
        user = &(*user)->sibling;
    *user = memif->sibling;
    if (memif->offered >= 0)
        (void)close(memif->offered);
    memif->offered = -1;
    memif->listener = NULL;
    if (listener->users == NULL) {
        struct uro_memif_listener **entry = &listeners;
        while (*entry != listener)
            entry = &(*entry)->next;
        *entry = listener->next;
        close_listener(listener);
    }
    (void)pthread_mutex_unlock(&lock);
}

/* Closes the inherited sockets in a forked child. Each interface of the process calls this
 * function. The first call drops all listeners. */
void uro_memif_listen_forked(struct uro_memif *memif)
{
    struct uro_memif_listener *listener;

    (void)pthread_mutex_init(&lock, NULL); /* a thread of the parent may have held the lock */
    while ((listener = listeners) != NULL) {
        listeners = listener->next;
        drop_listener(listener);
    }
    memif->listener = NULL;
    if (memif->offered >= 0)
        (void)close(memif->offered);
    memif->offered = -1;
}

int uro_memif_listen_fd(const struct uro_memif *memif)
{
    return memif->listener != NULL ? memif->listener->epoll : -1;
}

/* ---- connections without INIT --------------------------------------------------- */

static void unwatch(struct uro_memif_listener *listener, uint32_t i)
{
    (void)epoll_ctl(listener->epoll, EPOLL_CTL_DEL, listener->pending[i], NULL);
    listener->pending[i] = -1;
}

static const char other_user[] = "only processes of the server's user may connect: see user=";

/* Returns whether any interface accepts a client of the user who connected with @fd. Other clients
 * would only use up the entries for permitted clients. */
static bool is_permitted(const struct uro_memif_listener *listener, int fd)
{
    for (const struct uro_memif *entry = listener->users; entry != NULL; entry = entry->sibling)
        if (uro_memif_is_from(fd, entry->options.user))
            return true;
    return false;
}

static void send_hello(struct uro_memif_listener *listener, int fd)
{
    struct uro_memif_message hello = uro_memif_message(URO_MEMIF_HELLO);

    uro_memif_put_name(&hello, URO_MEMIF_HELLO_NAME);
    uro_memif_put16(&hello, URO_MEMIF_HELLO_MIN_VERSION, URO_MEMIF_VERSION);
    uro_memif_put16(&hello, URO_MEMIF_HELLO_MAX_VERSION, URO_MEMIF_VERSION);
    uro_memif_put16(&hello, URO_MEMIF_HELLO_MAX_REGION, URO_MEMIF_REGIONS - 1);
    uro_memif_put8(&hello, URO_MEMIF_HELLO_MAX_SLOTS_LOG2, URO_MEMIF_SLOTS_LOG2);
    uint32_t i = ++listener->newest % PENDING_MAX;
    int oldest = listener->pending[i];
    if (oldest >= 0) {
        unwatch(listener, i);
        (void)close(oldest);
    }
    if (uro_memif_send_message(fd, &hello, -1) && uro_memif_watch(listener->epoll, fd))
        listener->pending[i] = fd;
    else
        (void)close(fd);
}

/* Refuses a connection when no descriptor is left. A connection that is not accepted would wake
 * this process again and again. */
static void refuse_without_descriptor(struct uro_memif_listener *listener)
{
    if (listener->spare >= 0)
        (void)close(listener->spare);
    int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
        uro_memif_send_disconnect(fd,
                                  "the server has no file descriptor left; raise its `ulimit -n`");
        (void)close(fd);
    }
    listener->spare = fcntl(listener->epoll, F_DUPFD_CLOEXEC, 0);
}

/* Accepts the next connection. Returns its descriptor, or -1. */
static int accept_next(struct uro_memif_listener *listener)
{
    int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0 && (errno == EMFILE || errno == ENFILE))
        refuse_without_descriptor(listener);
    return fd;
}

/* Checks the INIT message. Returns NULL, or the reason to refuse the client. */
static const char *refuse(const struct uro_memif *memif, int fd,
                          const struct uro_memif_message *message)
{
    if (uro_memif_type_of(message) != URO_MEMIF_INIT)
        return "expected INIT first";
    if (uro_memif_get16(message, URO_MEMIF_INIT_VERSION) != URO_MEMIF_VERSION)
        return "this side supports version 2.0 only";
    if (uro_memif_get8(message, URO_MEMIF_INIT_MODE) != URO_MEMIF_ETHERNET)
        return "this side supports Ethernet interfaces only";
    if (memif == NULL)
        return "the server has no interface with this id=";
    if (!uro_memif_is_from(fd, memif->options.user))
        return other_user;
    if (memcmp(message->octets + URO_MEMIF_INIT_SECRET, memif->options.secret, URO_MEMIF_SECRET) !=
        0)
        return "wrong secret=";
    if (memif->taken)
        return "the interface has another peer already";
    return NULL;
}

static void read_init(struct uro_memif_listener *listener, uint32_t i)
{
    struct uro_memif_message message;
    int fd = listener->pending[i];
    enum uro_memif_read_result result = uro_memif_read_message(fd, &message);

    if (result == URO_MEMIF_NOTHING)
        return;
    unwatch(listener, i);
    if (result == URO_MEMIF_GONE) {
        (void)close(fd);
        return;
    }
    struct uro_memif *memif = find_user(listener, uro_memif_get32(&message, URO_MEMIF_INIT_ID));
    const char *reason = refuse(memif, fd, &message);
    if (reason != NULL) {
        uro_memif_send_disconnect(fd, reason);
        (void)close(fd);
        return;
    }
    const uint64_t one = 1;
    memif->taken = true;
    memif->offered = fd;
    (void)!write(memif->called, &one, sizeof one);
}

int uro_memif_accept(struct uro_memif *memif)
{
    struct uro_memif_listener *listener = memif->listener;
    uint64_t calls;
    int fd;

    (void)pthread_mutex_lock(&lock);
    /* The number is limited, so that clients cannot keep this thread in the loop. */
    for (uint32_t i = 0; i < PENDING_MAX; i++) {
        fd = accept_next(listener);
        if (fd < 0)
            break;
        if (is_permitted(listener, fd)) {
            send_hello(listener, fd);
        } else {
            uro_memif_send_disconnect(fd, other_user);
            (void)close(fd);
        }
    }
    for (uint32_t i = 0; i < PENDING_MAX; i++)
        if (listener->pending[i] >= 0)
            read_init(listener, i);
    fd = memif->offered;
    memif->offered = -1;
    if (fd >= 0)
        (void)!read(memif->called, &calls, sizeof calls);
    (void)pthread_mutex_unlock(&lock);
    return fd;
}

void uro_memif_free(struct uro_memif *memif)
{
    (void)pthread_mutex_lock(&lock);
    memif->taken = false;
    (void)pthread_mutex_unlock(&lock);
}
