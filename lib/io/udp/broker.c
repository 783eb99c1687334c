/* SPDX-License-Identifier: BSD-3-Clause */
/* broker.c - see broker.h. Manages the sockets of a shared address and the processes that use these
 * sockets. Decides which of these processes gets a datagram or an ICMP error. */
#define _GNU_SOURCE /* accept4, struct ucred */
#include "io/udp/broker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <linux/filter.h>

#include "wire/ext.h"

#define BACKLOG   64
#define TRIES     2000u  /* maximum attempts, one in 1 ms, while the previous broker ends */
#define OLD_TRIES 10000u /* maximum attempts, one in 1 ms, while old members close their sockets */
#define HELD_MOST 65536u /* more packets and reports than a socket's buffer holds */

/* ---- sockets ------------------------------------------------------------ */

/* Attaches the filter that chooses the socket of a packet by the prefix in its destination QPN.
 * Packets without a destination QPN, and packets whose prefix has no socket, go to the broker. */
static bool attach_filter(int sock)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, URO_HUB_AT_QPN),
        BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 8 - URO_QPN_PREFIX_BITS),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, URO_QPN_PREFIXES - 1, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_A, 0),
    };
    const struct sock_fprog program = { .len = URO_ARRAY_LEN(code), .filter = code };

    return setsockopt(sock, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program) == 0;
}

void uro_broker_close(struct uro_broker *broker)
{
    for (uint32_t prefix = 0; prefix < URO_QPN_PREFIXES; prefix++) {
        if (broker->socks[prefix] >= 0)
            (void)close(broker->socks[prefix]);
        if (broker->members[prefix].fd >= 0)
            (void)close(broker->members[prefix].fd);
        free(broker->members[prefix].services);
    }
    uro_broker_disconnect_close(broker->disconnect);
    if (broker->listener >= 0)
        (void)close(broker->listener);
    if (broker->spare >= 0)
        (void)close(broker->spare);
    if (broker->claim >= 0)
        (void)close(broker->claim);
    if (broker->lock < 0)
        return;
    (void)unlink(broker->name.sun_path);
    uro_hub_directory_unlock(broker->lock, broker->lock_path);
}

/* Returns whether only sockets of this user have the address, and all of them allow further
 * sockets. */
static bool is_shared(const struct uro_broker *broker)
{
    const int fd = uro_sock_try_bind(&broker->address, true);

    if (fd >= 0)
        (void)close(fd);
    return fd >= 0;
}

/* Waits until the members of a killed broker have closed their sockets. While there are such
 * sockets, the kernel numbers the new sockets after them. The kernel would number the new sockets
 * again when the old sockets are closed, and the filter would choose the wrong socket. A socket
 * without SO_REUSEPORT can be bound only if there is no other socket. On failure returns false with
 * a sentence in @error. */
static bool await_old_socks(const struct uro_broker *broker, char error[static URO_PORT_ERROR_MAX])
{
    const struct timespec nap = { .tv_nsec = 1000000 };
    int fd = uro_sock_try_bind(&broker->address, false);

    for (unsigned i = 0; fd == -EADDRINUSE && i < OLD_TRIES && is_shared(broker); i++) {
        (void)nanosleep(&nap, NULL);
        fd = uro_sock_try_bind(&broker->address, false);
    }
    if (fd < 0) /* calls uro_sock_bind() only for its error message */
        fd = uro_sock_bind(&broker->address, false, error);
    if (fd >= 0)
        (void)close(fd);
    return fd >= 0;
}

/* Opens the sockets of all QPN prefixes. On failure returns false with a sentence in @error. */
static bool open_socks(struct uro_broker *broker, char error[static URO_PORT_ERROR_MAX])
{
    if (!await_old_socks(broker, error))
        return false;
    /* The kernel numbers the sockets in the order of their bind(). The filter must be attached
     * before the second bind(), because without a filter the kernel chooses a socket by a hash. */
    for (uint32_t prefix = 0; prefix <= URO_BROKER_MEMBERS; prefix++) {
        broker->socks[prefix] = uro_sock_bind(&broker->address, true, error);
        if (broker->socks[prefix] < 0)
            return false;
        if (prefix == 0 && !attach_filter(broker->socks[0])) {
            (void)snprintf(
                error, URO_PORT_ERROR_MAX,
                "the kernel refuses the filter that shares a port between processes: %s; write "
                "hub=no in the link to use the address from one process",
                strerror(errno));
            return false;
        }
    }
    return true;
}

