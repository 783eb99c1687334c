/* SPDX-License-Identifier: BSD-3-Clause */
/* hub.c - `uroce hub`: the broker of an address over UDP that several processes share.
 *
 * It makes the sockets, gives them away and keeps a copy of each, so that their places in the
 * kernel's list stay what the filter says when a process dies. It sees only what comes to queue
 * pair 1, and what the network reports at sockets that nobody has.
 */
#define _GNU_SOURCE /* O_CLOEXEC */
#include "hub.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "app.h"

#define STATUS_USAGE 2
#define GO_ON        (-1)

/* ---- datagrams ---------------------------------------------------------- */

static uint8_t record[URO_HUB_RECORD];

static void pass(const struct hub *hub, struct uro_hub_header *header, uint32_t length)
{
    struct uro_cm_msg msg;
    uint32_t share = hub_route(hub, record, length, &msg);
    struct iovec parts[2] = { { header, sizeof *header }, { record, length } };
    const struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };

    header->version = URO_HUB_VERSION;
    header->kind = URO_HUB_DATAGRAM;
    header->share = share;
    if (msg.kind != URO_CM_KIND_COUNT) {
        const struct uro_gid peer = uro_sock_gid_of(&header->from);
        hub_goodbye_note(hub->goodbye, share, &peer, &msg);
    }
    if (share != 0) /* who is slow loses it, like any datagram */
        (void)sendmsg(hub->members[share].fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void from_network(const struct hub *hub)
{
    struct uro_hub_header header = { 0 };
    socklen_t length = sizeof header.from;
    ssize_t got = recvfrom(hub->socks[0], record, sizeof record, MSG_DONTWAIT | MSG_TRUNC,
                           &header.from.any, &length);

    if (got > 0 && (size_t)got <= sizeof record)
        pass(hub, &header, (uint32_t)got);
}

static void learn_services(struct hub_member *member, uint32_t octets)
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

static void from_member(struct hub *hub, uint32_t share)
{
    struct uro_hub_header header;
    struct iovec parts[2] = { { &header, sizeof header }, { record, sizeof record } };
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
    ssize_t got = recvmsg(hub->members[share].fd, &message, MSG_DONTWAIT);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got < (ssize_t)sizeof header || header.version != URO_HUB_VERSION) {
        hub_dismiss(hub, share);
        return;
    }
    uint32_t octets = (uint32_t)got - (uint32_t)sizeof header;
    if (header.kind == URO_HUB_SERVICES)
        learn_services(&hub->members[share], octets);
    else if (header.kind == URO_HUB_DATAGRAM)
        pass(hub, &header, octets);
    else if (header.kind == URO_HUB_REPORT)
        hub_reports_pass(hub, share, &header.from, record, octets);
}

/* ---- the program -------------------------------------------------------- */

struct options {
    struct uro_gid address;
    bool has_address;
    bool background;
    int idle_ms; /* without members; -1: for ever */
};

/* A member, or of a share that nobody has what the network reports. Share 0 is no member's. */
static struct pollfd look_at(const struct hub *hub, uint32_t share)
{
    if (hub->members[share].fd >= 0)
        return (struct pollfd){ .fd = hub->members[share].fd, .events = POLLIN };
    return (struct pollfd){ .fd = hub->socks[share], .events = share == 0 ? POLLIN : 0 };
}

static void serve_share(struct hub *hub, uint32_t share, short ready)
{
    if (hub->members[share].fd >= 0) {
        from_member(hub, share);
        return;
    }
    if ((ready & POLLERR) != 0)
        hub_reports_take(hub, share);
    if ((ready & POLLIN) != 0)
        from_network(hub);
}

/* Serves until nobody has been a member for as long as the user said, and no program of `uroce run`
 * lives. */
static void serve(struct hub *hub, const struct options *options)
{
    enum { LISTENER = HUB_MEMBERS + 1 };
    struct pollfd ready[LISTENER + 1];

    for (;;) {
        for (uint32_t share = 0; share <= HUB_MEMBERS; share++)
            ready[share] = look_at(hub, share);
        ready[LISTENER] = (struct pollfd){ .fd = hub->listener, .events = POLLIN };
        int wait_ms = hub_goodbye_wait_ms(hub);
        const bool idle = wait_ms < 0 && hub->member_count == 0;
        int found = poll(ready, LISTENER + 1, idle ? options->idle_ms : wait_ms);
        if (found == 0 && idle && !hub_has_users(hub))
            return;
        hub_goodbye_go_on(hub);
        if (found <= 0)
            continue;
        for (uint32_t share = 1; share <= HUB_MEMBERS; share++)
            if (ready[share].revents != 0)
                serve_share(hub, share, ready[share].revents);
        if (ready[0].revents != 0)
            serve_share(hub, 0, ready[0].revents);
        if (ready[LISTENER].revents != 0)
            hub_welcome(hub);
    }
}

