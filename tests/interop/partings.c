/* SPDX-License-Identifier: BSD-3-Clause */
/* partings.c - tests the ways in which two ends of rdma_cm end a connection. Both ends try each way
 * once, in the same order:
 *
 *     partings -a OWN-ADDRESS [-p PORT]     the server
 *     partings -p PORT PEER-ADDRESS         the client
 *
 * The program checks the events of each end, their status, the responder resources, and the private
 * data.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "meet.h"
#include "support/patience.h"

#define WAIT_MS   20000
#define TEXT      16u /* bytes of each end's private data */
#define REJ_OTHER 28  /* "consumer reject" */

/* Responder resources that the client or the server offers, and the initiator depth that it
 * requests. */
#define ASKER_SERVES 3u
#define ASKER_WANTS  2u
#define OTHER_SERVES 2u
#define OTHER_WANTS  1u

enum parting {
    ASKER_LEAVES,
    SERVER_LEAVES,
    SERVER_REJECTS,
    SERVER_FORGETS, /* the request's identifier is destroyed */
    ASKER_REJECTS,  /* the client rejects the REP */
    SERVER_EXITS,   /* exits without disconnecting */
    PARTING_COUNT
};

static struct rdma_event_channel *channel;

/* Returns the next event, which must be @kind. The caller acknowledges it. */
static struct rdma_cm_event *expect(enum rdma_cm_event_type kind, int status, int parting)
{
    struct pollfd readable = { .fd = channel->fd, .events = POLLIN };
    struct rdma_cm_event *event;

    if (poll(&readable, 1, (int)patience(WAIT_MS)) != 1)
        meet_die("parting %d: no %s", parting, rdma_event_str(kind));
    meet_must(rdma_get_cm_event(channel, &event), "rdma_get_cm_event");
    if (event->event != kind || event->status != status)
        meet_die("parting %d: %s with %d, expected %s with %d", parting,
                 rdma_event_str(event->event), event->status, rdma_event_str(kind), status);
    return event;
}

static void await(enum rdma_cm_event_type kind, int parting)
{
    meet_must(rdma_ack_cm_event(expect(kind, 0, parting)), "rdma_ack_cm_event");
}

/* Compares private data, which arrives padded with zeros to the size of its message field. */
static void compare_text(const struct rdma_cm_event *event, const char *who, int parting)
{
    const struct rdma_conn_param *param = &event->param.conn;
    char expected[TEXT] = { 0 };

    (void)snprintf(expected, sizeof expected, "%s %d", who, parting);
    if (param->private_data_len < TEXT || memcmp(param->private_data, expected, TEXT) != 0)
        meet_die("parting %d: private data of %s, %u octets, differs", parting, who,
                 param->private_data_len);
}

static void compare_depths(const struct rdma_cm_event *event, unsigned serves, unsigned wants)
{
    const struct rdma_conn_param *param = &event->param.conn;

    if (param->responder_resources != wants || param->initiator_depth != serves)
        meet_die("%s: depths %u and %u, expected %u and %u", rdma_event_str(event->event),
                 param->responder_resources, param->initiator_depth, wants, serves);
}

static struct rdma_conn_param param_of(char text[static TEXT], const char *who, int parting,
                                       uint8_t serves, uint8_t wants)
{
    memset(text, 0, TEXT);
    (void)snprintf(text, TEXT, "%s %d", who, parting);
    return (struct rdma_conn_param){ .private_data = text,
                                     .private_data_len = TEXT,
                                     .responder_resources = serves,
                                     .initiator_depth = wants,
                                     .retry_count = 5,
                                     .rnr_retry_count = 6 };
}

static void make_qp(struct rdma_cm_id *id)
{
    struct ibv_qp_init_attr init = {
        .qp_type = IBV_QPT_RC,
        .cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 }
    };

    meet_must(rdma_create_qp(id, NULL, &init), "rdma_create_qp");
}

static void end(struct rdma_cm_id *id)
{
    if (id->qp != NULL)
        rdma_destroy_qp(id);
    meet_must(rdma_destroy_id(id), "rdma_destroy_id");
}

/* ---- the server ---------------------------------------------------------- */

static void accept_request(struct rdma_cm_id *id, int parting)
{
    char text[TEXT];
    struct rdma_conn_param param = param_of(text, "server", parting, OTHER_SERVES, OTHER_WANTS);

    make_qp(id);
    meet_must(rdma_accept(id, &param), "rdma_accept");
}