/* Binds the socket that shows that the user has a broker of the address. If there were two brokers,
 * the kernel would give half of the packets to each. The name of the socket is not in the file
 * system, so that a process with another directory also finds it. Like the port, the name belongs
 * to the network namespace. A process that needs the name asks the broker that has it to end. A
 * broker without users then ends. */
static bool claim_address(struct uro_broker *broker, char error[static URO_PORT_ERROR_MAX])
{
    const struct timespec nap = { .tv_nsec = 1000000 };
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    char address[URO_GID_TEXT_MAX];
    const int on = 1;

    const int written = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "uroce-hub-%u-%s",
                                 (unsigned)geteuid(), uro_gid_text(&broker->address, address));
    const socklen_t length =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1) + (socklen_t)written;
    broker->claim = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    for (unsigned i = 0; broker->claim >= 0 && i < TRIES; i++) {
        if (bind(broker->claim, (const struct sockaddr *)&name, length) == 0) {
            /* Set only now, because with this option sendto() would bind the socket to another
             * name. */
            return setsockopt(broker->claim, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0;
        }
        if (errno != EADDRINUSE)
            break;
        (void)sendto(broker->claim, "", 1, MSG_DONTWAIT, (const struct sockaddr *)&name, length);
        (void)nanosleep(&nap, NULL);
    }
    (void)snprintf(error, URO_PORT_ERROR_MAX,
                   "another hub of this user has %s, with another XDG_RUNTIME_DIR; use the same "
                   "XDG_RUNTIME_DIR for all programs, or end that hub (pgrep -af 'uroce hub')",
                   address);
    return false;
}

/* Returns whether a process of this user asks the broker to end; see claim_address(). */
static bool asked_to_end(const struct uro_broker *broker)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(struct ucred))];
    } control;
    char byte;
    struct iovec part = { &byte, sizeof byte };
    bool asked = false;

    for (;;) {
        struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
        if (recvmsg(broker->claim, &message, MSG_DONTWAIT) < 0)
            return asked;
        const struct cmsghdr *first = CMSG_FIRSTHDR(&message);
        struct ucred sender;
        if (first == NULL || first->cmsg_type != SCM_CREDENTIALS)
            continue;
        memcpy(&sender, CMSG_DATA(first), sizeof sender);
        if (sender.uid == geteuid())
            asked = true;
    }
}

/* Returns whether the other broker, which has the lock, is running. A running broker accepts this
 * connection, sees that the connection has ended, restarts its idle time, and closes the
 * connection. A broker that is starting or ending refuses or resets the connection. A broker that
 * does not react within the timeout counts as running. */
static bool other_serves(const struct sockaddr_un *name)
{
    const struct timeval patience = { .tv_sec = 2 };
    char octet;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return true;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    bool serves = connect(fd, (const struct sockaddr *)name, sizeof *name) == 0 &&
                  shutdown(fd, SHUT_WR) == 0 && recv(fd, &octet, sizeof octet, 0) == 0;
    int reason = errno;
    (void)close(fd);
    return serves || (reason != ECONNREFUSED && reason != ECONNRESET && reason != ENOENT);
}

/* Takes the lock of the address in @directory. Returns 1 with the lock. Returns 0 if another
 * running broker has the lock. Returns -EWOULDBLOCK if the broker with the lock neither runs nor
 * ends, -ENAMETOOLONG, or another -errno. */
