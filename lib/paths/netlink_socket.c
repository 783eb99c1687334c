/* SPDX-License-Identifier: BSD-3-Clause */
/* netlink_socket.c - see netlink_socket.h.
 *
 * The lock protects all variables except `fd` and `count`, which every call of the program reads
 * without the lock. No answer is made under the lock, because making an answer opens and closes
 * files. Code under the lock sends and closes by direct system calls. The C library's functions
 * would call this library again, and they are cancellation points.
 */
#define _GNU_SOURCE
#include "paths/netlink_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "netlink/source.h"
#include "paths/path_map.h"

#define SOCKETS_MAX 64u
/* A high number, because some programs expect low numbers for their own files. */
#define PEER_FROM 100
#define TYPE_MASK 0xf

/* A descriptor of the program. Copies have entries of their own with the same `is` and `peer`. The
 * pending answers are in the first entry of a socket. */
struct netlink_socket {
    atomic_int fd; /* the program's descriptor, plus 1; 0: the entry is free */
    int peer;      /* the other end */
    struct stat is, peer_is;
    uint32_t port_id; /* 0 until the socket is bound */
    uint8_t *pending; /* answers that are not in the socket yet: `used` bytes from `sent` on */
    size_t sent, used;
};

static struct netlink_socket sockets[SOCKETS_MAX];
static atomic_uint count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pid_t process; /* process that has these sockets */

/* ---- forks ----------------------------------------------------------------------- */

static void before_fork(void)
{
    (void)pthread_mutex_lock(&lock);
}

static void after_fork_in_parent(void)
{
    (void)pthread_mutex_unlock(&lock);
}

/* Both processes have the socket, like any socket after a fork. Answers in memory remain the
 * parent's. */