static void answer(struct rdma_cm_id *id, int parting)
{
    struct rdma_cm_event *event;

    if (parting == SERVER_REJECTS) {
        char text[TEXT] = "server 2";
        meet_must(rdma_reject(id, text, TEXT), "rdma_reject");
    } else if (parting != SERVER_FORGETS) {
        accept_request(id, parting);
    }
    switch ((enum parting)parting) {
    case ASKER_REJECTS:
        event = expect(RDMA_CM_EVENT_REJECTED, REJ_OTHER, parting);
        compare_text(event, "asker", parting);
        meet_must(rdma_ack_cm_event(event), "rdma_ack_cm_event");
        break;
    case ASKER_LEAVES:
        await(RDMA_CM_EVENT_ESTABLISHED, parting);
        await(RDMA_CM_EVENT_DISCONNECTED, parting);
        meet_must(rdma_disconnect(id), "rdma_disconnect");
        break;
    case SERVER_LEAVES:
        await(RDMA_CM_EVENT_ESTABLISHED, parting);
        meet_must(rdma_disconnect(id), "rdma_disconnect");
        await(RDMA_CM_EVENT_DISCONNECTED, parting);
        break;
    case SERVER_EXITS:
        await(RDMA_CM_EVENT_ESTABLISHED, parting);
        return;
    case SERVER_REJECTS:
    case SERVER_FORGETS:
    case PARTING_COUNT:
        break;
    }
    end(id);
}

static void serve(const char *host, uint16_t port)
{
    struct addrinfo *own = meet_address(host, port);
    struct rdma_cm_id *listener;

    meet_must(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP), "rdma_create_id");
    meet_must(rdma_bind_addr(listener, own->ai_addr), "rdma_bind_addr");
    meet_must(rdma_listen(listener, 4), "rdma_listen");
    freeaddrinfo(own);
    for (int parting = 0; parting < PARTING_COUNT; parting++) {
        struct rdma_cm_event *event = expect(RDMA_CM_EVENT_CONNECT_REQUEST, 0, parting);
        struct rdma_cm_id *id = event->id;
        compare_text(event, "asker", parting);
        compare_depths(event, ASKER_SERVES, ASKER_WANTS);
        meet_must(rdma_ack_cm_event(event), "rdma_ack_cm_event");
        answer(id, parting);
    }
}

/* ---- the client ---------------------------------------------------------- */

static void accepted(struct rdma_cm_id *id, int parting)
{
    bool rejects = parting == ASKER_REJECTS;
    struct rdma_cm_event *event =
        expect(rejects ? RDMA_CM_EVENT_CONNECT_RESPONSE : RDMA_CM_EVENT_ESTABLISHED, 0, parting);
    char text[TEXT] = "asker 4";

    compare_text(event, "server", parting);
    compare_depths(event, OTHER_SERVES, OTHER_WANTS);
    meet_must(rdma_ack_cm_event(event), "rdma_ack_cm_event");
    if (rejects) {
        meet_must(rdma_reject(id, text, TEXT), "rdma_reject");
        return;
    }
    if (parting == ASKER_LEAVES)
        meet_must(rdma_disconnect(id), "rdma_disconnect");
    await(RDMA_CM_EVENT_DISCONNECTED, parting);
    if (parting != ASKER_LEAVES)
        meet_must(rdma_disconnect(id), "rdma_disconnect");
}

static void ask(const struct addrinfo *peer, int parting)
{
    char text[TEXT];
    struct rdma_conn_param param = param_of(text, "asker", parting, ASKER_SERVES, ASKER_WANTS);
    struct rdma_cm_event *event;
    struct rdma_cm_id *id;

    meet_must(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
    meet_must(rdma_resolve_addr(id, NULL, peer->ai_addr, WAIT_MS / 2), "rdma_resolve_addr");
    await(RDMA_CM_EVENT_ADDR_RESOLVED, parting);
    meet_must(rdma_resolve_route(id, WAIT_MS / 2), "rdma_resolve_route");
    await(RDMA_CM_EVENT_ROUTE_RESOLVED, parting);
    if (parting != ASKER_REJECTS) /* a client without a queue pair gets an event for the reply */
        make_qp(id);
    else
        param.qp_num = 77;
    meet_must(rdma_connect(id, &param), "rdma_connect");
    if (parting == SERVER_REJECTS || parting == SERVER_FORGETS) {
        event = expect(RDMA_CM_EVENT_REJECTED, REJ_OTHER, parting);
        if (parting == SERVER_REJECTS)
            compare_text(event, "server", parting);
        meet_must(rdma_ack_cm_event(event), "rdma_ack_cm_event");
    } else {
        accepted(id, parting);
    }
    end(id);
}

int main(int argc, char **argv)
{
    const char *own = NULL;
    uint16_t port = 18515;
    int opt;

    while ((opt = getopt(argc, argv, "a:p:")) != -1) {
        if (opt == 'a')
            own = optarg;
        else if (opt == 'p')
            port = (uint16_t)meet_number(optarg, 65535);
        else
            meet_die("usage: partings [-p port] -a own-address | peer-address");
    }
    channel = rdma_create_event_channel();
    if (channel == NULL)
        meet_die("rdma_create_event_channel: %s", strerror(errno));
    if (own != NULL) {
        serve(own, port);
    } else {
        struct addrinfo *peer = meet_address(argv[optind], port);
        for (int parting = 0; parting < PARTING_COUNT; parting++)
            ask(peer, parting);
        freeaddrinfo(peer);
        rdma_destroy_event_channel(channel);
    }
    printf("parted\n");
    return 0;
}
