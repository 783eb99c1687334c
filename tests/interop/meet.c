/* SPDX-License-Identifier: BSD-3-Clause */
/* meet.c - connects the two ends of a test, and opens their devices. */
#include "meet.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

_Noreturn void meet_die(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    printf("FAILED: ");
    vprintf(format, args);
    printf("\n");
    va_end(args);
    exit(1);
}

/* ---- TCP ---- */

static int listen_and_accept(uint16_t port)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port) };
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0), peer;

    if (listener < 0)
        meet_die("socket: %s", strerror(errno));
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) != 0 || listen(listener, 1) != 0)
        meet_die("port %u: %s", port, strerror(errno));
    peer = accept(listener, NULL, NULL);
    if (peer < 0)
        meet_die("accept: %s", strerror(errno));
    close(listener);
    return peer;
}

void meet_must(int result, const char *what)
{
    if (result != 0)
        meet_die("%s: %s", what, strerror(errno));
}

struct addrinfo *meet_address(const char *host, uint16_t port)
{
    struct addrinfo hints = { .ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM }, *found;
    char service[8];

    (void)snprintf(service, sizeof service, "%u", port);
    if (getaddrinfo(host, service, &hints, &found) != 0)
        meet_die("no address: %s", host);
    return found;
}

static int call(const char *host, uint16_t port)
{
    struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM }, *found;
    char service[8];
    int peer;

    snprintf(service, sizeof service, "%u", port);
    if (getaddrinfo(host, service, &hints, &found) != 0)
        meet_die("no address: %s", host);
    peer = socket(AF_INET, SOCK_STREAM, 0);
    if (peer < 0 || connect(peer, found->ai_addr, found->ai_addrlen) != 0)
        meet_die("%s port %u: %s", host, port, strerror(errno));
    freeaddrinfo(found);
    return peer;
}

void meet_send(int peer, const void *data, size_t length)
{
    if (send(peer, data, length, MSG_NOSIGNAL) != (ssize_t)length)
        meet_die("the other end is gone: %s", strerror(errno));
}

void meet_receive(int peer, void *data, size_t length)
{
    ssize_t got = recv(peer, data, length, MSG_WAITALL);

    if (got != (ssize_t)length)
        meet_die("the other end is gone%s%s", got < 0 ? ": " : "", got < 0 ? strerror(errno) : "");
}

bool meet_is_there(int peer)
{
    char word;

    ssize_t got = recv(peer, &word, 1, MSG_PEEK | MSG_DONTWAIT);

    return got > 0 || (got < 0 && errno == EAGAIN);
}

int meet_peer(const char *host, uint16_t port)
{
    return host != NULL ? call(host, port) : listen_and_accept(port);
}

void meet_barrier(int peer)
{
    char word = 'r';

    meet_send(peer, &word, 1);
    meet_receive(peer, &word, 1);
}

struct ibv_context *meet_open_device(const char *name)
{
    struct ibv_context *context = NULL;
    int count;
    struct ibv_device **list = ibv_get_device_list(&count);

    for (int i = 0; list != NULL && i < count; i++) {
        if (name != NULL && strcmp(name, ibv_get_device_name(list[i])) != 0)
            continue;
        context = ibv_open_device(list[i]);
        if (context == NULL)
            meet_die("cannot open %s", ibv_get_device_name(list[i]));
        break;
    }
    if (context == NULL)
        meet_die("no device %s", name != NULL ? name : "at all");
    ibv_free_device_list(list);
    return context;
}

enum ibv_mtu meet_mtu(uint32_t octets)
{
    for (uint32_t code = IBV_MTU_256; code <= IBV_MTU_4096; code++)
        if (octets == 128u << code)
            return (enum ibv_mtu)code;
    meet_die("no IB MTU: %u", octets);
}

uint32_t meet_number(const char *text, uint32_t most)
{
    char *end;
    unsigned long value = strtoul(text, &end, 0);

    if (*text == '\0' || *end != '\0' || value > most)
        meet_die("not a number up to %u: %s", most, text);
    return (uint32_t)value;
}

bool meet_option(struct meet_options *options, int option, const char *value)
{
    switch (option) {
    case 'p':
        options->port = (uint16_t)meet_number(value, 65535);
        return true;
    case 'd':
        options->device = value;
        return true;
    case 'x':
        options->gid_index = (uint8_t)meet_number(value, 255);
        return true;
    case 'm':
        options->mtu = meet_number(value, 4096);
        return true;
    default:
        return false;
    }
}
