/* SPDX-License-Identifier: BSD-3-Clause */
/* hub_members.c - the sockets of a shared address, and who has them. */
#define _GNU_SOURCE /* accept4, struct ucred */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <linux/filter.h>

#include "hub.h"

#define BACKLOG   64
#define TRIES     2000u  /* of a millisecond: that another one takes to go */
#define HELD_MOST 65536u /* packets and reports that a socket's buffer has room for */

/* ---- sockets ------------------------------------------------------------ */

/* Which of the sockets a packet is for: the share in its destination QPN; what has none, or one
 * that is nobody's, is ours. */
static bool attach_filter(int sock)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, URO_HUB_AT_QPN),
        BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 8 - URO_SHARE_BITS),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, URO_SHARES - 1, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_A, 0),
    };
    const struct sock_fprog program = { .len = URO_ARRAY_LEN(code), .filter = code };

    return setsockopt(sock, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program) == 0;
}

void hub_close(struct hub *hub)
{
    for (uint32_t share = 0; share < URO_SHARES; share++) {
        if (hub->socks[share] >= 0)
            (void)close(hub->socks[share]);
        if (hub->members[share].fd >= 0)
            (void)close(hub->members[share].fd);
        free(hub->members[share].services);
    }
    hub_goodbye_close(hub->goodbye);
    if (hub->listener >= 0)
        (void)close(hub->listener);
    if (hub->spare >= 0)
        (void)close(hub->spare);
    if (hub->lock < 0)
        return;
    (void)unlink(hub->name.sun_path);
    uro_meet_unlock(hub->lock, hub->lock_path);
}

bool hub_open_socks(struct hub *hub)
{
    char error[URO_PORT_ERROR_MAX];

    /* Their order is the kernel's index. The filter must be there before the second one, or
     * strangers' packets are spread by chance. */
    for (uint32_t share = 0; share <= HUB_MEMBERS; share++) {
        hub->socks[share] = uro_sock_bind(&hub->address, true, error);
        if (hub->socks[share] < 0) {
            (void)fprintf(stderr, "uroce hub: %s\n", error);
            return false;
        }
        if (share == 0 && !attach_filter(hub->socks[0])) {
            (void)fprintf(stderr, "uroce hub: this kernel cannot share a port by a filter: %s\n",
                          strerror(errno));
            return false;
        }
    }
    return true;
}

/* Another broker has the lock. One that serves finds this connection ended already, counts its idle
 * seconds anew, and ends the connection; one that is going, or not yet there, refuses or resets it.
 * One that says nothing for long has the address, still. */
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
    int why = errno;
    (void)close(fd);
    return serves || (why != ECONNREFUSED && why != ECONNRESET && why != ENOENT);
}

/* Takes the lock of the address in that directory. Returns 1 with the lock, 0 when another broker
 * has it and serves, or -errno: -ENAMETOOLONG, -EWOULDBLOCK when the other one neither serves nor
 * goes. */
static int lock_there(struct hub *hub, const struct uro_meet *meet)
{
    const struct timespec nap = { .tv_nsec = 1000000 };

    if (!uro_hub_address(meet, &hub->address, &hub->name) ||
        !uro_meet_path(meet, "hub", &hub->address, ".lock", hub->lock_path) ||
        !uro_meet_path(meet, "users", &hub->address, "", hub->users_path))
        return -ENAMETOOLONG;
    for (unsigned i = 0; i < TRIES; i++) {
        hub->lock = uro_meet_lock(hub->lock_path, false);
        if (hub->lock >= 0)
            return 1;
        if (hub->lock != -EWOULDBLOCK)
            return hub->lock;
        if (other_serves(&hub->name))
            return 0;
        (void)nanosleep(&nap, NULL);
    }
    return -EWOULDBLOCK;
}

/* Takes the lock in the first place there is, unless another broker has it in any of them. Returns
 * as lock_there(); -ENOENT: there is no place; -EPERM: nor that, and somebody else has @meet. */
static int lock_anywhere(struct hub *hub, struct uro_meet *meet)
{
    int result = -ENOENT;

    for (unsigned number = 0; number < URO_MEET_PLACES; number++) {
        if (uro_meet_find(meet, number, false) != 0)
            continue;
        result = lock_there(hub, meet);
        if (result == 0 || result == -EWOULDBLOCK)
            return result;
        if (result == 1)
            uro_meet_unlock(hub->lock, hub->lock_path);
        hub->lock = -1;
    }
    result = -ENOENT;
    for (unsigned number = 0; number < URO_MEET_PLACES && result < 0; number++) {
        struct uro_meet place;
        int found = uro_meet_find(&place, number, true);
        if (found == 0)
            uro_meet_sweep(&place);
        if (found == 0)
            found = lock_there(hub, &place);
        if (found == 0 || found == 1 || result == -ENOENT)
            result = found;
        if (found == -EPERM)
            *meet = place;
    }
    return result;
}