static void after_fork_in_child(void)
{
    process = getpid();
    for (size_t i = 0; i < SOCKETS_MAX; i++) {
        free(sockets[i].pending);
        sockets[i].pending = NULL;
        sockets[i].sent = sockets[i].used = 0;
    }
    (void)pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
    (void)pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

/* ---- the table --------------------------------------------------------------------- */

static bool is_same(int fd, const struct stat *wanted)
{
    struct stat is;

    return fstat(fd, &is) == 0 && is.st_dev == wanted->st_dev && is.st_ino == wanted->st_ino;
}

/* Returns the first entry of the same socket. The lock is held. */
static struct netlink_socket *first_of(const struct stat *is)
{
    for (size_t i = 0; i < SOCKETS_MAX; i++)
        if (atomic_load(&sockets[i].fd) != 0 && sockets[i].is.st_dev == is->st_dev &&
            sockets[i].is.st_ino == is->st_ino)
            return &sockets[i];
    return NULL;
}

static void release(struct netlink_socket *socket)
{
    atomic_store(&socket->fd, 0);
    (void)atomic_fetch_sub(&count, 1);
    struct netlink_socket *copy = first_of(&socket->is);
    if (copy != NULL && socket->pending != NULL) {
        copy->pending = socket->pending;
        copy->sent = socket->sent;
        copy->used = socket->used;
    } else if (copy == NULL) {
        if (is_same(socket->peer, &socket->peer_is))
            (void)syscall(SYS_close, socket->peer);
        free(socket->pending);
    }
    socket->pending = NULL;
    socket->sent = socket->used = 0;
}

/* Returns the entry of @fd, or NULL. The lock is held. Always returns NULL in a child of vfork(),
 * which shares our memory: a descriptor that the child closes remains open in the parent. */
static struct netlink_socket *find(int fd)
{
    for (size_t i = 0; i < SOCKETS_MAX; i++) {
        struct netlink_socket *socket = &sockets[i];
        if (atomic_load_explicit(&socket->fd, memory_order_relaxed) != fd + 1)
            continue;
        if (process != getpid())
            return NULL;
        if (is_same(fd, &socket->is))
            return socket;
        release(socket);
    }
    return NULL;
}

/* Returns the first entry of the socket that @fd is, or NULL. The lock is held. */
static struct netlink_socket *find_first(int fd)
{
    const struct netlink_socket *socket = find(fd);

    return socket != NULL ? first_of(&socket->is) : NULL;
}

bool uro_netlink_socket_is(int fd)
{
    bool maybe = false;

    if (atomic_load_explicit(&count, memory_order_relaxed) == 0 || fd < 0)
        return false;
    for (size_t i = 0; i < SOCKETS_MAX; i++)
        maybe |= atomic_load_explicit(&sockets[i].fd, memory_order_relaxed) == fd + 1;
    if (!maybe)
        return false;
    const int before = errno;
    (void)pthread_mutex_lock(&lock);
    const bool found = find(fd) != NULL;
    (void)pthread_mutex_unlock(&lock);
    errno = before;
    return found;
}

void uro_netlink_socket_forget(int fd)
{
    const int before = errno;

    (void)pthread_mutex_lock(&lock);
    struct netlink_socket *socket = find(fd);
    if (socket != NULL)
        release(socket);
    (void)pthread_mutex_unlock(&lock);
    errno = before;
}

bool uro_netlink_socket_wanted(int domain, int type, int protocol)
{
    const int kind = type & TYPE_MASK;

    return domain == AF_NETLINK && protocol == NETLINK_RDMA &&
           (kind == SOCK_RAW || kind == SOCK_DGRAM) && uro_paths_trusted_tree() != NULL;
}

/* Adds a socket pair to the table. Returns false if there is no free entry. */
static bool enter(const int pair[static 2])
{
    bool entered = false;

    (void)pthread_mutex_lock(&lock);
    process = getpid();
    (void)find(pair[0]); /* removes an old entry with this number, whose descriptor was closed */
    for (size_t i = 0; i < SOCKETS_MAX && !entered; i++) {
        struct netlink_socket *socket = &sockets[i];
        if (atomic_load(&socket->fd) != 0)
            continue;
        entered = fstat(pair[0], &socket->is) == 0 && fstat(pair[1], &socket->peer_is) == 0;
        socket->peer = pair[1];
        socket->port_id = 0;
        if (entered) {
            atomic_store(&socket->fd, pair[0] + 1);
            (void)atomic_fetch_add(&count, 1);
        }
    }
    (void)pthread_mutex_unlock(&lock);
    return entered;
}

/* Adds a copy of the socket to the table. Returns false if there is no free entry. The lock is
 * held. */
static bool enter_copy(const struct netlink_socket *original, int copy)
{
    if (find(copy) != NULL)
        return true; /* dup2() to itself, or to another copy */
    for (size_t i = 0; i < SOCKETS_MAX; i++) {
        if (atomic_load(&sockets[i].fd) != 0)
            continue;
        sockets[i].peer = original->peer;
        sockets[i].is = original->is;
        sockets[i].peer_is = original->peer_is;
        sockets[i].port_id = original->port_id;
        atomic_store(&sockets[i].fd, copy + 1);
        (void)atomic_fetch_add(&count, 1);
        return true;
    }
    return false;
}

int uro_netlink_socket_copy(int fd, int copy)
{
    bool entered = true;
    const int before = errno;

    if (copy < 0 || !uro_netlink_socket_is(fd))
        return copy;
    (void)pthread_mutex_lock(&lock);
    const struct netlink_socket *original = find_first(fd);
    if (original != NULL)
        entered = enter_copy(original, copy);
    (void)pthread_mutex_unlock(&lock);
    errno = before;
    if (entered)
        return copy;
    (void)syscall(SYS_close, copy);
    errno = EMFILE;
    return -1;
}

int uro_netlink_socket_make(int type)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int pair[2];

    (void)pthread_once(&once, watch_forks);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | (type & ~TYPE_MASK), 0, pair) != 0)
        return -1;
    const int high = fcntl(pair[1], F_DUPFD_CLOEXEC, PEER_FROM);
    if (high >= 0) {
        (void)close(pair[1]);
        pair[1] = high;
    }
    if (enter(pair))
        return pair[0];
    (void)close(pair[0]);
    (void)close(pair[1]);
    errno = EMFILE;
    return -1;
}

/* ---- addresses --------------------------------------------------------------------- */

/* Returns a port id that no other socket of the process has: its process id, if that is free. */
static uint32_t choose_port_id(void)
{
    uint32_t wanted = (uint32_t)getpid();

    for (size_t i = 0; i < SOCKETS_MAX; i++)
        if (atomic_load(&sockets[i].fd) != 0 && sockets[i].port_id == wanted) {
            wanted = UINT32_MAX - (uint32_t)getpid() * SOCKETS_MAX - (uint32_t)i;
            i = (size_t)-1;
        }
    return wanted;
}

static void write_address(uint32_t port_id, struct sockaddr *address, socklen_t *length)
{
    struct sockaddr_nl name = { .nl_family = AF_NETLINK, .nl_pid = port_id };

    memcpy(address, &name, *length < sizeof name ? *length : sizeof name);
    *length = sizeof name;
}

int uro_netlink_socket_bind(int fd, const struct sockaddr *address, socklen_t length)
{
    struct sockaddr_nl name;
    struct netlink_socket *socket;

    if (address == NULL || length < sizeof name) {
        errno = EINVAL;
        return -1;
    }
    memcpy(&name, address, sizeof name);
    if (name.nl_family != AF_NETLINK || name.nl_groups != 0) {
        /* There are no multicast notifications. */
        errno = name.nl_family != AF_NETLINK ? EINVAL : EOPNOTSUPP;
        return -1;
    }
    (void)pthread_mutex_lock(&lock);
    socket = find_first(fd);
    if (socket != NULL && socket->port_id == 0)
        socket->port_id = name.nl_pid != 0 ? name.nl_pid : choose_port_id();
    (void)pthread_mutex_unlock(&lock);
    return 0;
}

