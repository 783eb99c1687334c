/* SPDX-License-Identifier: BSD-3-Clause */
/* event_tcp.c - the server and the client of event_server over TCP. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "event_side.h"

#define BATCH 64

struct end {
    int fd;
    bool length_known; /* the length of a message is known */
    bool waits_out;    /* the socket's buffer was full */
    uint32_t bytes;    /* length of a message; at the server, first that of the client's `bytes` */
    uint32_t come, gone, leaving; /* bytes received; bytes sent; bytes to send */
    uint8_t *in, *out;
    uint64_t number; /* number of the last request */
    int64_t sent_ns;
};

struct tcp {
    const struct event_plan *plan;
    struct event_meter *meter;
    int epoll, listener;
    unsigned live; /* open connections; client: connections that still send requests */
    bool met;      /* the first connection was opened */
};

static _Noreturn void die(const struct tcp *tcp, const char *what, const char *todo)
{
    event_fail("%s, %s port %s: %s. %s", what, tcp->plan->address, tcp->plan->port, strerror(errno),
               todo);
}

static struct addrinfo *resolve(const struct tcp *tcp)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found;
    int problem = getaddrinfo(tcp->plan->address, tcp->plan->port, &hints, &found);

    if (problem != 0)
        event_fail("address %s port %s: %s. Give an address and a port number", tcp->plan->address,
                   tcp->plan->port, gai_strerror(problem));
    return found;
}

static void watch(const struct tcp *tcp, int operation, struct end *end)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = end };

    if (end != NULL && end->waits_out)
        event.events |= EPOLLOUT;
    if (epoll_ctl(tcp->epoll, operation, end != NULL ? end->fd : tcp->listener, &event) != 0)
        die(tcp, "epoll_ctl", "Check the limit of open files (ulimit -n)");
}

static struct end *open_end(struct tcp *tcp, int fd)
{
    struct end *end = event_take(sizeof *end);

    end->fd = fd;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int)) != 0)
        die(tcp, "TCP_NODELAY", "This is needed to compare");
    if (!tcp->plan->wait && fcntl(fd, F_SETFL, O_NONBLOCK) != 0)
        die(tcp, "O_NONBLOCK", "This is needed for epoll");
    end->bytes = sizeof end->bytes;
    end->in = event_take(end->bytes);
    if (!tcp->plan->wait)
        watch(tcp, EPOLL_CTL_ADD, end);
    tcp->live++;
    tcp->met = true;
    return end;
}

static void close_end(struct tcp *tcp, struct end *end)
{
    (void)close(end->fd);
    free(end->in);
    free(end->out);
    free(end);
    tcp->live--;
}

static void set_length(struct end *end, uint32_t bytes)
{
    free(end->in);
    end->length_known = true;
    end->bytes = bytes;
    end->in = event_take(bytes);
    end->out = event_take(bytes);
}

/* Sends the rest of the message, as much as the socket buffer takes. Returns false when the peer
 * has gone. */
static bool send_rest(const struct tcp *tcp, struct end *end)
{
    bool waited = end->waits_out;

    end->waits_out = false;
    while (end->gone < end->leaving) {
        ssize_t part = send(end->fd, end->out + end->gone, end->leaving - end->gone, MSG_NOSIGNAL);
        if (part < 0 && (errno == EPIPE || errno == ECONNRESET))
            return false;
        if (part < 0 && errno == EAGAIN) {
            end->waits_out = true;
            break;
        }
        if (part < 0 && errno != EINTR)
            die(tcp, "send", "Run both sides again");
        end->gone += part > 0 ? (uint32_t)part : 0;
    }
    if (end->waits_out != waited)
        watch(tcp, EPOLL_CTL_MOD, end);
    return true;
}

static bool send_message(const struct tcp *tcp, struct end *end)
{
    memcpy(end->out, &end->number, sizeof end->number);
    end->gone = 0;
    end->leaving = end->bytes;
    return send_rest(tcp, end);
}

static _Noreturn void silent(const struct tcp *tcp)
{
    event_fail("no answer for %d s on %u connections: the server hangs", EVENT_SILENCE_MS / 1000,
               tcp->live);
}

enum arrival { PART, WHOLE, CLOSED };

static enum arrival receive(const struct tcp *tcp, struct end *end)
{
    ssize_t part = recv(end->fd, end->in + end->come, end->bytes - end->come, 0);

    if (part == 0 || (part < 0 && errno == ECONNRESET))
        return CLOSED;
    if (part < 0 && errno == EAGAIN && tcp->plan->wait)
        silent(tcp);
    if (part < 0 && errno != EAGAIN && errno != EINTR)
        die(tcp, "recv", "Run both sides again");
    end->come += part > 0 ? (uint32_t)part : 0;
    if (end->come < end->bytes)
        return PART;
    end->come = 0;
    return WHOLE;
}

static void serve(struct tcp *tcp, struct end *end)
{
    if (!send_rest(tcp, end)) {
        close_end(tcp, end);
        return;
    }
    switch (receive(tcp, end)) {
    case PART:
        return;
    case CLOSED:
        event_meter_stop(tcp->meter);
        close_end(tcp, end);
        return;
    case WHOLE:
        break;
    }
    if (!end->length_known) {
        uint32_t bytes;
        memcpy(&bytes, end->in, sizeof bytes);
        bytes = ntohl(bytes);
        if (bytes < EVENT_BYTES_MIN || bytes > EVENT_BYTES_MAX)
            event_fail("a client asks for messages of %u bytes: it is not event_server", bytes);
        set_length(end, bytes);
        return;
    }
    event_meter_served(tcp->meter);
    memcpy(&end->number, end->in, sizeof end->number);
    if (!send_message(tcp, end))
        close_end(tcp, end);
}

