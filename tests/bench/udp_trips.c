/* SPDX-License-Identifier: BSD-3-Clause */
/* udp_trips.c - what the kernel's UDP alone takes to and fro between two programs that never sleep.
 *
 *     udp_trips OCTETS PORT              answers until nothing comes for a second
 *     udp_trips OCTETS PORT HOST TRIPS   asks; prints the median and 99.9 % of half a round trip
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define OCTETS_MAX 65000u
#define SILENCE    1000000000u
#define WARM       1000u

static uint8_t octets[OCTETS_MAX];

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

/* False when nothing comes. */
static bool take(int fd, struct sockaddr_in *from, uint64_t patience)
{
    uint64_t until = now() + patience;
    socklen_t length = sizeof *from;

    while (recvfrom(fd, octets, sizeof octets, MSG_DONTWAIT, (struct sockaddr *)from, &length) < 0)
        if (now() > until)
            return false;
    return true;
}

static void give(int fd, const struct sockaddr_in *to, size_t length)
{
    if (sendto(fd, octets, length, 0, (const struct sockaddr *)to, sizeof *to) < 0)
        die("sendto");
}

static int later(const void *a, const void *b)
{
    uint64_t left, right;

    memcpy(&left, a, sizeof left);
    memcpy(&right, b, sizeof right);
    return left < right ? -1 : left > right;
}

static void ask(int fd, const struct sockaddr_in *peer, size_t length, size_t trips)
{
    uint64_t *took = calloc(trips, sizeof *took);
    struct sockaddr_in from;

    if (took == NULL)
        die("memory");
    for (size_t i = 0; i < trips + WARM; i++) {
        uint64_t begin = now();
        give(fd, peer, length);
        if (!take(fd, &from, SILENCE))
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
        (void)fprintf(stderr, "usage: udp_trips OCTETS PORT [HOST TRIPS]\n");
        return 2;
    }
    size_t length = strtoul(argv[1], NULL, 0) % OCTETS_MAX;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    peer.sin_port = htons((uint16_t)strtoul(argv[2], NULL, 0));
    if (argc == 5) {
        if (inet_pton(AF_INET, argv[3], &peer.sin_addr) != 1)
            die(argv[3]);
        ask(fd, &peer, length, strtoul(argv[4], NULL, 0));
        return 0;
    }
    own.sin_port = peer.sin_port;
    if (bind(fd, (struct sockaddr *)&own, sizeof own) != 0)
        die("bind");
    printf("ready\n");
    (void)fflush(stdout);
    for (bool come = take(fd, &peer, 20ull * SILENCE); come; come = take(fd, &peer, SILENCE))
        give(fd, &peer, length);
    return 0;
}
