/* SPDX-License-Identifier: BSD-3-Clause */
/* survivor.c - a program of rdma_cm that survives the death of its peers. The server serves one
 * client after the other; the client connects again and again. A side detects by an error
 * completion or by DISCONNECTED that its peer has gone. Then it frees all its objects and
 * continues. Both sides check every byte.
 *
 *     survivor server PORT           until a client sends goodbye
 *     survivor client ADDRESS PORT   until SIGTERM: then it sends goodbye
 *
 * A side that only waits would not detect a peer that dies between two messages. After a silence it
 * therefore sends a WRITE of 0 bytes, which the peer must acknowledge.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/rdma_cma.h>

#define OCTETS      4096u
#define RECEIVES    4u
#define SILENCE_MS  100
#define AGAIN_MS    20   /* time until the next attempt to connect, ms */
#define ANSWER_MS   2000 /* time limit of a step of connecting, ms */
#define ACK_TIMEOUT 13   /* timeout of 33 ms, with 7 retries */
#define GOODBYE     UINT32_MAX

enum { RECEIVED = 1, SENT, PROBED };

struct session {
    struct rdma_cm_id *id;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    uint8_t out[OCTETS], in[RECEIVES][OCTETS];
};

static struct rdma_event_channel *channel;
static struct session session;
static volatile sig_atomic_t stop;

static void must(bool holds, const char *what)
{
    if (holds)
        return;
    printf("FAILED: %s: %s\n", what, strerror(errno));
    exit(1);
}
#define MUST(holds) must((holds), #holds)

static void on_stop(int number)
{
    (void)number;
    stop = 1;
}

/* ---- events -------------------------------------------------------------- */

/* Returns the next event within @ms, or -1, and its identifier in @id. Rejects a connection request
 * during a session, because the client connects again. */
static int next_event(int ms, struct rdma_cm_id **id)
{
    struct pollfd ready = { .fd = channel->fd, .events = POLLIN };
    struct rdma_cm_event *event;

    if (poll(&ready, 1, ms) != 1)
        return -1;
    MUST(rdma_get_cm_event(channel, &event) == 0);
    int type = (int)event->event;
    *id = event->id;
    MUST(rdma_ack_cm_event(event) == 0);
    if (type != RDMA_CM_EVENT_CONNECT_REQUEST || session.id == NULL)
        return type;
    (void)rdma_reject(*id, NULL, 0);
    MUST(rdma_destroy_id(*id) == 0);
    return -1;
}

static bool gone(void)
{
    struct rdma_cm_id *id;
    int type = next_event(0, &id);

    return type == RDMA_CM_EVENT_DISCONNECTED || type == RDMA_CM_EVENT_DEVICE_REMOVAL;
}

/* ---- sessions ------------------------------------------------------------ */

static void post_receive(uint32_t i)
{
    struct ibv_sge sge = { (uintptr_t)session.in[i], OCTETS, session.mr->lkey };
    struct ibv_recv_wr recv = { .wr_id = RECEIVED | i << 8, .sg_list = &sge, .num_sge = 1 }, *bad;

    MUST(ibv_post_recv(session.id->qp, &recv, &bad) == 0);
}

static void open_session(struct rdma_cm_id *id)
{
    uint8_t timeout = ACK_TIMEOUT;
    struct ibv_qp_init_attr attr = {
        .cap = { .max_send_wr = 8, .max_recv_wr = RECEIVES, .max_send_sge = 1, .max_recv_sge = 1 },
        .qp_type = IBV_QPT_RC
    };

    session.id = id;
    (void)rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof timeout);
    MUST((session.pd = ibv_alloc_pd(id->verbs)) != NULL);
    MUST((session.cq = ibv_create_cq(id->verbs, 16, NULL, NULL, 0)) != NULL);
    MUST((session.mr = ibv_reg_mr(session.pd, &session, sizeof session, IBV_ACCESS_LOCAL_WRITE)) !=
         NULL);
    attr.send_cq = attr.recv_cq = session.cq;
    MUST(rdma_create_qp(id, session.pd, &attr) == 0);
    for (uint32_t i = 0; i < RECEIVES; i++)
        post_receive(i);
}

/* Destroys all objects of the session. The program fails if an object cannot be destroyed. */
static void close_session(void)
{
    rdma_destroy_qp(session.id);
    MUST(ibv_destroy_cq(session.cq) == 0);
    MUST(ibv_dereg_mr(session.mr) == 0);
    MUST(ibv_dealloc_pd(session.pd) == 0);
    MUST(rdma_destroy_id(session.id) == 0);
    session.id = NULL;
}

static void post(uint64_t id, enum ibv_wr_opcode opcode, uint32_t length)
{
    struct ibv_sge sge = { (uintptr_t)session.out, length, session.mr->lkey };
    struct ibv_send_wr send = { .wr_id = id,
                                .sg_list = &sge,
                                .num_sge = length > 0,
                                .opcode = opcode,
                                .send_flags = IBV_SEND_SIGNALED },
                       *bad;

    MUST(ibv_post_send(session.id->qp, &send, &bad) == 0);
}

/* Sends a message: a number and bytes that depend on it. */
static void send_message(uint32_t number)
{
    memcpy(session.out, &number, sizeof number);
    for (uint32_t i = sizeof number; i < OCTETS; i++)
        session.out[i] = (uint8_t)(number * 31 + i);
    post(SENT, IBV_WR_SEND, OCTETS);
}

