/* SPDX-License-Identifier: BSD-3-Clause */
/* twins.c - see twins.h. */
#include "twins.h"

#include <stdlib.h>
#include <string.h>

#include "base/mark.h"
#include "wire/ip.h"

#define CALLS_MAX 100000u /* of output at one instant; more: it never ends */

const struct uro_mac twins_mac = { { 2, 0, 0, 0, 0, 1 } };

struct uro_gid twins_gid(const char *text)
{
    struct uro_gid g;
    assert_true(uro_gid_parse(text, &g));
    return g;
}

static void *take(size_t size)
{
    void *memory = aligned_alloc(64, (size + 63) & ~(size_t)63);
    assert_non_null(memory);
    memset(memory, 0xee, size);
    return memory;
}

static void open_end(struct twins *s, struct end *end)
{
    end->cq = uro_cq_init(take(uro_cq_size(256)), 256, NULL);
    end->memory = take(TWINS_MEMORY);
    end->key = (struct uro_key){ .pd = 1,
                                 .access = 0xf,
                                 .base = (uintptr_t)end->memory,
                                 .length = TWINS_MEMORY,
                                 .memory = end->memory };
    uro_key_register(uro_engine_shard(s->engine), &end->key);
    const struct uro_qp_init init = { .type = URO_QPT_RC,
                                      .pd = 1,
                                      .send_cq = end->cq,
                                      .recv_cq = end->cq,
                                      .send_capacity = 128,
                                      .recv_capacity = 128,
                                      .send_sge_max = 1,
                                      .recv_sge_max = 1,
                                      .inline_max = 64 };
    end->qp_memory = take(uro_qp_size(&init));
    end->qp = uro_qp_create(uro_engine_shard(s->engine), &init, end->qp_memory);
}

static int open_twins(void **state, uint8_t share)
{
    struct twins *s = calloc(1, sizeof *s);
    struct uro_engine_config config = { .mac = twins_mac,
                                        .mtu = 1500,
                                        .address_count = 3,
                                        .table_bits = 4,
                                        .qpn_prefix = share,
                                        .link_routes = share != 0,
                                        .source_port = share != 0 ? URO_ROCE_PORT : 0,
                                        .seed = { 1 } };

    assert_non_null(s);
    uro_mark_clear();
    config.addresses[0] = (struct uro_engine_address){ uro_gid_link_local(&twins_mac), 64 };
    config.addresses[1] = (struct uro_engine_address){ twins_gid("10.0.0.1"), 24 };
    config.addresses[2] = (struct uro_engine_address){ twins_gid("10.9.9.9"), 24 };
    s->engine_memory = take(uro_engine_size(&config));
    assert_int_equal(uro_engine_init(s->engine_memory, &config, 0, &s->engine), 0);
    open_end(s, &s->a);
    open_end(s, &s->b);
    *state = s;
    return 0;
}

int twins_open(void **state)
{
    return open_twins(state, 0);
}

int twins_open_shared(void **state)
{
    return open_twins(state, TWINS_SHARE);
}

void twins_destroy_qp(struct twins *s, struct end *end)
{
    if (end->qp != NULL)
        uro_engine_qp_destroy(s->engine, end->qp);
    end->qp = NULL;
}

static void close_end(struct twins *s, struct end *end)
{
    twins_destroy_qp(s, end);
    uro_key_deregister(uro_engine_shard(s->engine), &end->key);
    uro_cq_fini(end->cq);
    free(end->cq);
    free(end->qp_memory);
    free(end->memory);
}

int twins_close(void **state)
{
    struct twins *s = *state;

    close_end(s, &s->a);
    close_end(s, &s->b);
    free(s->engine_memory);
    free(s);
    return 0;
}

static void modify(struct twins *s, struct end *end, const struct uro_qp_attr *attr, unsigned mask)
{
    assert_int_equal(uro_engine_qp_modify(s->engine, end->qp, attr, mask | URO_ATTR_STATE, s->now),
                     0);
}

void twins_connect_to(struct twins *s, struct end *end, uint8_t sgid_index, struct uro_gid dest,
                      uint32_t qpn)
{
    struct uro_qp_attr attr = { .state = URO_QPS_INIT,
                                .port = 1,
                                .access = 0xe,
                                .path_mtu = 1024,
                                .dest_qpn = qpn,
                                .rq_psn = 0xfffff0,
                                .sq_psn = 0xfffff0,
                                .max_dest_rd_atomic = 4,
                                .max_rd_atomic = 4,
                                .min_rnr_timer = 1, /* 10 us */
                                .timeout = 10,      /* 4.2 ms */
                                .retry_count = 2,
                                .rnr_retry = 7,
                                .address = { .sgid_index = sgid_index, .dest = dest } };

    modify(s, end, &attr, URO_ATTR_PKEY_INDEX | URO_ATTR_PORT | URO_ATTR_ACCESS);
    attr.state = URO_QPS_RTR;
    modify(s, end, &attr,
           URO_ATTR_AV | URO_ATTR_PATH_MTU | URO_ATTR_DEST_QPN | URO_ATTR_RQ_PSN |
               URO_ATTR_DEST_RD | URO_ATTR_MIN_RNR);
    attr.state = URO_QPS_RTS;
    modify(s, end, &attr,
           URO_ATTR_TIMEOUT | URO_ATTR_RETRY_CNT | URO_ATTR_RNR_RETRY | URO_ATTR_SQ_PSN |
               URO_ATTR_RD_ATOMIC);
}