static int lock_there(struct uro_broker *broker, const struct uro_hub_directory *directory)
{
    const struct timespec nap = { .tv_nsec = 1000000 };

    if (!uro_hub_address(directory, &broker->address, &broker->name) ||
        !uro_hub_directory_path(directory, "hub", &broker->address, ".lock", broker->lock_path) ||
        !uro_hub_directory_path(directory, "users", &broker->address, "", broker->users_path))
        return -ENAMETOOLONG;
    for (unsigned i = 0; i < TRIES; i++) {
        broker->lock = uro_hub_directory_lock(broker->lock_path, false);
        if (broker->lock >= 0)
            return 1;
        if (broker->lock != -EWOULDBLOCK)
            return broker->lock;
        if (other_serves(&broker->name))
            return 0;
        (void)nanosleep(&nap, NULL);
    }
    return -EWOULDBLOCK;
}

/* Takes the lock in the first usable directory, unless another broker has the lock in any
 * directory. Returns the result of lock_there(). If no directory is usable, returns the first error
 * that is not -ENOENT, or else -ENOENT. With -EPERM, another user owns *@directory or may write to
 * it. */
static int lock_anywhere(struct uro_broker *broker, struct uro_hub_directory *directory)
{
    int result = -ENOENT;

    for (unsigned number = 0; number < URO_HUB_DIRECTORY_PLACES; number++) {
        if (uro_hub_directory_find(directory, number, false) != 0)
            continue;
        result = lock_there(broker, directory);
        if (result == 0 || result == -EWOULDBLOCK)
            return result;
        if (result == 1)
            uro_hub_directory_unlock(broker->lock, broker->lock_path);
        broker->lock = -1;
    }
    result = -ENOENT;
    for (unsigned number = 0; number < URO_HUB_DIRECTORY_PLACES && result < 0; number++) {
        struct uro_hub_directory directory_path;
        int found = uro_hub_directory_find(&directory_path, number, true);
        if (found == 0)
            uro_hub_directory_sweep(&directory_path);
        if (found == 0)
            found = lock_there(broker, &directory_path);
        if (found == 0 || found == 1 || result == -ENOENT)
            result = found;
        if (found == -EPERM)
            *directory = directory_path;
    }
    return result;
}

/* Writes the reason why no directory can be used. Returns -1. */
static int explain_directory(int reason, const struct uro_hub_directory *directory,
                             char error[static URO_PORT_ERROR_MAX])
{
    if (reason == -EPERM)
        (void)snprintf(error, URO_PORT_ERROR_MAX,
                       "%.100s belongs to another user, or others may write to it; set "
                       "XDG_RUNTIME_DIR to a directory of your own",
                       directory->directory);
    else if (reason == -ENOENT || reason == -ENAMETOOLONG)
        (void)snprintf(error, URO_PORT_ERROR_MAX,
                       "no directory can hold the hub's socket; set XDG_RUNTIME_DIR to a directory "
                       "of your own with a short path");
    else if (reason == -EWOULDBLOCK)
        (void)snprintf(error, URO_PORT_ERROR_MAX,
                       "another hub has this address but does not answer; end it (pgrep -af 'uroce "
                       "hub')");
    else
        (void)snprintf(error, URO_PORT_ERROR_MAX,
                       "the hub cannot write its socket to XDG_RUNTIME_DIR, /run/user/%u, /tmp or "
                       "/var/tmp (%s); set XDG_RUNTIME_DIR to a directory of your own",
                       (unsigned)geteuid(), strerror(-reason));
    return -1;
}

/* Makes the socket where processes request a prefix. Returns the result of uro_broker_open(). */
static int open_listener(struct uro_broker *broker, char error[static URO_PORT_ERROR_MAX])
{
    struct uro_hub_directory directory = { 0 };
    int result = lock_anywhere(broker, &directory);

    if (result == 0)
        return 0;
    if (result < 0)
        return explain_directory(result, &directory, error);
    if (other_serves(&broker->name)) { /* the lock file of a running broker was removed */
        uro_hub_directory_unlock(broker->lock, broker->lock_path);
        broker->lock = -1;
        return 0;
    }
    (void)unlink(broker->name.sun_path); /* socket of a broker that was killed */
    broker->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (broker->listener >= 0 &&
        bind(broker->listener, (const struct sockaddr *)&broker->name, sizeof broker->name) == 0 &&
        listen(broker->listener, BACKLOG) == 0) {
        broker->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
        return 1;
    }
    return explain_directory(-errno, &directory, error);
}

