/* SPDX-License-Identifier: BSD-3-Clause */
/* udp_trips.c - measures the round trip of the kernel's UDP alone, between two busy-polling
 * programs.
 *
 *     udp_trips LENGTH PORT              the server; waits up to 20 s for the first message, and
 *                                        ends when no message has come for a second
 *     udp_trips LENGTH PORT HOST TRIPS   the client; prints median and 99.9 % of half a round trip
 *
 * LENGTH is the length of the payload in bytes. If LENGTH is A+B, one call sends two packets, which
 * the kernel segments. With A+B, the receiver also requests the header fields that RoCE needs.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define BYTES_MAX 65000u
#define SILENCE   1000000000u
/* Names from <linux/udp.h>. */
#define UDP_OPTION_SEGMENT 103
#define UDP_OPTION_GRO     104
#define WARM               1000u

static uint8_t octets[BYTES_MAX];

struct length {
    size_t whole;
    uint16_t first; /* 0: the whole length is one packet */
};

static uint64_t now(void)
{
    struct timespec at;

    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

static _Noreturn void die(const char *what)
{
    (void)fprintf(stderr, "udp_trips: %s: %s\n", what, strerror(errno));
    exit(1);
}

static ssize_t try_take(int fd, struct sockaddr_in *from, bool with_control)
{
    _Alignas(struct cmsghdr) char control[128];
    struct iovec all = { octets, sizeof octets };
    struct msghdr message = { .msg_name = from,
                              .msg_namelen = sizeof *from,
                              .msg_iov = &all,
                              .msg_iovlen = 1,
                              .msg_control = with_control ? control : NULL,
                              .msg_controllen = with_control ? sizeof control : 0 };

    return recvmsg(fd, &message, MSG_DONTWAIT);
}

/* Receives a message. Returns false when nothing arrives. */
static bool take(int fd, struct sockaddr_in *from, const struct length *length, uint64_t patience)
{
    uint64_t until = now() + patience;

    for (size_t come = 0;
         come < length->whole;) { /* the kernel may deliver the two packets separately */
        ssize_t part = try_take(fd, from, length->first > 0);
        if (part > 0)
            come += (size_t)part;
        else if (now() > until)
            return false;
    }
    return true;
}

static void give(int fd, struct sockaddr_in *to, const struct length *length)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof length->first)] = { 0 };
    struct iovec all = { octets, length->whole };
    struct msghdr message = {
        .msg_name = to, .msg_namelen = sizeof *to, .msg_iov = &all, .msg_iovlen = 1
    };

    if (length->first > 0) {
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        struct cmsghdr *segment = CMSG_FIRSTHDR(&message);
        segment->cmsg_level = IPPROTO_UDP;
        segment->cmsg_type = UDP_OPTION_SEGMENT;
        segment->cmsg_len = CMSG_LEN(sizeof length->first);
        memcpy(CMSG_DATA(segment), &length->first, sizeof length->first);
    }
    if (sendmsg(fd, &message, 0) < 0)
        die("sendmsg");
}

static void ask_for(int fd, int level, int option)
{
    if (setsockopt(fd, level, option, &(int){ 1 }, sizeof(int)) != 0)
        die("setsockopt");
}

/* Opens a socket. For two packets, sets the options for receiving of lib/io/udp/sock.c. */
static int open_socket(const struct length *length)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    if (fd < 0)
        die("socket");
    if (length->first > 0) {
        ask_for(fd, IPPROTO_IP, IP_RECVTOS);
        ask_for(fd, IPPROTO_IP, IP_RECVTTL);
        ask_for(fd, IPPROTO_IP, IP_RECVERR);
        ask_for(fd, IPPROTO_UDP, UDP_OPTION_GRO);
    }
    return fd;
}

static struct length read_length(const char *text)
{
    char *end;
    size_t first = strtoul(text, &end, 0) % BYTES_MAX;

    if (*end != '+')
        return (struct length){ .whole = first };
    return (struct length){ .whole = (first + strtoul(end + 1, NULL, 0)) % BYTES_MAX,
                            .first = (uint16_t)first };
}

static int later(const void *a, const void *b)
{
    uint64_t left, right;

    memcpy(&left, a, sizeof left);
    memcpy(&right, b, sizeof right);
    return left < right ? -1 : left > right;
}

static void ask(int fd, struct sockaddr_in *peer, const struct length *length, size_t trips)
{
    uint64_t *took = calloc(trips, sizeof *took);
    struct sockaddr_in from;

    if (took == NULL)
        die("memory");
    for (size_t i = 0; i < trips + WARM; i++) {
        uint64_t begin = now();
        give(fd, peer, length);
        if (!take(fd, &from, length, SILENCE))
            die("no answer");
        if (i >= WARM)
            took[i - WARM] = now() - begin;
    }
    qsort(took, trips, sizeof *took, later);
    printf("{\"median_us\": %.3f, \"p999_us\": %.3f}\n", (double)took[trips / 2] / 2000,
           (double)took[trips - 1 - trips / 1000] / 2000);
    free(took);
}

int main(int argc, char **argv)
{
    struct sockaddr_in own = { .sin_family = AF_INET }, peer = { .sin_family = AF_INET };

    if (argc != 3 && argc != 5) {
        (void)fprintf(stderr, "usage: udp_trips LENGTH PORT [HOST TRIPS]\n");
        return 2;
    }
    const struct length length = read_length(argv[1]);
    int fd = open_socket(&length);
    peer.sin_port = htons((uint16_t)strtoul(argv[2], NULL, 0));
    if (argc == 5) {
        if (inet_pton(AF_INET, argv[3], &peer.sin_addr) != 1)
            die(argv[3]);
        ask(fd, &peer, &length, strtoul(argv[4], NULL, 0));
        return 0;
    }
    own.sin_port = peer.sin_port;
    if (bind(fd, (struct sockaddr *)&own, sizeof own) != 0)
        die("bind");
    printf("ready\n");
    (void)fflush(stdout);
    for (bool come = take(fd, &peer, &length, 20ull * SILENCE); come;
         come = take(fd, &peer, &length, SILENCE))
        give(fd, &peer, &length);
    return 0;
}
