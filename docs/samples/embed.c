/* SPDX-License-Identifier: BSD-3-Clause */
/* embed.c - two engines back to back, without thread, socket or clock. One engine writes 64 KiB into the memory of the
 * other, over a link that loses every tenth frame. Every run has the same result.
 *
 *     cc embed.c $(pkg-config --cflags --libs uroce)
 *
 * A test bench replaces the function carry() by the device under test. The file is also a C++ program.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uroce/objects.h>
#include <uroce/uroce.h>

#define SIZE   65536
#define BURST  32
#define ROOM   4118 /* bytes of the longest frame: MTU 4100 */
#define FLIGHT 1000 /* delay of the link, ns */
#define LOSE   10
#define ACCESS (UROCE_ACCESS_LOCAL_WRITE | UROCE_ACCESS_REMOTE_WRITE)

struct side {
    struct uroce_engine *engine;
    struct uroce_pd *pd;
    struct uroce_cq *cq;
    struct uroce_mr *mr;
    struct uroce_qp *qp;
    char memory[SIZE];
};

static struct side client, server;
static uint64_t now; /* virtual time, ns */
static unsigned frames;

static void must(int result, const char *what)
{
    if (result >= 0)
        return;
    fprintf(stderr, "%s: %s\n", what, strerror(-result));
    exit(1);
}

static void open_side(struct side *side, uint8_t number, const char *address)
{
    struct uroce_engine_config config;
    struct uroce_qp_config qp;

    memset(&config, 0, sizeof config);
    config.size = sizeof config;
    config.mac[0] = 2;
    config.mac[5] = config.seed[0] = number;
    config.mtu = 4100;
    config.address_count = 1;
    config.addresses[0].prefix = 24;
    must(uroce_gid_parse(address, config.addresses[0].gid), "uroce_gid_parse");
    must(uroce_engine_create(&config, now, &side->engine), "uroce_engine_create");
    must(uroce_pd_create(side->engine, &side->pd), "uroce_pd_create");
    must(uroce_cq_create(side->engine, 8, NULL, &side->cq), "uroce_cq_create");
    must(uroce_mr_create(side->pd, side->memory, SIZE, ACCESS, &side->mr), "uroce_mr_create");
    memset(&qp, 0, sizeof qp);
    qp.size = sizeof qp;
    qp.type = UROCE_RC;
    qp.send_cq = qp.recv_cq = side->cq;
    qp.send_capacity = qp.recv_capacity = qp.send_sge_max = qp.recv_sge_max = 1;
    must(uroce_qp_create(side->pd, &qp, &side->qp), "uroce_qp_create");
}

/* Connects a queue pair: the transitions of man 3 ibv_modify_qp. */
static void connect_to(struct side *side, const struct side *peer, const char *address)
{
    struct uroce_qp_attr attr;

    memset(&attr, 0, sizeof attr);
    attr.state = UROCE_INIT;
    attr.port = 1;
    attr.access = UROCE_ACCESS_REMOTE_WRITE;
    must(uroce_qp_modify(
             side->qp, &attr,
             UROCE_ATTR_STATE | UROCE_ATTR_PORT | UROCE_ATTR_PKEY_INDEX | UROCE_ATTR_ACCESS, now),
         "to INIT");
    attr.state = UROCE_RTR;
    attr.path_mtu = 2048;
    attr.dest_qpn = uroce_qp_number(peer->qp);
    attr.address.sgid_index = 1;
    must(uroce_gid_parse(address, attr.address.gid), "uroce_gid_parse");
    must(uroce_qp_modify(side->qp, &attr,
                         UROCE_ATTR_STATE | UROCE_ATTR_AV | UROCE_ATTR_PATH_MTU |
                             UROCE_ATTR_DEST_QPN | UROCE_ATTR_RQ_PSN |
                             UROCE_ATTR_MAX_DEST_RD_ATOMIC | UROCE_ATTR_MIN_RNR_TIMER,
                         now),
         "to RTR");
    attr.state = UROCE_RTS;
    attr.timeout = 8; /* 4.096 us * 2^8, about 1 ms */
    attr.retry_cnt = 7;
    must(uroce_qp_modify(side->qp, &attr,
                         UROCE_ATTR_STATE | UROCE_ATTR_TIMEOUT | UROCE_ATTR_RETRY_CNT |
                             UROCE_ATTR_RNR_RETRY | UROCE_ATTR_SQ_PSN | UROCE_ATTR_MAX_RD_ATOMIC,
                         now),
         "to RTS");
}

