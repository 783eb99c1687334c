/* SPDX-License-Identifier: BSD-3-Clause */
/* meet.h - connects the two ends of a test, and opens their devices. */
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Options of both ends of verify and services, from the command line. */
struct meet_options {
    const char *host;   /* the argument after the options; NULL: this end listens */
    const char *device; /* -d; NULL: the first device */
    uint16_t port;      /* -p, TCP port at which the ends connect */
    uint8_t gid_index;  /* -x */
    uint32_t mtu;       /* -m, IB path MTU */
};

#define MEET_OPTIONS "p:d:x:m:" /* option letters for getopt() */
#define MEET_DEFAULTS                                                                              \
    {                                                                                              \
        .port = 18515, .gid_index = 1, .mtu = 1024                                                 \
    }

/* Parses @option of getopt() with @value. Returns false if the option is not one of
 * MEET_OPTIONS. */
bool meet_option(struct meet_options *options, int option, const char *value);

/* Prints @format and ends the program with status 1. */
_Noreturn void meet_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* If @result is not 0, prints @what with the text of errno and ends the program with status 1. */
void meet_must(int result, const char *what);

struct addrinfo;
/* Parses the address @host. Free the result with freeaddrinfo(). */
struct addrinfo *meet_address(const char *host, uint16_t port);

/* Returns a TCP connection to @host. When @host is NULL, waits for a peer at @port. */
int meet_peer(const char *host, uint16_t port);
void meet_send(int peer, const void *data, size_t length);
void meet_receive(int peer, void *data, size_t length);
/* Returns whether the other end's process still has the connection open. */
bool meet_is_there(int peer);
/* Returns when both ends have called this function. */
void meet_barrier(int peer);

/* Opens the device with that name, or the first device when @name is NULL. */
struct ibv_context *meet_open_device(const char *name);

enum ibv_mtu meet_mtu(uint32_t octets);

/* Parses a number on the command line, 0 to @most. */
uint32_t meet_number(const char *text, uint32_t most);
