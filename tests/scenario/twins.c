/* SPDX-License-Identifier: BSD-3-Clause */
/* twins.c - see twins.h. */
#include "twins.h"

#include <stdlib.h>
#include <string.h>

#include "base/mark.h"

#define CALLS_MAX 100000u /* maximum output calls at one time; more means an endless loop */
#define FRAME_MAX 1518u
#define ROCE_PORT 4791u

static uint8_t frames[TWINS_BURST * 2][FRAME_MAX];
static struct uroce_buffer buffers[TWINS_BURST * 2];

static void open_end(struct twins *s, struct end *end)
{
    assert_int_equal(uroce_cq_create(s->engine, 256, NULL, &end->cq), 0);
    end->memory = malloc(TWINS_MEMORY);
    assert_non_null(end->memory);
    memset(end->memory, 0xee, TWINS_MEMORY);
    assert_int_equal(
        uroce_mr_create(s->pd, end->memory, TWINS_MEMORY, 0xf | UROCE_ACCESS_MW_BIND, &end->mr), 0);
    const struct uroce_qp_config config = { .size = sizeof config,
                                            .type = UROCE_RC,
                                            .send_cq = end->cq,
                                            .recv_cq = end->cq,
                                            .send_capacity = 128,
                                            .recv_capacity = 128,
                                            .send_sge_max = 1,
                                            .recv_sge_max = 1,
                                            .inline_max = 64 };
    assert_int_equal(uroce_qp_create(s->pd, &config, &end->qp), 0);
}

static int open_twins(void **state, uint8_t prefix)
{
    struct twins *s = calloc(1, sizeof *s);
    struct uroce_engine_config config = { .size = sizeof config,
                                          .mac = TWINS_MAC,
                                          .mtu = 1500,
                                          .address_count = 2,
                                          .connections = 64,
                                          .qpn_prefix = prefix,
                                          .link_routes = prefix != 0,
                                          .source_port = prefix != 0 ? ROCE_PORT : 0,
                                          .seed = { 1 } };

    assert_non_null(s);
    uro_mark_clear();
    config.addresses[0].prefix = config.addresses[1].prefix = 24;
    assert_int_equal(uroce_gid_parse("10.0.0.1", config.addresses[0].gid), 0);
    assert_int_equal(uroce_gid_parse("10.9.9.9", config.addresses[1].gid), 0);
    assert_int_equal(uroce_engine_create(&config, 0, &s->engine), 0);
    assert_int_equal(uroce_pd_create(s->engine, &s->pd), 0);
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
    (void)s;
    if (end->qp != NULL)
        assert_int_equal(uroce_qp_destroy(end->qp), 0);
    end->qp = NULL;
}

static void close_end(struct twins *s, struct end *end)
{
    twins_destroy_qp(s, end);
    if (end->mr != NULL)
        assert_int_equal(uroce_mr_destroy(end->mr), 0);
    assert_int_equal(uroce_cq_destroy(end->cq), 0);
    free(end->memory);
}

int twins_close(void **state)
{
    struct twins *s = *state;

    close_end(s, &s->a);
    close_end(s, &s->b);
    assert_int_equal(uroce_pd_destroy(s->pd), 0);
    assert_int_equal(uroce_engine_destroy(s->engine), 0);
    free(s);
    return 0;
}

void twins_register(struct twins *s, struct end *end, struct uroce_pd *pd, unsigned access)
{
    assert_int_equal(uroce_mr_destroy(end->mr), 0);
    assert_int_equal(
        uroce_mr_create(pd != NULL ? pd : s->pd, end->memory, TWINS_MEMORY, access, &end->mr), 0);
}

static void modify(struct twins *s, struct end *end, const struct uroce_qp_attr *attr,
                   unsigned mask)
{
    assert_int_equal(uroce_qp_modify(end->qp, attr, mask | UROCE_ATTR_STATE, s->now), 0);
}

void twins_connect_to(struct twins *s, struct end *end, uint8_t sgid_index, const char *dest,
                      uint32_t qpn)
{
    struct uroce_qp_attr attr = { .state = UROCE_INIT,
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
                                  .retry_cnt = 2,
                                  .rnr_retry = 7,
                                  .address = { .sgid_index = sgid_index } };

    assert_int_equal(uroce_gid_parse(dest, attr.address.gid), 0);
    modify(s, end, &attr, UROCE_ATTR_PKEY_INDEX | UROCE_ATTR_PORT | UROCE_ATTR_ACCESS);
    attr.state = UROCE_RTR;
    modify(s, end, &attr,
           UROCE_ATTR_AV | UROCE_ATTR_PATH_MTU | UROCE_ATTR_DEST_QPN | UROCE_ATTR_RQ_PSN |
               UROCE_ATTR_MAX_DEST_RD_ATOMIC | UROCE_ATTR_MIN_RNR_TIMER);
    attr.state = UROCE_RTS;
    modify(s, end, &attr,
           UROCE_ATTR_TIMEOUT | UROCE_ATTR_RETRY_CNT | UROCE_ATTR_RNR_RETRY | UROCE_ATTR_SQ_PSN |
               UROCE_ATTR_MAX_RD_ATOMIC);
}