/* Carries the frames that @from sends to @to. Returns the number of frames. */
static int carry(struct side *from, struct side *to)
{
    static uint8_t bytes[BURST][ROOM];
    struct uroce_buffer buffers[BURST];
    struct uroce_event event;

    for (int i = 0; i < BURST; i++) {
        buffers[i].bytes = bytes[i];
        buffers[i].size = ROOM;
    }
    int count = uroce_engine_output(from->engine, buffers, BURST, now);
    must(count, "uroce_engine_output");
    while (uroce_engine_event(from->engine, &event) > 0)
        ;
    for (int i = 0; i < count; i++) {
        struct uroce_packet packet = { buffers[i].bytes, buffers[i].length, 0 };
        if (++frames % LOSE != 0)
            must(uroce_engine_input(to->engine, &packet, 1, now), "uroce_engine_input");
    }
    return count;
}

/* Lets time pass until @side has a completion. */
static struct uroce_completion run_until_completion(struct side *side)
{
    struct uroce_completion completion;

    while (uroce_cq_poll(side->cq, &completion, 1) == 0) {
        if (carry(&client, &server) + carry(&server, &client) > 0) {
            now += FLIGHT;
            continue;
        }
        uint64_t a = uroce_engine_next(client.engine), b = uroce_engine_next(server.engine);
        uint64_t next = a < b ? a : b;
        if (next == UROCE_TIME_NEVER)
            must(-1, "nothing will ever happen");
        now = next > now ? next : now;
    }
    return completion;
}

static void close_side(struct side *side)
{
    must(uroce_qp_destroy(side->qp), "uroce_qp_destroy");
    must(uroce_mr_destroy(side->mr), "uroce_mr_destroy");
    must(uroce_cq_destroy(side->cq), "uroce_cq_destroy");
    must(uroce_pd_destroy(side->pd), "uroce_pd_destroy");
    must(uroce_engine_destroy(side->engine), "uroce_engine_destroy");
}

int main(void)
{
    struct uroce_send write;
    struct uroce_sge sge;

    open_side(&client, 1, "10.0.0.1");
    open_side(&server, 2, "10.0.0.2");
    connect_to(&client, &server, "10.0.0.2");
    connect_to(&server, &client, "10.0.0.1");
    for (int i = 0; i < SIZE; i++)
        client.memory[i] = (char)(i * 7 + i / 256);

    sge.address = (uintptr_t)client.memory;
    sge.length = SIZE;
    sge.key = uroce_mr_key(client.mr);
    memset(&write, 0, sizeof write);
    write.opcode = UROCE_RDMA_WRITE;
    write.flags = UROCE_SIGNALED;
    write.sges = &sge;
    write.sge_count = 1;
    write.remote_address = (uintptr_t)server.memory;
    write.rkey = uroce_mr_key(server.mr);
    must(uroce_qp_send(client.qp, &write), "uroce_qp_send");

    struct uroce_completion completion = run_until_completion(&client);
    if (completion.status != UROCE_SUCCESS) {
        fprintf(stderr, "the write failed: %s\n", uroce_failure_text(completion.reason));
        return 1;
    }
    must(memcmp(client.memory, server.memory, SIZE) == 0 ? 0 : -1, "the memory differs");
    printf("%d bytes in %u frames, after %llu ns\n", SIZE, frames, (unsigned long long)now);
    close_side(&client);
    close_side(&server);
    return 0;
}
