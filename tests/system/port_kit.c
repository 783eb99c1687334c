/* SPDX-License-Identifier: BSD-3-Clause */
/* port_kit.c - opens ports of the plug-ins and sends frames whose contents can be verified. */
#define _GNU_SOURCE
#include "system/port_kit.h"
#include "support/patience.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ETHER_TYPE_HIGH 0x88 /* of 0x88b5, the type for local experiments */
#define ETHER_TYPE_LOW  0xb5
#define HEAD            22u
#define NOBODY          65534u

static void die(const char *what)
{
    printf("Bail out! %s\n", what);
    fflush(stdout);
    _exit(1);
}

static uro_port_open_fn *load(const char *variable, const char *otherwise)
{
    const char *path = getenv(variable);
    void *library = dlopen(path != NULL ? path : otherwise, RTLD_NOW | RTLD_LOCAL);
    uro_port_open_fn *open_port;

    if (library == NULL)
        die(dlerror());
    *(void **)&open_port = dlsym(library, URO_PORT_OPEN_SYMBOL); /* only in liburoce-dpdk.so */
    if (open_port != NULL)
        return open_port;
    const struct uro_port_plugin *described = dlsym(library, URO_PORT_PLUGIN_SYMBOL);
    if (described == NULL)
        die(dlerror());
    return described->drivers[0].open;
}

static uro_port_open_fn *plugin(const char *link)
{
    static uro_port_open_fn *dpdk, *memif, *packet;

    if (strncmp(link, "net_memif", strlen("net_memif")) == 0) {
        if (memif == NULL)
            memif = load("UROCE_MEMIF_PLUGIN", "liburoce-memif.so");
        return memif;
    }
    if (strncmp(link, "net_af_packet", strlen("net_af_packet")) == 0) {
        if (packet == NULL)
            packet = load("UROCE_PACKET_PLUGIN", "liburoce-packet.so");
        return packet;
    }
    if (dpdk == NULL)
        dpdk = load("UROCE_DPDK_PLUGIN", "liburoce-dpdk.so");
    return dpdk;
}

struct uro_port *kit_try_open(const struct uro_port_config *config,
                              char error[static URO_PORT_ERROR_MAX])
{
    return plugin(config->link)(config, error);
}

struct uro_port *kit_open(const char *link, uint32_t mtu)
{
    char error[URO_PORT_ERROR_MAX];
    struct uro_port_config config = {
        .device = "kit", .link = link, .mtu = mtu, .verbose = getenv("UROCE_TEST_VERBOSE") != NULL
    };
    struct uro_port *port = kit_try_open(&config, error);

    if (port == NULL)
        die(error);
    return port;
}

static uint8_t octet(uint32_t sequence, uint32_t at)
{
    return (uint8_t)(sequence * 31 + at * 7 + (at >> 8));
}

static void put32(uint8_t *at, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (24 - 8 * i));
}

static uint32_t get32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

void kit_send(struct uro_port *port, uint32_t sequence, uint32_t length)
{
    static _Thread_local uint8_t body[KIT_FRAME_MAX];
    static const uint8_t ether[14] = {
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02, 0, 0, 0, 0, 1, ETHER_TYPE_HIGH, ETHER_TYPE_LOW
    };
    struct uro_tx tx = { .head_length = HEAD,
                         .payload_length = length - HEAD,
                         .span_count = 1,
                         .spans = { { body, length - HEAD } } };

    URO_ASSERT(length >= KIT_FRAME_MIN && length <= KIT_FRAME_MAX);
    memcpy(tx.head, ether, sizeof ether);
    put32(tx.head + 14, sequence);
    put32(tx.head + 18, length);
    for (uint32_t i = HEAD; i < length; i++)
        body[i - HEAD] = octet(sequence, i);
    while (uro_port_tx_free_count(port) == 0)
        sched_yield();
    uro_port_transmit(port, &tx, 1);
    uro_port_tx_free_count(port);
}

static bool ours(const struct uro_pkt *pkt)
{
    return pkt->length >= HEAD && pkt->octets[12] == ETHER_TYPE_HIGH &&
           pkt->octets[13] == ETHER_TYPE_LOW;
}

static void check(const struct uro_pkt *pkt)
{
    uint32_t sequence = get32(pkt->octets + 14);

    if (get32(pkt->octets + 18) != pkt->length)
        die("a frame has another length than it was sent with");
    for (uint32_t i = HEAD; i < pkt->length; i++)
        if (pkt->octets[i] != octet(sequence, i))
            die("a frame has other octets than it was sent with");
}

static time_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec;
}

static uint32_t take(struct uro_port *port, uint32_t *sequence)
{
    struct uro_pkt pkt;
    uint32_t length = 0;

    while (length == 0 && uro_port_receive(port, &pkt, 1) == 1) {
        if (ours(&pkt)) {
            check(&pkt);
            length = pkt.length;
            *sequence = get32(pkt.octets + 14);
        }
        uro_port_release(port, &pkt, 1);
    }
    return length;
}