void twins_connect(struct twins *s)
{
    twins_connect_to(s, &s->a, 1, "10.0.0.1", uroce_qp_number(s->b.qp));
    twins_connect_to(s, &s->b, 1, "10.0.0.1", uroce_qp_number(s->a.qp));
}

static struct uroce_sge element(const struct end *end, uint32_t at, uint32_t length)
{
    return (struct uroce_sge){ (uintptr_t)end->memory + at, length, uroce_mr_key(end->mr) };
}

void twins_post_recv(struct end *end, uint64_t id, uint32_t at, uint32_t length)
{
    const struct uroce_sge sge = element(end, at, length);

    assert_int_equal(uroce_qp_receive(end->qp, id, &sge, 1), 0);
}

void twins_post(struct end *end, const struct uroce_send *request, uint32_t at, uint32_t length)
{
    const bool local = request->opcode == UROCE_BIND_MW || request->opcode == UROCE_LOCAL_INV;
    const struct uroce_sge sge = element(end, at, length);
    struct uroce_send full = *request;

    full.flags |= UROCE_SIGNALED;
    full.sges = &sge;
    full.sge_count = local ? 0 : 1;
    assert_int_equal(uroce_qp_send(end->qp, &full), 0);
}

void twins_post_send(struct end *end, uint64_t id, uint32_t at, uint32_t length)
{
    const struct uroce_send send = { .wr_id = id, .opcode = UROCE_SEND };

    twins_post(end, &send, at, length);
}

uint32_t twins_output(struct twins *s, uint32_t room)
{
    assert_true(room <= TWINS_BURST * 2);
    for (uint32_t i = 0; i < room; i++)
        buffers[i] = (struct uroce_buffer){ frames[i], FRAME_MAX, 0 };
    const int count = uroce_engine_output(s->engine, buffers, room, s->now);
    assert_in_range(count, 0, room);
    for (struct end *end = &s->a; end <= &s->b; end++)
        if (end->qp != NULL && uroce_qp_problem(end->qp) != NULL)
            fail_msg("%s", uroce_qp_problem(end->qp));
    return (uint32_t)count;
}

const struct uroce_buffer *twins_frame(uint32_t index)
{
    return &buffers[index];
}

uint32_t twins_settle(struct twins *s)
{
    uint32_t left = 0;

    for (uint32_t calls = 0; uroce_engine_next(s->engine) <= s->now; calls++) {
        left += twins_output(s, TWINS_BURST);
        assert_true(calls < CALLS_MAX);
    }
    return left;
}

uint32_t twins_pass_time(struct twins *s, uro_time until)
{
    uint32_t left = 0;

    while (uroce_engine_next(s->engine) <= until) {
        if (uroce_engine_next(s->engine) > s->now)
            s->now = uroce_engine_next(s->engine);
        left += twins_settle(s);
    }
    s->now = until;
    return left;
}

void twins_expect(struct twins *s, struct end *end, uint64_t id, enum uroce_status status)
{
    struct uroce_completion completion;

    assert_int_equal(uroce_engine_deliver(s->engine), 0);
    if (uroce_cq_poll(end->cq, &completion, 1) != 1)
        fail_msg("no completion %lu", (unsigned long)id);
    assert_int_equal(completion.wr_id, id);
    assert_int_equal(completion.status, status);
}

void twins_expect_nothing(struct twins *s, struct end *end)
{
    struct uroce_completion completion;

    assert_int_equal(uroce_engine_deliver(s->engine), 0);
    assert_int_equal(uroce_cq_poll(end->cq, &completion, 1), 0);
}

void twins_fill(struct end *end, uint32_t at, uint32_t length)
{
    for (uint32_t i = 0; i < length; i++)
        end->memory[at + i] = (uint8_t)(i * 31 + i / 256 + 1);
}

uint64_t twins_counter(const struct twins *s, const char *counter)
{
    uint64_t value = 0;

    assert_int_equal(uroce_engine_counter(s->engine, counter, &value), 0);
    return value;
}