static uint32_t read_message(uint32_t slot)
{
    uint32_t number;

    memcpy(&number, session.in[slot], sizeof number);
    for (uint32_t i = sizeof number; i < OCTETS; i++)
        MUST(session.in[slot][i] == (uint8_t)(number * 31 + i));
    return number;
}

/* Waits for a message. Returns true and its @number. If the peer has gone, returns false and the
 * reason in @why. */
static bool receive_message(uint32_t *number, const char **why)
{
    bool asked = false;
    struct ibv_wc wc;

    for (int silent = 0;; silent++) {
        int count = ibv_poll_cq(session.cq, 1, &wc);
        MUST(count >= 0);
        *why = count > 0 && wc.status != IBV_WC_SUCCESS ? ibv_wc_status_str(wc.status)
               : gone()                                 ? "disconnected"
                                                        : NULL;
        if (*why != NULL)
            return false;
        if (count > 0 && (wc.wr_id & 0xff) == RECEIVED) {
            *number = read_message((uint32_t)(wc.wr_id >> 8));
            post_receive((uint32_t)(wc.wr_id >> 8));
            return true;
        }
        if (count > 0 && wc.wr_id == PROBED)
            asked = false;
        if (count == 0)
            (void)poll(NULL, 0, silent < 1000 ? 0 : 1);
        if (!asked && silent >= 1000 + SILENCE_MS) {
            post(PROBED, IBV_WR_RDMA_WRITE, 0);
            asked = true;
            silent = 0;
        }
    }
}

static struct sockaddr_in address_of(const char *host, const char *port)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    char *end;
    unsigned long number = strtoul(port, &end, 10);

    MUST(*end == '\0' && number > 0 && number <= UINT16_MAX);
    address.sin_port = htons((uint16_t)number);
    MUST(inet_pton(AF_INET, host, &address.sin_addr) == 1);
    return address;
}

/* ---- server -------------------------------------------------------------- */

/* Serves a client. Returns false when the client sent goodbye. */
static bool serve(struct rdma_cm_id *id)
{
    struct rdma_conn_param param = { .rnr_retry_count = 7, .retry_count = 7 };
    const char *why = "not accepted";
    uint32_t number = 0, served = 0;

    open_session(id);
    if (rdma_accept(id, &param) == 0) {
        while (receive_message(&number, &why)) {
            send_message(number);
            served++;
        }
    }
    printf("served %u, then %s\n", served, why);
    close_session();
    return number != GOODBYE;
}

static void be_server(const char *port)
{
    struct sockaddr_in any = address_of("0.0.0.0", port);
    struct rdma_cm_id *listener, *id;

    MUST(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) == 0);
    MUST(rdma_bind_addr(listener, (struct sockaddr *)&any) == 0);
    MUST(rdma_listen(listener, 8) == 0);
    printf("listening\n");
    for (;;) {
        int type = next_event(-1, &id);
        if (type == RDMA_CM_EVENT_CONNECT_REQUEST && !serve(id))
            break;
    }
    MUST(rdma_destroy_id(listener) == 0);
}

/* ---- client -------------------------------------------------------------- */

static bool wait_for(int wanted)
{
    struct rdma_cm_id *id;

    return next_event(ANSWER_MS, &id) == wanted;
}

/* Connects. Returns whether there is a session. */
static bool connect_to(struct sockaddr_in *address)
{
    struct rdma_conn_param param = { .rnr_retry_count = 7, .retry_count = 7 };
    struct rdma_cm_id *id;

    MUST(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
    if (rdma_resolve_addr(id, NULL, (struct sockaddr *)address, ANSWER_MS) != 0 ||
        !wait_for(RDMA_CM_EVENT_ADDR_RESOLVED) || rdma_resolve_route(id, ANSWER_MS) != 0 ||
        !wait_for(RDMA_CM_EVENT_ROUTE_RESOLVED)) {
        MUST(rdma_destroy_id(id) == 0);
        return false;
    }
    open_session(id);
    if (rdma_connect(id, &param) == 0 && wait_for(RDMA_CM_EVENT_ESTABLISHED))
        return true;
    close_session();
    return false;
}

/* Sends messages. Returns false when goodbye was sent and answered. */
static bool talk(void)
{
    const char *why;
    uint32_t number;

    for (uint32_t i = 0;; i++) {
        uint32_t sent = stop ? GOODBYE : i;
        send_message(sent);
        if (!receive_message(&number, &why)) {
            printf("lost after %u, %s\n", i, why);
            return true;
        }
        MUST(number == sent);
        if (sent == GOODBYE)
            return false;
        if (i % 16 == 0)
            printf("echoed\n");
    }
}

static void be_client(const char *host, const char *port)
{
    struct sockaddr_in address = address_of(host, port);
    bool more = true;

    while (more) {
        if (!connect_to(&address)) {
            (void)poll(NULL, 0, AGAIN_MS);
            continue;
        }
        printf("connected\n");
        more = talk();
        if (!more)
            (void)rdma_disconnect(session.id);
        close_session();
    }
}

int main(int argc, char **argv)
{
    struct sigaction action = { .sa_handler = on_stop };

    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    MUST(sigaction(SIGTERM, &action, NULL) == 0);
    MUST((channel = rdma_create_event_channel()) != NULL);
    if (argc == 3 && strcmp(argv[1], "server") == 0)
        be_server(argv[2]);
    else if (argc == 4 && strcmp(argv[1], "client") == 0)
        be_client(argv[2], argv[3]);
    else
        return 2;
    rdma_destroy_event_channel(channel);
    printf("done\n");
    return 0;
}
