/* SPDX-License-Identifier: BSD-3-Clause */
/* event_server.c - a server and its clients. Each is one thread that sleeps until an event.
 *
 *     event_server server ADDRESS PORT [tcp|rdma] [wait]
 *     event_server client ADDRESS PORT tcp|rdma CLIENTS BYTES SECONDS [wait]
 *
 * Each side is one thread with an epoll loop. The client opens CLIENTS connections. Each connection
 * has one outstanding request of BYTES bytes, and the server answers with BYTES bytes. With "rdma",
 * the sides use RC connections of rdma_cm, SENDs in both directions, and one CQ and completion
 * channel for all connections. With "wait", both sides block in recv() or ibv_get_cq_event()
 * instead of epoll, and CLIENTS is 1.
 *
 * The server prints "ready" when it listens, and ends when its last connection is closed. Both
 * sides then print one line of JSON. The client prints requests per second, and the median and 99 %
 * of their latency in microseconds. Both print for each request: voluntary context switches of the
 * process, calls that waited for events and returned, and microseconds of processor time.
 *
 * The program uses libibverbs and librdmacm only, so that it runs under `uroce run` and on any RDMA
 * device.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "event_side.h"

static _Noreturn void usage(void)
{
    (void)fprintf(
        stderr, "usage: event_server server ADDRESS PORT [tcp|rdma] [wait]\n"
                "       event_server client ADDRESS PORT tcp|rdma CLIENTS BYTES SECONDS [wait]\n");
    exit(2);
}

static unsigned long number(const char *text, const char *name, unsigned long least,
                            unsigned long most)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    if (*text == '\0' || *end != '\0' || value < least || value > most)
        event_fail("%s is %s: give a number from %lu to %lu", name, text, least, most);
    return value;
}

static bool is_rdma(const char *text)
{
    bool rdma = strcmp(text, "rdma") == 0;

    if (!rdma && strcmp(text, "tcp") != 0)
        event_fail("the transport is %s: give tcp or rdma", text);
    return rdma;
}

static struct event_plan read_plan(int argc, char **argv)
{
    struct event_plan plan = { .rdma = true, .clients = 1 };

    plan.wait = argc > 4 && strcmp(argv[argc - 1], "wait") == 0;
    argc -= plan.wait;
    plan.server = argc >= 4 && argc <= 5 && strcmp(argv[1], "server") == 0;
    if (!plan.server && (argc != 8 || strcmp(argv[1], "client") != 0))
        usage();
    plan.address = argv[2];
    plan.port = argv[3];
    if (argc > 4)
        plan.rdma = is_rdma(argv[4]);
    if (plan.server)
        return plan;
    plan.clients = (unsigned)number(argv[5], "CLIENTS", 1, plan.wait ? 1 : EVENT_CLIENTS_MAX);
    plan.bytes = (uint32_t)number(argv[6], "BYTES", EVENT_BYTES_MIN, EVENT_BYTES_MAX);
    char *end;
    plan.seconds = strtod(argv[7], &end);
    if (*end != '\0' || !(plan.seconds > 0 && plan.seconds <= 3600))
        event_fail("SECONDS is %s: give a number above 0, at most 3600", argv[7]);
    return plan;
}

int main(int argc, char **argv)
{
    const struct event_plan plan = read_plan(argc, argv);
    struct event_meter meter = { 0 };

    if (plan.rdma)
        event_rdma_run(&plan, &meter);
    else
        event_tcp_run(&plan, &meter);
    event_meter_print(&meter, &plan);
    free(meter.each_ns);
    return 0;
}