/* Returns whether a program that `uroce run` started is alive. */
static bool has_users(const struct uro_broker *broker)
{
    int fd = uro_hub_directory_lock(broker->users_path, false);

    if (fd < 0)
        return fd == -EWOULDBLOCK;
    uro_hub_directory_unlock(fd, broker->users_path);
    return false;
}

/* ---- members ------------------------------------------------------------ */

static bool same_user(int fd)
{
    struct ucred peer;
    socklen_t length = sizeof peer;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

/* Drops packets and errors that are still queued for the previous member, and resets SO_BUSY_POLL
 * to the value of @untouched, a socket that no member had. */
static void clear(int sock, int untouched)
{
    uint8_t octet;
    int us;
    socklen_t length = sizeof us;

    for (unsigned i = 0; i < HELD_MOST; i++) {
        if (recv(sock, &octet, sizeof octet, MSG_DONTWAIT | MSG_TRUNC) < 0 && errno == EAGAIN)
            break;
        (void)recv(sock, &octet, sizeof octet, MSG_ERRQUEUE | MSG_DONTWAIT);
    }
    if (getsockopt(untouched, SOL_SOCKET, SO_BUSY_POLL, &us, &length) == 0)
        (void)setsockopt(sock, SOL_SOCKET, SO_BUSY_POLL, &us, sizeof us);
}

static uint32_t choose_prefix(const struct uro_broker *broker, uint32_t wanted)
{
    if (wanted != 0)
        return wanted <= URO_BROKER_MEMBERS && broker->members[wanted].fd < 0 ? wanted : 0;
    for (uint32_t prefix = 1; prefix <= URO_BROKER_MEMBERS; prefix++)
        if (broker->members[prefix].fd < 0)
            return prefix;
    return 0;
}

static bool send_reply(int fd, enum uro_hub_kind kind, uint32_t prefix, int sock)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof sock)] = { 0 };
    struct uro_hub_header header = { .version = URO_HUB_VERSION,
                                     .kind = (uint32_t)kind,
                                     .prefix = prefix };
    struct iovec octets = { &header, sizeof header };
    struct msghdr message = { .msg_iov = &octets, .msg_iovlen = 1 };

    if (kind == URO_HUB_WELCOME) {
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        struct cmsghdr *cmsg = CMSG_FIRSTHDR(&message);
        cmsg->cmsg_level = SOL_SOCKET;
        cmsg->cmsg_type = SCM_RIGHTS;
        cmsg->cmsg_len = CMSG_LEN(sizeof sock);
        memcpy(CMSG_DATA(cmsg), &sock, sizeof sock);
    }
    return sendmsg(fd, &message, MSG_NOSIGNAL) == (ssize_t)sizeof header;
}

/* Receives HELLO from a process that has connected. Returns false if HELLO does not come within a
 * second or is not valid. */
static bool read_hello(int fd, struct uro_hub_header *hello)
{
    const struct timeval patience = { .tv_sec = 1 };

    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return same_user(fd) && recv(fd, hello, sizeof *hello, 0) == (ssize_t)sizeof *hello &&
           hello->version == URO_HUB_VERSION && hello->kind == URO_HUB_HELLO;
}

/* Refuses a connection if no file descriptor is left. Otherwise the listener would stay readable.
 * Closes the spare descriptor, so that the connection can be accepted and the refusal can be
 * sent. */