static void ask(struct tcp *tcp, struct end *end)
{
    end->number++;
    end->sent_ns = event_now_ns();
    if (!send_message(tcp, end))
        event_fail("the server closed a connection: see its message");
}

static void take_answer(struct tcp *tcp, struct end *end)
{
    uint64_t number;

    (void)send_rest(tcp, end);
    switch (receive(tcp, end)) {
    case PART:
        return;
    case CLOSED:
        event_fail("the server closed a connection: see its message");
    case WHOLE:
        break;
    }
    memcpy(&number, end->in, sizeof number);
    if (number != end->number)
        event_fail("the answer has number %llu, its request has %llu: the peer is not event_server",
                   (unsigned long long)number, (unsigned long long)end->number);
    if (event_meter_answered(tcp->meter, end->sent_ns))
        ask(tcp, end);
    else
        tcp->live--;
}

/* Returns a new connection, or NULL if the client has already closed it. */
static struct end *accept_one(struct tcp *tcp)
{
    int fd = accept(tcp->listener, NULL, NULL);

    if (fd >= 0)
        return open_end(tcp, fd);
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
        die(tcp, "accept", "Check the limit of open files (ulimit -n)");
    return NULL;
}

/* Waits for events once. Only the client has a time limit. */
static void turn(struct tcp *tcp)
{
    struct epoll_event events[BATCH];
    int count = epoll_wait(tcp->epoll, events, BATCH, tcp->plan->server ? -1 : EVENT_SILENCE_MS);

    if (count < 0 && errno != EINTR)
        die(tcp, "epoll_wait", "Run both sides again");
    if (count == 0)
        silent(tcp);
    tcp->meter->waits++;
    for (int i = 0; i < count; i++) {
        struct end *end = events[i].data.ptr;
        if (end == NULL)
            (void)accept_one(tcp);
        else if (tcp->plan->server)
            serve(tcp, end);
        else
            take_answer(tcp, end);
    }
}

static void run_server(struct tcp *tcp)
{
    struct addrinfo *own = resolve(tcp);

    tcp->listener = socket(own->ai_family, SOCK_STREAM, 0);
    if (tcp->listener < 0 ||
        setsockopt(tcp->listener, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int)) != 0 ||
        bind(tcp->listener, own->ai_addr, own->ai_addrlen) != 0 ||
        listen(tcp->listener, EVENT_CLIENTS_MAX) != 0)
        die(tcp, "listen", "Choose an address of this machine and a free port");
    freeaddrinfo(own);
    if (!tcp->plan->wait)
        watch(tcp, EPOLL_CTL_ADD, NULL);
    printf("ready\n");
    (void)fflush(stdout);
    struct end *only = NULL;
    while (tcp->plan->wait && only == NULL)
        only = accept_one(tcp);
    while (!tcp->met || tcp->live > 0) {
        if (tcp->plan->wait) {
            tcp->meter->waits++;
            serve(tcp, only);
        } else
            turn(tcp);
    }
}

static struct end *connect_one(struct tcp *tcp, const struct addrinfo *peer)
{
    uint32_t length = htonl(tcp->plan->bytes);
    int fd = socket(peer->ai_family, SOCK_STREAM, 0);

    if (fd < 0 || connect(fd, peer->ai_addr, peer->ai_addrlen) != 0)
        die(tcp, "connect", "Start the server first; raise ulimit -n for many clients");
    if (send(fd, &length, sizeof length, MSG_NOSIGNAL) != sizeof length)
        die(tcp, "send", "See the message of the server");
    struct timeval limit = { .tv_sec = EVENT_SILENCE_MS / 1000 };
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0)
        die(tcp, "SO_RCVTIMEO", "This is needed to notice a server that hangs");
    struct end *end = open_end(tcp, fd);
    set_length(end, tcp->plan->bytes);
    return end;
}

static void run_client(struct tcp *tcp)
{
    struct addrinfo *peer = resolve(tcp);
    struct end **ends = event_take(tcp->plan->clients * sizeof(struct end *));

    for (unsigned i = 0; i < tcp->plan->clients; i++)
        ends[i] = connect_one(tcp, peer);
    freeaddrinfo(peer);
    event_meter_begin(tcp->meter, tcp->plan->seconds);
    for (unsigned i = 0; i < tcp->plan->clients; i++)
        ask(tcp, ends[i]);
    while (tcp->live > 0) {
        if (!tcp->plan->wait) {
            turn(tcp);
            continue;
        }
        tcp->meter->waits++;
        take_answer(tcp, ends[0]);
    }
    tcp->live = tcp->plan->clients;
    for (unsigned i = 0; i < tcp->plan->clients; i++)
        close_end(tcp, ends[i]);
    free(ends);
}

void event_tcp_run(const struct event_plan *plan, struct event_meter *meter)
{
    struct tcp tcp = { .plan = plan, .meter = meter, .epoll = -1, .listener = -1 };

    tcp.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (tcp.epoll < 0)
        die(&tcp, "epoll_create1", "Check the limit of open files (ulimit -n)");
    if (plan->server)
        run_server(&tcp);
    else
        run_client(&tcp);
    if (tcp.listener >= 0)
        (void)close(tcp.listener);
    (void)close(tcp.epoll);
}