uint32_t kit_receive(struct uro_port *port, uint32_t *sequence, unsigned seconds)
{
    time_t end = now() + (time_t)patience(seconds) + 1;
    uint32_t length;

    while ((length = take(port, sequence)) == 0 && now() < end) {
        uro_port_tx_free_count(port);
        sched_yield();
    }
    return length;
}

void kit_meet(struct uro_port *port)
{
    static uint32_t token = 0x80000000;
    time_t end = now() + 30;
    uint32_t sequence = 0;

    /* Echoes arrive in order, so the echo of the last frame is the last echo. */
    do {
        if (now() > end)
            die("the peer does not answer");
        kit_send(port, ++token, KIT_FRAME_MIN);
        while (kit_receive(port, &sequence, 0) != 0 && sequence != token) {
        }
    } while (sequence != token);
}

bool kit_can_wait(struct uro_port *port)
{
    int fds[URO_PORT_FDS_MAX];

    return uro_port_wait_fds(port, fds) > 0;
}

bool kit_wait(struct uro_port *port, unsigned seconds)
{
    int fds[URO_PORT_FDS_MAX];
    struct pollfd waits[URO_PORT_FDS_MAX];
    const uint32_t count = uro_port_wait_fds(port, fds);

    for (uint32_t i = 0; i < count; i++)
        waits[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
    return poll(waits, count, (int)patience(seconds) * 1000) > 0;
}

uint32_t kit_sleep_receive(struct uro_port *port, uint32_t *sequence, unsigned seconds,
                           uint32_t *slept)
{
    uint32_t length;

    while ((length = take(port, sequence)) == 0) {
        if (uro_port_arm(port)) {
            (*slept)++;
            if (!kit_wait(port, seconds))
                return 0;
        }
        uro_port_disarm(port);
    }
    return length;
}

bool kit_wait_link(struct uro_port *port, bool up, unsigned seconds)
{
    time_t end = now() + (time_t)patience(seconds) + 1;
    struct uro_pkt pkt;

    while (uro_port_link_up(port) != up) {
        if (now() >= end)
            return false;
        if (uro_port_receive(port, &pkt, 1) == 1)
            uro_port_release(port, &pkt, 1);
        sched_yield();
    }
    return true;
}

_Noreturn void kit_skip(const char *why)
{
    printf("1..0 # SKIP %s\n", why);
    fflush(stdout);
    fprintf(stderr, "SKIPPED: %s\n", why);
    exit(0);
}

bool kit_try(int netns, const char *command)
{
    int status;

    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        if (netns >= 0 && setns(netns, CLONE_NEWNET) != 0)
            _exit(126);
        dup2(STDERR_FILENO, STDOUT_FILENO);
        execl("/bin/sh", "sh", "-c", command, NULL);
        _exit(127);
    }
    return waitpid(pid, &status, 0) == pid && status == 0;
}

void kit_run(int netns, const char *format, ...)
{
    char command[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    if (!kit_try(netns, command))
        die(command);
}

void kit_own_netns(void)
{
    if (geteuid() != 0 || unshare(CLONE_NEWNET) != 0)
        kit_skip("needs root, for network namespaces");
    kit_run(-1, "ip link set lo up");
}

int kit_veth(uint32_t mtu)
{
    kit_own_netns();
    int other = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

    kit_own_netns();
    kit_run(-1, "ip link add va mtu %u type veth peer name vb mtu %u netns /proc/%ld/fd/%d", mtu,
            mtu, (long)getpid(), other);
    kit_run(-1, "ip link set va up");
    kit_run(other, "ip link set vb up");
    return other;
}

void kit_become_plain(const char *link)
{
    plugin(link); /* loads it now, because the ordinary user may not be able to read its folder */
    if (geteuid() != 0)
        return;
    if (setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0)
        die("cannot become an ordinary user");
    unsetenv("XDG_RUNTIME_DIR");
}

static pid_t start_echo(const char *link, uint32_t mtu, bool plain, int netns, const char *how)
{
    char text[16];
    pid_t parent = getpid();
    const char *program = getenv("UROCE_PORT_ECHO");

    fflush(stdout);
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    if (netns >= 0 && setns(netns, CLONE_NEWNET) != 0)
        die("cannot enter the network namespace");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    snprintf(text, sizeof text, "%u", mtu);
    execl(program, program, link, text, plain ? "plain" : "as-is", how, NULL);
    die("cannot start the echo program (UROCE_PORT_ECHO)");
    return -1;
}

pid_t kit_echo(const char *link, uint32_t mtu, bool plain, int netns)
{
    return start_echo(link, mtu, plain, netns, "awake");
}

pid_t kit_echo_asleep(const char *link, uint32_t mtu, bool plain, int netns)
{
    return start_echo(link, mtu, plain, netns, "asleep");
}

void kit_kill(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}