static void help(FILE *out)
{
    (void)fprintf(
        out,
        "usage: uroce hub --address ADDRESS [--idle SECONDS] [--background]\n\n"
        "  -a, --address ADDRESS   of this machine, for links over UDP (udp,ip=ADDRESS)\n"
        "  -i, --idle SECONDS      ends when no process has used it for so long, and no program\n"
        "                          lives that `uroce run` started\n"
        "  -b, --background        returns when it is ready\n\n"
        "Lets up to %u processes of one user share the address. `uroce run` starts one\n"
        "when it is needed.\n",
        HUB_MEMBERS);
}

static int refuse(const char *option, const char *value, const char *right)
{
    (void)fprintf(stderr, "uroce hub: %s %s: %s\n", option, value, right);
    return STATUS_USAGE;
}

static int parse(int argc, char **argv, struct options *options)
{
    static const struct option known[] = { { "address", required_argument, NULL, 'a' },
                                           { "idle", required_argument, NULL, 'i' },
                                           { "background", no_argument, NULL, 'b' },
                                           { "help", no_argument, NULL, 'h' },
                                           { NULL, 0, NULL, 0 } };
    int option;

    *options = (struct options){ .idle_ms = -1 };
    while ((option = getopt_long(argc, argv, "a:i:bh", known, NULL)) != -1) {
        char *end = NULL;
        long seconds = option == 'i' ? strtol(optarg, &end, 10) : 0;
        if (option == 'h') {
            help(stdout);
            return 0;
        }
        if (option == '?') {
            help(stderr);
            return STATUS_USAGE;
        }
        if (option == 'a' && !uro_gid_parse(optarg, &options->address))
            return refuse("--address", optarg, "must be an address such as 192.168.1.7");
        if (option == 'i' && (*end != '\0' || seconds < 1 || seconds > 86400))
            return refuse("--idle", optarg, "must be a number of seconds from 1 to 86400");
        options->has_address |= option == 'a';
        options->background |= option == 'b';
        if (option == 'i')
            options->idle_ms = (int)seconds * 1000;
    }
    if (options->has_address && optind == argc)
        return GO_ON;
    help(stderr);
    return STATUS_USAGE;
}

/* Everything is ready. Returns what fork() does; all of the broker is the child's. */
static pid_t go_to_background(void)
{
    pid_t child = fork();

    if (child != 0)
        return child;
    (void)setsid();
    (void)chdir("/");
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd <= 2 && null >= 0; fd++)
        (void)dup2(null, fd);
    return 0;
}

/* It needs a descriptor for each share, each process and a few more. */
static void raise_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* A broker lives longer than who started it: what that one had open must not stay open for so
 * long. */
static void close_inherited(void)
{
    enum { FIRST = 3, MOST = 65536 };

#ifdef SYS_close_range
    if (syscall(SYS_close_range, FIRST, ~0u, 0u) == 0)
        return;
#endif
    for (int fd = FIRST; fd < MOST; fd++) /* before Linux 5.9 */
        (void)close(fd);
}

int uro_app_hub(int argc, char **argv)
{
    struct options options;
    struct hub hub = { .lock = -1, .listener = -1, .spare = -1 };
    int status = parse(argc, argv, &options);

    if (status != GO_ON)
        return status;
    if (options.background)
        close_inherited();
    (void)prctl(PR_SET_NAME, "uroce-hub"); /* what who finds the port taken is told */
    raise_limit();
    hub.address = options.address;
    for (uint32_t share = 0; share < URO_SHARES; share++) {
        hub.socks[share] = -1;
        hub.members[share].fd = -1;
    }
    hub.goodbye = hub_goodbye_open();
    if (hub.goodbye == NULL) {
        (void)fprintf(stderr, "uroce hub: out of memory\n");
        return 1;
    }
    int first = hub_open_listener(&hub);
    if (first == 0 && !options.background)
        (void)fprintf(stderr, "uroce hub: there is one for this address already\n");
    if (first != 1 || !hub_open_socks(&hub)) {
        hub_close(&hub);
        return first == 0 ? 0 : 1;
    }
    pid_t child = options.background ? go_to_background() : 0;
    if (child > 0)
        return 0;
    if (child == 0)
        serve(&hub, &options);
    else
        (void)fprintf(stderr, "uroce hub: fork: %s\n", strerror(errno));
    hub_close(&hub);
    return child == 0 ? 0 : 1;
}
