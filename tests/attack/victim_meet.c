/* SPDX-License-Identifier: BSD-3-Clause */
/* victim_meet.c - sets up the connections of a victim by rdma_cm. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <string.h>

#include "support/patience.h"
#include "victim.h"

#define PER_QUEUE  8u
#define RNR_ALWAYS 7
#define HALF_OPEN                                                                                  \
    64u /* accepted connections without a later event; a further connection replaces the oldest */
#define ACK_TIMEOUT 18 /* one second, so that no requester gives up before the attack ends */

static struct rdma_event_channel *channel;
static struct addrinfo *peer_address;

void victim_meet(const char *own, const char *peer, uint16_t port, int backlog)
{
    struct rdma_cm_id *listener;

    channel = rdma_create_event_channel();
    if (channel == NULL)
        meet_die("rdma_create_event_channel: %s", strerror(errno));
    if (own == NULL) {
        peer_address = meet_address(peer, port);
        return;
    }
    struct addrinfo *at = meet_address(own, port);
    meet_must(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP), "rdma_create_id");
    meet_must(rdma_bind_addr(listener, at->ai_addr), "rdma_bind_addr");
    meet_must(rdma_listen(listener, backlog), "rdma_listen");
    freeaddrinfo(at);
}

struct ibv_cq *victim_queue_pair(struct rdma_cm_id *id)
{
    struct ibv_pd *pd = victim_domain(id->verbs);
    struct ibv_cq *cq = ibv_create_cq(id->verbs, 4 * PER_QUEUE, NULL, NULL, 0);

    if (cq == NULL)
        meet_die("ibv_create_cq: %s", strerror(errno));
    struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
                                     .send_cq = cq,
                                     .recv_cq = cq,
                                     .cap = { .max_send_wr = PER_QUEUE,
                                              .max_recv_wr = PER_QUEUE,
                                              .max_send_sge = 1,
                                              .max_recv_sge = 1 } };
    meet_must(rdma_create_qp(id, pd, &init), "rdma_create_qp");
    return cq;
}

/* Returns the next event of @only or, if it is NULL, the next connection request. Discards other
 * events. */
static enum rdma_cm_event_type next(struct rdma_cm_id **id, const struct rdma_cm_id *only)
{
    struct pollfd readable = { .fd = channel->fd, .events = POLLIN };
    struct rdma_cm_event *event;

    for (;;) {
        if (poll(&readable, 1, (int)patience(VICTIM_WAIT_MS)) != 1)
            meet_die("no event");
        meet_must(rdma_get_cm_event(channel, &event), "rdma_get_cm_event");
        enum rdma_cm_event_type kind = event->event;
        *id = event->id;
        meet_must(rdma_ack_cm_event(event), "rdma_ack_cm_event");
        if (only != NULL ? *id == only : kind == RDMA_CM_EVENT_CONNECT_REQUEST)
            return kind;
    }
}

static struct rdma_conn_param param(void)
{
    return (struct rdma_conn_param){ .responder_resources = 4,
                                     .initiator_depth = 4,
                                     .retry_count = 7,
                                     .rnr_retry_count = RNR_ALWAYS };
}

struct link *victim_connect(const char **why)
{
    static const enum rdma_cm_event_type steps[] = { RDMA_CM_EVENT_ADDR_RESOLVED,
                                                     RDMA_CM_EVENT_ROUTE_RESOLVED,
                                                     RDMA_CM_EVENT_ESTABLISHED };
    struct rdma_conn_param wanted = param();
    uint8_t ack_timeout = ACK_TIMEOUT;
    struct rdma_cm_id *id, *same;
    struct link *link = NULL;