void twins_connect(struct twins *s)
{
    twins_connect_to(s, &s->a, 1, twins_gid("10.0.0.1"), uro_qp_number(s->b.qp));
    twins_connect_to(s, &s->b, 1, twins_gid("10.0.0.1"), uro_qp_number(s->a.qp));
}

void twins_post_recv(struct end *end, uint64_t id, uint32_t at, uint32_t length)
{
    struct uro_rqe *rqe = uro_wq_reserve(uro_qp_recv_queue(end->qp), 0);

    assert_non_null(rqe);
    rqe->wr_id = id;
    rqe->length = length;
    rqe->sge_count = 1;
    rqe->sges[0] =
        (struct uro_sge){ (uintptr_t)end->memory + at, length, uro_key_number(&end->key) };
    uro_wq_publish(uro_qp_recv_queue(end->qp), 1);
}

void twins_post(struct twins *s, struct end *end, const struct uro_wqe *request, uint32_t at)
{
    struct uro_wqe *wqe = uro_wq_reserve(uro_qp_send_queue(end->qp), 0);

    assert_non_null(wqe);
    *wqe = *request;
    wqe->flags |= URO_SEND_SIGNALED;
    if (wqe->flags & URO_SEND_INLINE) {
        memcpy(wqe->sges, end->memory + at, wqe->length);
    } else {
        wqe->sge_count = 1;
        wqe->sges[0] =
            (struct uro_sge){ (uintptr_t)end->memory + at, wqe->length, uro_key_number(&end->key) };
    }
    uro_wq_publish(uro_qp_send_queue(end->qp), 1);
    uro_qp_ring(uro_engine_shard(s->engine), end->qp);
}

void twins_post_send(struct twins *s, struct end *end, uint64_t id, uint32_t at, uint32_t length)
{
    const struct uro_wqe wqe = { .wr_id = id, .opcode = URO_WR_SEND, .length = length };

    twins_post(s, end, &wqe, at);
}

uint32_t twins_output(struct twins *s, uint32_t room)
{
    static uint8_t frame[2048];
    uint32_t count = uro_engine_output(s->engine, s->tx, room, s->now);

    assert_true(count <= room);
    for (uint32_t i = 0; i < count; i++)
        uro_tx_write(&s->tx[i], frame);
    for (struct end *end = &s->a; end <= &s->b; end++)
        if (end->qp != NULL && uro_qp_problem(end->qp) != NULL)
            fail_msg("%s", uro_qp_problem(end->qp));
    return count;
}

uint32_t twins_settle(struct twins *s)
{
    uint32_t left = 0;

    for (uint32_t calls = 0; uro_engine_next(s->engine) <= s->now; calls++) {
        left += twins_output(s, TWINS_BURST);
        assert_true(calls < CALLS_MAX);
    }
    return left;
}

uint32_t twins_pass_time(struct twins *s, uro_time until)
{
    uint32_t left = 0;

    while (uro_engine_next(s->engine) <= until) {
        if (uro_engine_next(s->engine) > s->now)
            s->now = uro_engine_next(s->engine);
        left += twins_settle(s);
    }
    s->now = until;
    return left;
}

void twins_expect(struct end *end, uint64_t id, enum uro_wc_status status)
{
    struct uro_cqe cqe;

    uro_cq_deliver(end->cq);
    if (uro_cq_poll(end->cq, &cqe, 1) != 1)
        fail_msg("no completion %lu", (unsigned long)id);
    assert_int_equal(cqe.wr_id, id);
    assert_int_equal(cqe.status, status);
}

void twins_expect_nothing(struct end *end)
{
    struct uro_cqe cqe;

    uro_cq_deliver(end->cq);
    assert_int_equal(uro_cq_poll(end->cq, &cqe, 1), 0);
}

void twins_fill(struct end *end, uint32_t at, uint32_t length)
{
    for (uint32_t i = 0; i < length; i++)
        end->memory[at + i] = (uint8_t)(i * 31 + i / 256 + 1);
}

uint64_t twins_counter(const struct twins *s, enum uro_counter which)
{
    return uro_engine_counters(s->engine)->value[which];
}
