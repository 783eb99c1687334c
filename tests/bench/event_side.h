/* SPDX-License-Identifier: BSD-3-Clause */
/* event_side.h - the arguments and the measurements of event_server, for both transports. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

#define EVENT_CLIENTS_MAX 1000u
#define EVENT_BYTES_MIN   8u /* a message begins with its number */
#define EVENT_BYTES_MAX   1048576u
#define EVENT_SILENCE_MS  10000 /* time after which an answer is reported as lost, ms */

struct event_plan {
    bool server;
    bool rdma;
    bool wait; /* block in one call instead of epoll_wait; one connection */
    const char *address, *port;
    /* Client: */
    unsigned clients;
    uint32_t bytes; /* length of a request, and of an answer */
    double seconds;
};

/* Counts the requests of the measured time, and what they cost. */
struct event_meter {
    bool running, stopped;
    uint64_t requests;
    uint64_t waits; /* calls that waited for events and returned */
    struct rusage used;
    int64_t began_ns, took_ns;
    /* Client: */
    int64_t warm_ns, end_ns; /* times at which measuring begins and ends */
    uint32_t *each_ns;       /* latency of each request */
    uint64_t room;
};

/* Prints the message and ends the program. */
_Noreturn void event_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Returns zeroed memory; without memory the program ends. */
void *event_take(uint64_t size);

int64_t event_now_ns(void);

/* Client: sets the measured time, which begins after a tenth of @seconds. */
void event_meter_begin(struct event_meter *meter, double seconds);

/* Client: counts the answer to a request sent at @sent_ns. Returns whether another request follows.
 */
bool event_meter_answered(struct event_meter *meter, int64_t sent_ns);

/* Server: counts a request. */
void event_meter_served(struct event_meter *meter);

/* Ends the measured time. Later calls do nothing. */
void event_meter_stop(struct event_meter *meter);

/* Prints one line of JSON. */
void event_meter_print(struct event_meter *meter, const struct event_plan *plan);

/* These functions run one side until the last connection is closed. */
void event_tcp_run(const struct event_plan *plan, struct event_meter *meter);
void event_rdma_run(const struct event_plan *plan, struct event_meter *meter);