int uro_netlink_socket_name(int fd, struct sockaddr *address, socklen_t *length)
{
    if (address == NULL || length == NULL) {
        errno = EFAULT;
        return -1;
    }
    (void)pthread_mutex_lock(&lock);
    const struct netlink_socket *socket = find_first(fd);
    write_address(socket != NULL ? socket->port_id : 0, address, length);
    (void)pthread_mutex_unlock(&lock);
    return 0;
}

void uro_netlink_socket_sender(struct sockaddr *address, socklen_t *length)
{
    write_address(0, address, length);
}

/* ---- answers ------------------------------------------------------------------------ */

/* Sends pending messages, each as one datagram, until the socket is full. The lock is held. */
static void fill(struct netlink_socket *socket)
{
    while (socket->sent < socket->used) {
        struct nlmsghdr header;
        memcpy(&header, socket->pending + socket->sent, sizeof header);
        /* syscall() takes arguments of the size of a long. */
        if (syscall(SYS_sendto, socket->peer, socket->pending + socket->sent,
                    (size_t)header.nlmsg_len, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0L) < 0)
            return;
        socket->sent += NLMSG_ALIGN(header.nlmsg_len);
    }
    free(socket->pending);
    socket->pending = NULL;
    socket->sent = socket->used = 0;
}

void uro_netlink_socket_fill(int fd)
{
    const int before = errno;

    (void)pthread_mutex_lock(&lock);
    struct netlink_socket *socket = find_first(fd);
    if (socket != NULL)
        fill(socket);
    (void)pthread_mutex_unlock(&lock);
    errno = before;
}

/* Adds messages to those pending. Returns false when out of memory. The lock is held. */
static bool queue(struct netlink_socket *socket, const struct uro_netlink_list *messages)
{
    const size_t waiting = socket->used - socket->sent;

    if (messages->failed)
        return false;
    if (messages->used == 0)
        return true;
    uint8_t *all = malloc(waiting + messages->used);
    if (all == NULL)
        return false;
    if (waiting > 0)
        memcpy(all, socket->pending + socket->sent, waiting);
    memcpy(all + waiting, messages->bytes, messages->used);
    free(socket->pending);
    socket->pending = all;
    socket->sent = 0;
    socket->used = waiting + messages->used;
    return true;
}

static void print_hint(char *hint)
{
    const struct iovec parts[] = { { hint, strlen(hint) }, { (char[]){ "\n" }, 1 } };

    if (hint[0] != '\0')
        (void)!writev(STDERR_FILENO, parts, 2);
}

static uint32_t bound_port_id(int fd)
{
    uint32_t port_id = 0;

    (void)pthread_mutex_lock(&lock);
    struct netlink_socket *socket = find_first(fd);
    if (socket != NULL && socket->port_id == 0)
        socket->port_id = choose_port_id();
    if (socket != NULL)
        port_id = socket->port_id;
    (void)pthread_mutex_unlock(&lock);
    return port_id;
}

/* Answers a request. Returns 0, or a positive errno value. */
static int answer(int fd, const uint8_t *bytes, size_t length)
{
    const char *tree = uro_paths_trusted_tree();
    const bool objects = uro_nldev_needs_objects(bytes, length);
    struct uro_nldev_view *view = tree == NULL ? NULL : uro_nldev_read(tree, objects);
    struct uro_nldev_answer answer = { 0 };
    bool queued = false;

    if (view == NULL)
        return tree == NULL ? ECONNREFUSED : ENOBUFS;
    uro_nldev_answer(view, bytes, length, bound_port_id(fd), &answer);
    uro_nldev_free(view);
    print_hint(answer.hint);
    (void)pthread_mutex_lock(&lock);
    struct netlink_socket *socket = find_first(fd);
    if (socket != NULL) {
        queued = queue(socket, &answer.messages);
        fill(socket);
    }
    (void)pthread_mutex_unlock(&lock);
    free(answer.messages.bytes);
    return queued ? 0 : ENOBUFS;
}

ssize_t uro_netlink_socket_send(int fd, const uint8_t *bytes, size_t length)
{
    const int before = errno;
    int state;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    const int error = answer(fd, bytes, length);
    (void)pthread_setcancelstate(state, NULL);
    errno = error != 0 ? error : before;
    return error != 0 ? -1 : (ssize_t)length;
}