static int complain_of_place(int why, const struct uro_meet *meet)
{
    if (why == -EPERM)
        (void)fprintf(stderr,
                      "uroce hub: %s belongs to another user, or others may write to it: set "
                      "XDG_RUNTIME_DIR to a directory of your own\n",
                      meet->directory);
    else if (why == -ENOENT || why == -ENAMETOOLONG)
        (void)fprintf(stderr,
                      "uroce hub: there is no directory for its socket: set XDG_RUNTIME_DIR "
                      "to one of your own, with a short name\n");
    else if (why == -EWOULDBLOCK)
        (void)fprintf(stderr, "uroce hub: another one of this address neither serves nor ends\n");
    else
        (void)fprintf(stderr, "uroce hub: %s\n", strerror(-why));
    return -1;
}

int hub_open_listener(struct hub *hub)
{
    struct uro_meet meet = { 0 };
    int result = lock_anywhere(hub, &meet);

    if (result == 0)
        return 0;
    if (result < 0)
        return complain_of_place(result, &meet);
    if (other_serves(&hub->name)) { /* though somebody removed the file of its lock */
        uro_meet_unlock(hub->lock, hub->lock_path);
        hub->lock = -1;
        return 0;
    }
    (void)unlink(hub->name.sun_path); /* of one that was killed */
    hub->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (hub->listener >= 0 &&
        bind(hub->listener, (const struct sockaddr *)&hub->name, sizeof hub->name) == 0 &&
        listen(hub->listener, BACKLOG) == 0) {
        hub->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
        return 1;
    }
    return complain_of_place(-errno, &meet);
}

bool hub_has_users(const struct hub *hub)
{
    int fd = uro_meet_lock(hub->users_path, false);

    if (fd < 0)
        return fd == -EWOULDBLOCK;
    uro_meet_unlock(fd, hub->users_path);
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

static uint32_t choose_share(const struct hub *hub, uint32_t wanted)
{
    if (wanted != 0)
        return wanted <= HUB_MEMBERS && hub->members[wanted].fd < 0 ? wanted : 0;
    for (uint32_t share = 1; share <= HUB_MEMBERS; share++)
        if (hub->members[share].fd < 0)
            return share;
    return 0;
}

static bool answer(int fd, enum uro_hub_kind kind, uint32_t share, int sock)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof sock)] = { 0 };
    struct uro_hub_header header = { .version = URO_HUB_VERSION,
                                     .kind = (uint32_t)kind,
                                     .share = share };
    struct iovec octets = { &header, sizeof header };
    struct msghdr message = { .msg_iov = &octets, .msg_iovlen = 1 };

    if (kind == URO_HUB_WELCOME) {
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        struct cmsghdr *at = CMSG_FIRSTHDR(&message);
        at->cmsg_level = SOL_SOCKET;
        at->cmsg_type = SCM_RIGHTS;
        at->cmsg_len = CMSG_LEN(sizeof sock);
        memcpy(CMSG_DATA(at), &sock, sizeof sock);
    }
    return sendmsg(fd, &message, MSG_NOSIGNAL) == (ssize_t)sizeof header;
}

/* A process that has connected says HELLO at once; one that does not is sent away. */
static bool hear_hello(int fd, struct uro_hub_header *hello)
{
    const struct timeval patience = { .tv_sec = 1 };

    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return same_user(fd) && recv(fd, hello, sizeof *hello, 0) == (ssize_t)sizeof *hello &&
           hello->version == URO_HUB_VERSION && hello->kind == URO_HUB_HELLO;
}

/* No descriptor is left for who asks. The listener would stay readable, so the spare one is used to
 * tell him. */
static void send_away(struct hub *hub)
{
    const struct timespec nap = { .tv_nsec = 50000000 };
    struct uro_hub_header hello;

    if (hub->spare >= 0)
        (void)close(hub->spare);
    int fd = accept4(hub->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        (void)nanosleep(&nap, NULL); /* the whole system has none */
    else if (hear_hello(fd, &hello))
        (void)answer(fd, URO_HUB_NO_DESCRIPTOR, 0, -1);
    if (fd >= 0)
        (void)close(fd);
    hub->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

void hub_welcome(struct hub *hub)
{
    int fd = accept4(hub->listener, NULL, NULL, SOCK_CLOEXEC);
    struct uro_hub_header hello;

    if (fd < 0 && (errno == EMFILE || errno == ENFILE))
        send_away(hub);
    if (fd < 0)
        return;
    if (!hear_hello(fd, &hello)) {
        (void)close(fd);
        return;
    }
    uint32_t share = choose_share(hub, hello.share);
    if (share != 0)
        clear(hub->socks[share], hub->socks[0]);
    if (!answer(fd, share != 0 ? URO_HUB_WELCOME : URO_HUB_FULL, share, hub->socks[share]) ||
        share == 0) {
        (void)close(fd);
        return;
    }
    hub->members[share].fd = fd;
    hub->member_count++;
}

void hub_dismiss(struct hub *hub, uint32_t share)
{
    struct hub_member *member = &hub->members[share];

    (void)close(member->fd);
    free(member->services);
    *member = (struct hub_member){ .fd = -1 };
    hub->member_count--;
    hub_goodbye_say(hub, share);
}
