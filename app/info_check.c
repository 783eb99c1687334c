/* SPDX-License-Identifier: BSD-3-Clause */
/* info_check.c - `uroce info --check`: chooses devices for a kind of links, and starts two
 * processes, or one for a link within a process, that transfer a megabyte. */
#define _GNU_SOURCE /* pipe2, SOCK_CLOEXEC */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/host.h"
#include "info.h"
#include "library.h"
#include "output.h"

#define LIMIT_S  30u /* time limit of a transfer, seconds; a transfer takes milliseconds */
#define SPEC_MAX 512u

/* The devices of the two sides. */
struct plan {
    char devices[2][SPEC_MAX];
    bool alone; /* one process with one device transfers to itself */
};

static void decide(struct uro_info_check *check, enum uro_info_result result, const char *text)
{
    check->result = result;
    (void)snprintf(check->text, sizeof check->text, "%.*s", (int)sizeof check->text - 1, text);
}

/* Puts the first line of @lines into the text, without the name of the program. */
static void decide_failed(struct uro_info_check *check, char *lines)
{
    static const char prefix[] = "uroce: ";
    const bool named = strncmp(lines, prefix, strlen(prefix)) == 0;

    lines[strcspn(lines, "\n")] = '\0';
    decide(check, URO_INFO_FAILED, lines + (named ? strlen(prefix) : 0));
}

/* ---- processes ------------------------------------------------------------------------------- */

/* Starts a side, with stderr at @report. Returns its process. */
static pid_t start(const char *library, const char *devices, int peer, int other, bool sends,
                   int report)
{
    const pid_t child = fork();

    if (child != 0)
        return child;
    (void)close(other);
    (void)dup2(report, STDERR_FILENO);
    (void)setenv("UROCE_DEVICES", devices, 1);
    (void)unsetenv("UROCE_CONFIG");
    (void)alarm(LIMIT_S);
    exit(uro_info_side(library, peer, sends));
}

/* Reads the output of the sides until both have ended. */
static void read_report(int report, char *text, size_t size)
{
    size_t had = 0;
    char rest[256];

    for (;;) {
        const bool fits = had < size - 1;
        const ssize_t got =
            fits ? read(report, text + had, size - 1 - had) : read(report, rest, sizeof rest);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        had += fits ? (size_t)got : 0;
    }
    text[had] = '\0';
}

/* Returns whether the process succeeded. Sets @late if its time limit had passed. */
static bool ended_well(pid_t child, bool *late)
{
    int status = 0;

    if (child <= 0 || waitpid(child, &status, 0) != child)
        return false;
    *late |= WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void run(const char *library, const struct plan *plan, struct uro_info_check *check)
{
    char text[URO_INFO_TEXT_MAX];
    int peers[2], report[2];
    pid_t children[2] = { 0, 0 };
    bool late = false, good = true;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, peers) != 0 ||
        pipe2(report, O_CLOEXEC) != 0) {
        decide(check, URO_INFO_FAILED, strerror(errno));
        return;
    }
    (void)uro_output_flush(); /* so that a child does not write buffered output again */
    const unsigned count = plan->alone ? 1 : 2;
    for (unsigned i = 0; i < count; i++)
        children[i] = start(library, plan->devices[i], plan->alone ? -1 : peers[i], peers[1 - i],
                            i == 1, report[1]);
    (void)close(peers[0]);
    (void)close(peers[1]);
    (void)close(report[1]);
    read_report(report[0], text, sizeof text);
    (void)close(report[0]);
    for (unsigned i = 0; i < count; i++)
        good &= ended_well(children[i], &late);
    if (good)
        decide(check, URO_INFO_OK,
               plan->alone ? "1 MiB between two queue pairs of one device"
                           : "1 MiB between two processes");
    else if (text[0] != '\0')
        decide_failed(check, text);
    else
        decide(check, URO_INFO_FAILED,
               late ? "the transfer did not end within 30 seconds"
                    : "a process ended without a message");
}

/* ---- plans ----------------------------------------------------------------------------------- */

static void plan_two(struct plan *plan, const char *first, const char *second)
{
    (void)snprintf(plan->devices[0], SPEC_MAX, "%s", first);
    (void)snprintf(plan->devices[1], SPEC_MAX, "%s", second);
}

static void plan_udp(struct plan *plan, const struct uro_gid *address)
{
    char text[URO_GID_TEXT_MAX], device[SPEC_MAX];

    (void)snprintf(device, sizeof device, "uroce0:udp,ip=%s;log=none", uro_gid_text(address, text));
    plan_two(plan, device, device);
}

static void plan_memif(struct plan *plan)
{
    for (int i = 0; i < 2; i++)
        (void)snprintf(
            plan->devices[i], SPEC_MAX,
            "uroce0:net_memif0,role=%s,socket=uroce-info-%ld;ip=10.255.31.%d/24;log=none",
            i == 0 ? "server" : "client", (long)getpid(), i + 1);
}

/* Uses the loopback interface with addresses that the kernel does not have. */
static void plan_packet(struct plan *plan)
{
    for (int i = 0; i < 2; i++)
        (void)snprintf(plan->devices[i], SPEC_MAX,
                       "uroce0:net_af_packet0,iface=lo;ip=10.255.32.%d/24;mac=02:00:00:00:20:%02d;"
                       "mtu=1500;memory=8;log=none",
                       i + 1, i + 1);
}

/* Chooses the devices. Returns false, and writes the reason, if the link is not tried. */
static bool choose(const struct uro_port_driver *driver, const struct uro_info_means *means,
                   struct plan *plan, struct uro_info_check *check)
{
    if (strcmp(driver->prefix, "udp") == 0) {
        if (means->udp == NULL) {
            decide(check, URO_INFO_FAILED, means->no_udp);
            return false;
        }
        plan_udp(plan, means->udp);
        return true;
    }
    if (strcmp(driver->prefix, "net_memif") == 0) {
        plan_memif(plan);
        return true;
    }
    if (strcmp(driver->prefix, "net_af_packet") == 0) {
        if (!means->packet_sockets) {
            decide(check, URO_INFO_NOT_TRIED, "needs CAP_NET_RAW");
            return false;
        }
        plan_packet(plan);
        return true;
    }
    if (strcmp(driver->prefix, "net_ring") == 0) {
        struct uro_library dpdk = { .name = "liburoce-dpdk.so",
                                    .in_build = "../lib/io/dpdk",
                                    .any_version = true };
        char error[URO_LIBRARY_ERROR_MAX];
        if (!uro_library_find(&dpdk, error)) {
            decide(check, URO_INFO_NOT_TRIED, "liburoce-dpdk.so is missing: built without DPDK");
            return false;
        }
        plan_two(plan, "uroce0:net_ring0;ip=10.255.33.1/24;log=none", "");
        plan->alone = true;
        return true;
    }
    decide(check, URO_INFO_NOT_TRIED,
           "needs an interface, a card or another program; `uroce devices --probe` opens the links "
           "that you configure");
    return false;
}

void uro_info_check(const struct uro_port_driver *driver, const struct uro_info_means *means,
                    struct uro_info_check *check)
{
    struct uro_library library = { .name = "libibverbs.so.1", .in_build = "../lib/abi" };
    struct plan plan = { .alone = false };
    char error[URO_LIBRARY_ERROR_MAX];

    check->link = driver->prefix;
    if (!choose(driver, means, &plan, check))
        return;
    if (!uro_library_find(&library, error))
        decide(check, URO_INFO_FAILED, error);
    else
        run(library.path, &plan, check);
}