    meet_must(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
    meet_must(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &ack_timeout,
                              sizeof ack_timeout),
              "rdma_set_option");
    meet_must(rdma_resolve_addr(id, NULL, peer_address->ai_addr, VICTIM_WAIT_MS),
              "rdma_resolve_addr");
    for (unsigned i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        enum rdma_cm_event_type kind = next(&same, id);
        if (kind != steps[i]) {
            *why = rdma_event_str(kind);
            return NULL;
        }
        if (i == 0) {
            meet_must(rdma_resolve_route(id, VICTIM_WAIT_MS), "rdma_resolve_route");
        } else if (i == 1) {
            link = victim_link(id);
            meet_must(rdma_connect(id, &wanted), "rdma_connect");
        }
    }
    return link;
}

struct link *victim_accept(void)
{
    struct rdma_conn_param offered = param();
    struct rdma_cm_id *id, *same;

    (void)next(&id, NULL);
    struct link *link = victim_link(id);
    meet_must(rdma_accept(id, &offered), "rdma_accept");
    enum rdma_cm_event_type kind = next(&same, id);
    if (kind != RDMA_CM_EVENT_ESTABLISHED)
        meet_die("accepted: %s", rdma_event_str(kind));
    return link;
}

const char *victim_left(const struct rdma_cm_id *id)
{
    struct pollfd readable = { .fd = channel->fd, .events = POLLIN };
    const char *what = "stays";
    struct rdma_cm_event *event;

    while (poll(&readable, 1, 0) == 1) {
        meet_must(rdma_get_cm_event(channel, &event), "rdma_get_cm_event");
        if (event->id == id)
            what = rdma_event_str(event->event);
        meet_must(rdma_ack_cm_event(event), "rdma_ack_cm_event");
    }
    return what;
}

/* ---- new connections
 * --------------------------------------------------------------------------- */

/* Destroys a connection. The context of the identifier is its completion queue. */
static void end(struct rdma_cm_id *id)
{
    struct ibv_cq *cq = id->context;

    rdma_destroy_qp(id);
    meet_must(rdma_destroy_id(id), "rdma_destroy_id");
    meet_must(ibv_destroy_cq(cq), "ibv_destroy_cq");
}

struct waiting {
    struct rdma_cm_id *ids[HALF_OPEN];
    unsigned count;
};

static void no_longer_waits(struct waiting *waiting, const struct rdma_cm_id *id)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < waiting->count; i++)
        if (waiting->ids[i] != id)
            waiting->ids[kept++] = waiting->ids[i];
    waiting->count = kept;
}

static void welcome(struct waiting *waiting, struct rdma_cm_id *id)
{
    struct rdma_conn_param offered = param();

    if (waiting->count == HALF_OPEN) {
        struct rdma_cm_id *oldest = waiting->ids[0];
        no_longer_waits(waiting, oldest);
        end(oldest);
    }
    id->context = victim_queue_pair(id);
    victim_post(id);
    if (rdma_accept(id, &offered) != 0) { /* the peer has withdrawn the request */
        end(id);
        return;
    }
    waiting->ids[waiting->count++] = id;
}

void victim_serve(int control, FILE *out)
{
    struct pollfd readable[] = { { .fd = channel->fd, .events = POLLIN },
                                 { .fd = control, .events = POLLIN } };
    struct waiting waiting = { .count = 0 };
    struct rdma_cm_event *event;
    unsigned came = 0, in = 0;

    (void)fprintf(out, "serving\n");
    (void)fflush(out);
    while (poll(readable, 2, -1) > 0 && (readable[1].revents & POLLIN) == 0) {
        meet_must(rdma_get_cm_event(channel, &event), "rdma_get_cm_event");
        enum rdma_cm_event_type kind = event->event;
        struct rdma_cm_id *id = event->id;
        meet_must(rdma_ack_cm_event(event), "rdma_ack_cm_event");
        if (kind == RDMA_CM_EVENT_CONNECT_REQUEST) {
            came++;
            welcome(&waiting, id);
        } else if (kind == RDMA_CM_EVENT_ESTABLISHED) {
            in++;
            no_longer_waits(&waiting, id);
        } else if (kind != RDMA_CM_EVENT_TIMEWAIT_EXIT) {
            no_longer_waits(&waiting, id);
            end(id);
        }
    }
    (void)fprintf(out, "%u %u\n", came, in);
}