static void refuse_without_descriptor(struct uro_broker *broker)
{
    const struct timespec nap = { .tv_nsec = 50000000 };
    struct uro_hub_header hello;

    if (broker->spare >= 0)
        (void)close(broker->spare);
    int fd = accept4(broker->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        (void)nanosleep(&nap, NULL); /* no descriptor is left in the whole system */
    else if (read_hello(fd, &hello))
        (void)send_reply(fd, URO_HUB_NO_DESCRIPTOR, 0, -1);
    if (fd >= 0)
        (void)close(fd);
    broker->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Accepts a process that requests a prefix. Waits at most a second for its request. */
static void welcome(struct uro_broker *broker)
{
    int fd = accept4(broker->listener, NULL, NULL, SOCK_CLOEXEC);
    struct uro_hub_header hello;

    if (fd < 0 && (errno == EMFILE || errno == ENFILE))
        refuse_without_descriptor(broker);
    if (fd < 0)
        return;
    if (!read_hello(fd, &hello)) {
        (void)close(fd);
        return;
    }
    uint32_t prefix = choose_prefix(broker, hello.prefix);
    if (prefix != 0)
        clear(broker->socks[prefix], broker->socks[0]);
    if (!send_reply(fd, prefix != 0 ? URO_HUB_WELCOME : URO_HUB_FULL, prefix,
                    broker->socks[prefix]) ||
        prefix == 0) {
        (void)close(fd);
        return;
    }
    broker->members[prefix].fd = fd;
    broker->member_count++;
}

/* Removes a process that has disconnected. */
static void dismiss(struct uro_broker *broker, uint32_t prefix)
{
    struct uro_broker_member *member = &broker->members[prefix];

    (void)close(member->fd);
    free(member->services);
    *member = (struct uro_broker_member){ .fd = -1 };
    broker->member_count--;
    uro_broker_disconnect_begin(broker, prefix);
}

/* ---- the member that gets a datagram -------------------------------------- */

#define MAD_AT (URO_BTH_LEN + URO_DETH_LEN)

static bool is_member(const struct uro_broker *broker, uint32_t prefix)
{
    return prefix > 0 && prefix < URO_QPN_PREFIXES && broker->members[prefix].fd >= 0;
}

/* Returns the first member. It gets the datagrams whose receiver is unknown. */
static uint32_t first_member(const struct uro_broker *broker)
{
    for (uint32_t prefix = 1; prefix < URO_QPN_PREFIXES; prefix++)
        if (is_member(broker, prefix))
            return prefix;
    return 0;
}

static uint32_t member_listening(const struct uro_broker *broker, uint64_t service)
{
    for (uint32_t prefix = 1; prefix < URO_QPN_PREFIXES; prefix++)
        for (uint32_t i = 0; is_member(broker, prefix) && i < broker->members[prefix].service_count;
             i++)
            if (broker->members[prefix].services[i].id == service)
                return prefix;
    return first_member(broker);
}

static uint32_t member_with(const struct uro_broker *broker, uint64_t id)
{
    uint32_t prefix = (uint32_t)(id >> (32 - URO_QPN_PREFIX_BITS));

    return is_member(broker, prefix) ? prefix : first_member(broker);
}

uint32_t uro_broker_route(const struct uro_broker *broker, const uint8_t *bth, uint32_t length,
                          struct uro_cm_msg *msg)
{
    msg->kind = URO_CM_KIND_COUNT;
    if (length < URO_BTH_LEN)
        return 0;
    uint32_t prefix = uro_hub_prefix_of(bth);
    if (prefix != 0)
        return is_member(broker, prefix) ? prefix : 0;
    if (uro_get_be24(bth + URO_HUB_AT_QPN) != URO_CM_MAD_QPN || length < MAD_AT + URO_MAD_LEN)
        return 0;
    if (uro_cm_decode(bth + MAD_AT, msg) != URO_CM_OK) {
        msg->kind = URO_CM_KIND_COUNT;
        return first_member(broker);
    }
    switch (msg->kind) {
    case URO_CM_REQ:
    case URO_CM_SIDR_REQ:
        return member_listening(broker, msg->value[URO_CM_SERVICE_ID]);
    case URO_CM_SIDR_REP:
        return member_with(broker, msg->value[URO_CM_REQUEST_ID]);
    case URO_CM_MRA:
    case URO_CM_REJ:
    case URO_CM_REP:
    case URO_CM_RTU:
    case URO_CM_DREQ:
    case URO_CM_DREP:
    case URO_CM_LAP:
    case URO_CM_APR:
    case URO_CM_KIND_COUNT:
        break;
    }
    return member_with(broker, msg->value[URO_CM_REMOTE_ID]);
}

/* ---- ICMP errors ------------------------------------------------------------ */

/* The kernel does not examine the packet that an ICMP message quotes, and reports the error to any
 * of the sockets. So the broker passes the report to every other member. A member ignores reports
 * about destinations that it does not use. */

#define AT_ONCE     64u  /* reports read from one socket in a row */
#define SECOND_MOST 100u /* maximum number of reports in a second, because ICMP is easy to forge */

static bool may_pass(struct uro_broker *broker)
{
    const int64_t now = broker->clock_s();

    if (now != broker->reports_since) {
        broker->reports_since = now;
        broker->reports = 0;
    }
    return broker->reports++ < SECOND_MOST;
}

/* Sends a report to all members but @source. A member whose buffer is full loses the report. */
static void pass_report(struct uro_broker *broker, uint32_t source,
                        const union uro_sock_address *to, const struct uro_hub_report *report)
{
    struct uro_hub_header header = { .version = URO_HUB_VERSION,
                                     .kind = URO_HUB_REPORT,
                                     .from = *to };
    struct uro_hub_report body = *report;
    struct iovec parts[2] = { { &header, sizeof header }, { &body, sizeof body } };
    const struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };

    if (!may_pass(broker))
        return;
    for (uint32_t prefix = 1; prefix <= URO_BROKER_MEMBERS; prefix++)
        if (prefix != source && broker->members[prefix].fd >= 0)
            (void)sendmsg(broker->members[prefix].fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void take_reports(struct uro_broker *broker, uint32_t prefix)
{
    struct uro_sock_report report;
    int error;
    socklen_t length = sizeof error;

    for (uint32_t i = 0; i < AT_ONCE; i++) {
        if (!uro_sock_take_report(broker->socks[prefix], &report)) {
            /* If the queue had no space for a report, only the socket's error is left. This error
             * would wake the broker again and again. */
            (void)getsockopt(broker->socks[prefix], SOL_SOCKET, SO_ERROR, &error, &length);
            return;
        }
        const struct uro_hub_report body = uro_hub_report_of(&report);
        if (report.network)
            pass_report(broker, prefix, &report.to, &body);
    }
}

static void pass_members_report(struct uro_broker *broker, uint32_t prefix,
                                const union uro_sock_address *to, const uint8_t *octets,
                                uint32_t length)
{
    struct uro_hub_report report;

    if (length != sizeof report)
        return;
    memcpy(&report, octets, sizeof report);
    pass_report(broker, prefix, to, &report);
}

/* ---- datagrams ---------------------------------------------------------- */

static uint8_t record[URO_HUB_RECORD];

static void pass(const struct uro_broker *broker, struct uro_hub_header *header, uint32_t length)
{
    struct uro_cm_msg msg;
    uint32_t prefix = uro_broker_route(broker, record, length, &msg);
    struct iovec parts[2] = { { header, sizeof *header }, { record, length } };
    const struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };

    header->version = URO_HUB_VERSION;
    header->kind = URO_HUB_DATAGRAM;
    header->prefix = prefix;
    if (msg.kind != URO_CM_KIND_COUNT) {
        const struct uro_gid peer = uro_sock_gid_of(&header->from);
        uro_broker_disconnect_note(broker->disconnect, prefix, &peer, &msg);
    }
    if (prefix != 0) /* a slow member loses the datagram */
        (void)sendmsg(broker->members[prefix].fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void from_network(const struct uro_broker *broker)
{
    struct uro_hub_header header = { 0 };
    socklen_t length = sizeof header.from;
    ssize_t received = recvfrom(broker->socks[0], record, sizeof record, MSG_DONTWAIT | MSG_TRUNC,
                                &header.from.any, &length);

    if (received > 0 && (size_t)received <= sizeof record)
        pass(broker, &header, (uint32_t)received);
}

static void learn_services(struct uro_broker_member *member, uint32_t octets)
{
    uint32_t count = octets / (uint32_t)sizeof(struct uro_listened);
    struct uro_listened *copy = malloc(octets + 1);

    if (copy == NULL)
        return;
    memcpy(copy, record, octets);
    free(member->services);
    member->services = copy;
    member->service_count = count;
}

static void from_member(struct uro_broker *broker, uint32_t prefix)
{
    struct uro_hub_header header;
    struct iovec parts[2] = { { &header, sizeof header }, { record, sizeof record } };
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
    ssize_t received = recvmsg(broker->members[prefix].fd, &message, MSG_DONTWAIT);

    if (received < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (received < (ssize_t)sizeof header || header.version != URO_HUB_VERSION) {
        dismiss(broker, prefix);
        return;
    }
    uint32_t octets = (uint32_t)received - (uint32_t)sizeof header;
    if (header.kind == URO_HUB_SERVICES)
        learn_services(&broker->members[prefix], octets);
    else if (header.kind == URO_HUB_DATAGRAM)
        pass(broker, &header, octets);
    else if (header.kind == URO_HUB_REPORT)
        pass_members_report(broker, prefix, &header.from, record, octets);
}

/* ---- the loop --------------------------------------------------------------- */

int uro_broker_open(struct uro_broker *broker, const struct uro_gid *address,
                    int64_t (*clock_s)(void), char error[static URO_PORT_ERROR_MAX])
{
    *broker = (struct uro_broker){ .address = *address,
                                   .clock_s = clock_s,
                                   .lock = -1,
                                   .claim = -1,
                                   .listener = -1,
                                   .spare = -1 };
    for (uint32_t prefix = 0; prefix < URO_QPN_PREFIXES; prefix++) {
        broker->socks[prefix] = -1;
        broker->members[prefix].fd = -1;
    }
    broker->disconnect = uro_broker_disconnect_open();
    if (broker->disconnect == NULL) {
        (void)snprintf(error, URO_PORT_ERROR_MAX, "out of memory");
        return -1;
    }
    const int result = open_listener(broker, error);
    if (result == 1 && (!claim_address(broker, error) || !open_socks(broker, error)))
        return -1;
    return result;
}

/* Returns the descriptor to wait for. This is the connection of the member, or the socket if no
 * process has it. */
static struct pollfd look_at(const struct uro_broker *broker, uint32_t prefix)
{
    if (broker->members[prefix].fd >= 0)
        return (struct pollfd){ .fd = broker->members[prefix].fd, .events = POLLIN };
    return (struct pollfd){ .fd = broker->socks[prefix], .events = prefix == 0 ? POLLIN : 0 };
}

static void serve_member(struct uro_broker *broker, uint32_t prefix, short ready)
{
    if (broker->members[prefix].fd >= 0) {
        from_member(broker, prefix);
        return;
    }
    if ((ready & POLLERR) != 0)
        take_reports(broker, prefix);
    if ((ready & POLLIN) != 0)
        from_network(broker);
}

void uro_broker_serve(struct uro_broker *broker, int idle_ms)
{
    enum { LISTENER = URO_BROKER_MEMBERS + 1, CLAIM, COUNT };
    struct pollfd ready[COUNT];

    for (;;) {
        for (uint32_t prefix = 0; prefix <= URO_BROKER_MEMBERS; prefix++)
            ready[prefix] = look_at(broker, prefix);
        ready[LISTENER] = (struct pollfd){ .fd = broker->listener, .events = POLLIN };
        ready[CLAIM] = (struct pollfd){ .fd = broker->claim, .events = POLLIN };
        int wait_ms = uro_broker_disconnect_wait_ms(broker);
        const bool idle = wait_ms < 0 && broker->member_count == 0;
        int found = poll(ready, COUNT, idle ? idle_ms : wait_ms);
        const bool asked = found > 0 && ready[CLAIM].revents != 0 && asked_to_end(broker);
        if (idle && idle_ms >= 0 && (found == 0 || (asked && ready[LISTENER].revents == 0)) &&
            !has_users(broker))
            return;
        uro_broker_disconnect_repeat(broker);
        if (found <= 0)
            continue;
        for (uint32_t prefix = 1; prefix <= URO_BROKER_MEMBERS; prefix++)
            if (ready[prefix].revents != 0)
                serve_member(broker, prefix, ready[prefix].revents);
        if (ready[0].revents != 0)
            serve_member(broker, 0, ready[0].revents);
        if (ready[LISTENER].revents != 0)
            welcome(broker);
    }
}
