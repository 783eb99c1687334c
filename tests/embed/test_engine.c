/* SPDX-License-Identifier: BSD-3-Clause */
/* test_engine.c - tests uroce/engine.h and uroce/objects.h with two connected engines in virtual
 * time, and their results for wrong arguments. */
#include "support/check.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <uroce/objects.h>
#include <uroce/uroce.h>

#define SIZE   256
#define BURST  8
#define ROOM   1518
#define ACCESS 0xfu
#define QKEY   0x11111111u

struct side {
    struct uroce_engine *engine;
    struct uroce_pd *pd;
    struct uroce_cq *cq;
    struct uroce_mr *mr;
    struct uroce_qp *qp;
    _Alignas(8) char memory[SIZE];
};

struct stage {
    struct side one, two;
    uint64_t now;
    uint32_t shared; /* value of `shared` in the received frames */
    unsigned armed;  /* events of armed CQs */
};

static const char *const addresses[] = { "10.0.0.1", "10.0.0.2" };

static struct uroce_engine_config engine_config(uint8_t number)
{
    struct uroce_engine_config config = { .size = sizeof config,
                                          .mac = { 2, 0, 0, 0, 0, number },
                                          .mtu = 1500,
                                          .address_count = 1,
                                          .seed = { number } };

    config.addresses[0].prefix = 24;
    assert_int_equal(uroce_gid_parse(addresses[number - 1], config.addresses[0].gid), 0);
    return config;
}

static struct uroce_qp_config qp_config(const struct side *side, enum uroce_qp_type type)
{
    return (struct uroce_qp_config){ .size = sizeof(struct uroce_qp_config),
                                     .type = type,
                                     .send_cq = side->cq,
                                     .recv_cq = side->cq,
                                     .send_capacity = 2,
                                     .recv_capacity = 2,
                                     .send_sge_max = 2,
                                     .recv_sge_max = 2,
                                     .inline_max = 32 };
}

static void open_side(struct side *side, uint8_t number, enum uroce_qp_type type)
{
    const struct uroce_engine_config config = engine_config(number);

    assert_int_equal(uroce_engine_create(&config, 0, &side->engine), 0);
    assert_int_equal(uroce_pd_create(side->engine, &side->pd), 0);
    assert_int_equal(uroce_cq_create(side->engine, 16, side, &side->cq), 0);
    assert_int_equal(uroce_mr_create(side->pd, side->memory, SIZE, ACCESS, &side->mr), 0);
    const struct uroce_qp_config qp = qp_config(side, type);
    assert_int_equal(uroce_qp_create(side->pd, &qp, &side->qp), 0);
}

static void to_rts(struct stage *stage, struct side *side, const struct side *peer,
                   enum uroce_qp_type type, const char *address)
{
    struct uroce_qp_attr attr = { .state = UROCE_INIT,
                                  .port = 1,
                                  .access = 0xe,
                                  .qkey = QKEY,
                                  .path_mtu = 1024,
                                  .dest_qpn = uroce_qp_number(peer->qp),
                                  .max_rd_atomic = 1,
                                  .max_dest_rd_atomic = 1,
                                  .timeout = 8,
                                  .retry_cnt = 2,
                                  .rnr_retry = 7,
                                  .min_rnr_timer = 1,
                                  .address = { .sgid_index = 1 } };
    const bool connected = type != UROCE_UD;

    assert_int_equal(uroce_gid_parse(address, attr.address.gid), 0);
    unsigned mask = UROCE_ATTR_STATE | UROCE_ATTR_PORT | UROCE_ATTR_PKEY_INDEX;
    assert_int_equal(uroce_qp_modify(side->qp, &attr,
                                     mask | (connected ? UROCE_ATTR_ACCESS : UROCE_ATTR_QKEY),
                                     stage->now),
                     0);
    attr.state = UROCE_RTR;
    mask = UROCE_ATTR_STATE;
    if (connected)
        mask |= UROCE_ATTR_AV | UROCE_ATTR_PATH_MTU | UROCE_ATTR_DEST_QPN | UROCE_ATTR_RQ_PSN;
    if (type == UROCE_RC)
        mask |= UROCE_ATTR_MAX_DEST_RD_ATOMIC | UROCE_ATTR_MIN_RNR_TIMER;
    assert_int_equal(uroce_qp_modify(side->qp, &attr, mask, stage->now), 0);
    attr.state = UROCE_RTS;
    mask = UROCE_ATTR_STATE | UROCE_ATTR_SQ_PSN;
    if (type == UROCE_RC)
        mask |= UROCE_ATTR_TIMEOUT | UROCE_ATTR_RETRY_CNT | UROCE_ATTR_RNR_RETRY |
                UROCE_ATTR_MAX_RD_ATOMIC;
    assert_int_equal(uroce_qp_modify(side->qp, &attr, mask, stage->now), 0);
    assert_int_equal(uroce_qp_state(side->qp), UROCE_RTS);
}

static struct stage *open_stage(enum uroce_qp_type type)
{
    struct stage *stage = calloc(1, sizeof *stage);

    assert_non_null(stage);
    open_side(&stage->one, 1, type);
    open_side(&stage->two, 2, type);
    to_rts(stage, &stage->one, &stage->two, type, addresses[1]);
    to_rts(stage, &stage->two, &stage->one, type, addresses[0]);
    return stage;
}

static void close_side(struct side *side)
{
    assert_int_equal(uroce_engine_destroy(side->engine), -EBUSY);
    assert_int_equal(uroce_pd_destroy(side->pd), -EBUSY);
    assert_int_equal(uroce_cq_destroy(side->cq), -EBUSY);
    assert_int_equal(uroce_qp_destroy(side->qp), 0);
    assert_int_equal(uroce_mr_destroy(side->mr), 0);
    assert_int_equal(uroce_cq_destroy(side->cq), 0);
    assert_int_equal(uroce_pd_destroy(side->pd), 0);
    assert_int_equal(uroce_engine_destroy(side->engine), 0);
}

static void close_stage(struct stage *stage)
{
    close_side(&stage->one);
    close_side(&stage->two);
    free(stage);
}

static int carry(struct stage *stage, struct side *from, struct side *to)
{
    static uint8_t bytes[BURST][ROOM];
    struct uroce_buffer buffers[BURST];
    struct uroce_packet packets[BURST];
    struct uroce_event event;

    for (int i = 0; i < BURST; i++)
        buffers[i] = (struct uroce_buffer){ bytes[i], ROOM, 0 };
    const int count = uroce_engine_output(from->engine, buffers, BURST, stage->now);
    assert_in_range(count, 0, BURST);
    while (uroce_engine_event(from->engine, &event) == 1)
        if (event.kind == UROCE_EVENT_COMPLETION) {
            assert_ptr_equal(event.user, from);
            stage->armed++;
        }
    for (int i = 0; i < count; i++)
        packets[i] = (struct uroce_packet){ buffers[i].bytes, buffers[i].length, stage->shared };
    assert_int_equal(uroce_engine_input(to->engine, packets, (uint32_t)count, stage->now), 0);
    return count;
}

/* Returns the next completion of @side; runs both engines until @side has a completion. */
static struct uroce_completion completion_of(struct stage *stage, struct side *side)
{
    struct uroce_completion completion;
    int found;

    while ((found = uroce_cq_poll(side->cq, &completion, 1)) == 0) {
        if (carry(stage, &stage->one, &stage->two) + carry(stage, &stage->two, &stage->one) > 0)
            continue;
        const uint64_t a = uroce_engine_next(stage->one.engine),
                       b = uroce_engine_next(stage->two.engine);
        const uint64_t next = a < b ? a : b;
        assert_true(next != UROCE_TIME_NEVER);
        stage->now = next > stage->now ? next : stage->now;
    }
    assert_int_equal(found, 1);
    return completion;
}

static struct uroce_sge element(const struct side *side, uint32_t at, uint32_t length)
{
    return (struct uroce_sge){ (uintptr_t)side->memory + at, length, uroce_mr_key(side->mr) };
}

/* Returns a request of the first side for the first bytes of both memories. */
static struct uroce_send request_of(const struct stage *stage, enum uroce_opcode opcode,
                                    const struct uroce_sge *sge)
{
    return (struct uroce_send){ .wr_id = 7,
                                .opcode = opcode,
                                .flags = UROCE_SIGNALED,
                                .sges = sge,
                                .sge_count = 1,
                                .remote_address = (uintptr_t)stage->two.memory,
                                .rkey = uroce_mr_key(stage->two.mr) };
}

/* ---- correct use -------------------------------------------------------- */

static void rc__send__arrives_in_the_receive(void **state)
{
    struct stage *stage = open_stage(UROCE_RC);
    const struct uroce_sge from = element(&stage->one, 0, 5),
                           to[] = { element(&stage->two, 0, 3), element(&stage->two, 64, 60) };
    struct uroce_send send = request_of(stage, UROCE_SEND_WITH_IMM, &from);

    (void)state;
    memcpy(stage->one.memory, "hello", 5);
    send.imm = 0x12345678;
    assert_int_equal(uroce_engine_rung(stage->one.engine), 0);
    assert_int_equal(uroce_cq_arm(stage->two.cq, 0), 0);
    assert_int_equal(uroce_qp_receive(stage->two.qp, 9, to, 2), 0);
    assert_int_equal(uroce_qp_send(stage->one.qp, &send), 0);
    assert_int_equal(uroce_engine_rung(stage->one.engine), 1);
    struct uroce_completion got = completion_of(stage, &stage->two);
    assert_int_equal(got.status, UROCE_SUCCESS);
    assert_int_equal(got.wr_id, 9);
    assert_int_equal(got.length, 5);
    assert_int_equal(got.imm, 0x12345678);
    assert_int_equal(got.flags, UROCE_COMPLETION_WITH_IMM);
    assert_int_equal(got.qpn, uroce_qp_number(stage->two.qp));
    assert_memory_equal(stage->two.memory, "hel", 3);
    assert_memory_equal(stage->two.memory + 64, "lo", 2);
    assert_int_equal(stage->armed, 1);
    assert_int_equal(completion_of(stage, &stage->one).wr_id, 7);
    assert_int_equal(uroce_qp_reason(stage->one.qp), 0);
    close_stage(stage);
}

static void rc__write_read_and_atomics__move_the_bytes(void **state)
{
    struct stage *stage = open_stage(UROCE_RC);
    struct uroce_sge sge = element(&stage->one, 0, 8);
    struct uroce_send request = request_of(stage, UROCE_RDMA_WRITE, &sge);
    uint64_t value = 40;

    (void)state;
    memcpy(stage->one.memory, &value, sizeof value);
    request.flags |= UROCE_INLINE;
    assert_int_equal(uroce_qp_send(stage->one.qp, &request), 0);
    memset(stage->one.memory, 0, 8); /* the bytes were taken */
    assert_int_equal(completion_of(stage, &stage->one).status, UROCE_SUCCESS);
    request = request_of(stage, UROCE_FETCH_ADD, &sge);
    request.compare_add = 2;
    assert_int_equal(uroce_qp_send(stage->one.qp, &request), 0);
    assert_int_equal(completion_of(stage, &stage->one).status, UROCE_SUCCESS);
    request = request_of(stage, UROCE_COMPARE_SWAP, &sge);
    request.compare_add = 42;
    request.swap = 77;
    assert_int_equal(uroce_qp_send(stage->one.qp, &request), 0);
    assert_int_equal(completion_of(stage, &stage->one).status, UROCE_SUCCESS);
    memcpy(&value, stage->one.memory, sizeof value);
    assert_int_equal(value, 42);
    request = request_of(stage, UROCE_RDMA_READ, &sge);
    assert_int_equal(uroce_qp_send(stage->one.qp, &request), 0);
    assert_int_equal(completion_of(stage, &stage->one).length, 8);
    memcpy(&value, stage->one.memory, sizeof value);
    assert_int_equal(value, 77);
    close_stage(stage);
}

/* The receiver's frames are in shared memory. Some have a payload, some are not for a queue pair,
 * and a call delivers several frames. */
static void input__shared_frames__are_received_like_other_frames(void **state)
{
    struct stage *stage = open_stage(UROCE_RC);
    const struct uroce_sge from = element(&stage->one, 0, 200), to = element(&stage->two, 0, 200);
    const struct uroce_send send = request_of(stage, UROCE_SEND, &from);
    static uint8_t long_frames[2][12000];
    struct uroce_packet packets[2];
    uint64_t before, after;

    (void)state;
    stage->shared = 1;
    memset(stage->one.memory, 'x', 200);
    assert_int_equal(uroce_qp_receive(stage->two.qp, 1, &to, 1), 0);
    assert_int_equal(uroce_qp_send(stage->one.qp, &send), 0);
    assert_int_equal(completion_of(stage, &stage->two).length, 200);
    assert_memory_equal(stage->two.memory, stage->one.memory, 200);
    assert_int_equal(completion_of(stage, &stage->one).status, UROCE_SUCCESS);
    assert_int_equal(uroce_engine_counter(stage->one.engine, "drop_ether_type", &before), 0);
    for (int i = 0; i < 2; i++)
        packets[i] = (struct uroce_packet){ long_frames[i], sizeof long_frames[i], 1 };
    assert_int_equal(uroce_engine_input(stage->one.engine, packets, 2, stage->now), 0);
    assert_int_equal(uroce_engine_counter(stage->one.engine, "drop_ether_type", &after), 0);
    assert_int_equal(after, before + 2);
    close_stage(stage);
}

static void ud__datagram__follows_the_grh(void **state)
{
    struct stage *stage = open_stage(UROCE_UD);
    const struct uroce_sge from = element(&stage->one, 0, 3), to = element(&stage->two, 0, 64);
    struct uroce_send send = request_of(stage, UROCE_SEND, &from);
    struct uroce_address address = { .sgid_index = 1 };

    (void)state;
    memcpy(stage->one.memory, "abc", 3);
    assert_int_equal(uroce_gid_parse(addresses[1], address.gid), 0);
    assert_int_equal(uroce_qp_send(stage->one.qp, &send), -EINVAL); /* no address handle */
    assert_int_equal(uroce_ah_create(stage->one.pd, &address, stage->now, &send.ah), 0);
    send.remote_qpn = uroce_qp_number(stage->two.qp);
    send.remote_qkey = QKEY;
    assert_int_equal(uroce_qp_receive(stage->two.qp, 1, &to, 1), 0);
    assert_int_equal(uroce_qp_send(stage->one.qp, &send), 0);
    struct uroce_completion got = completion_of(stage, &stage->two);
    assert_int_equal(got.length, 43);
    assert_int_equal(got.flags, UROCE_COMPLETION_GRH);
    assert_int_equal(got.source_qpn, uroce_qp_number(stage->one.qp));
    assert_int_equal(got.service_level, 10); /* IPv4 */
    assert_memory_equal(stage->two.memory + 40, "abc", 3);
    assert_int_equal(uroce_ah_destroy(send.ah), 0);
    close_stage(stage);
}

static void rc__wrong_key__both_sides_have_the_reason(void **state)
{
    struct stage *stage = open_stage(UROCE_RC);
    const struct uroce_sge sge = element(&stage->one, 0, 8);
    struct uroce_send request = request_of(stage, UROCE_RDMA_WRITE, &sge);

    (void)state;
    request.rkey++;
    assert_int_equal(uroce_qp_send(stage->one.qp, &request), 0);
    struct uroce_completion failed = completion_of(stage, &stage->one);
    assert_int_equal(failed.status, UROCE_REM_ACCESS_ERR);
    assert_int_equal(failed.reason, uroce_qp_reason(stage->one.qp));
    assert_non_null(strstr(uroce_failure_text(failed.reason), "refused the remote key"));
    assert_non_null(
        strstr(uroce_failure_text(uroce_qp_reason(stage->two.qp)), "used a wrong remote key"));
    assert_int_equal(uroce_qp_state(stage->two.qp), UROCE_ERR);
    /* In ERR, posted requests are flushed. */
    assert_int_equal(uroce_qp_receive(stage->two.qp, 5, NULL, 0), 0);
    assert_int_equal(completion_of(stage, &stage->two).status, UROCE_WR_FLUSH_ERR);
    close_stage(stage);
}

/* ---- wrong arguments ---------------------------------------------------- */

static void engine_create__wrong_value__refused(void **state)
{
    struct uroce_engine *engine = NULL;
    struct {
        struct uroce_engine_config config;
        uint64_t later;
    } longer;

    (void)state;
    struct uroce_engine_config config = engine_config(1);
    assert_int_equal(uroce_engine_create(NULL, 0, &engine), -EINVAL);
    assert_int_equal(uroce_engine_create(&config, 0, NULL), -EINVAL);
    config.size--;
    assert_int_equal(uroce_engine_create(&config, 0, &engine), -EINVAL);

    struct uroce_engine_config wrong[8];
    for (int i = 0; i < 8; i++)
        wrong[i] = engine_config(1);
    wrong[0].mac[0] = 1;
    wrong[1].mtu = 575;
    wrong[2].mtu = 9601;
    wrong[3].address_count = UROCE_ADDRESSES_MAX + 1;
    wrong[4].vlan = 4095;
    wrong[5].window = 65537;
    wrong[6].addresses[0].prefix = 33;
    wrong[7].reorder_buffer = 4097;
    for (int i = 0; i < 8; i++)
        assert_int_equal(uroce_engine_create(&wrong[i], 0, &engine), -EINVAL);

    memset(&longer, 0, sizeof longer);
    longer.config = engine_config(1);
    longer.config.size = sizeof longer;
    assert_int_equal(uroce_engine_create(&longer.config, 0, &engine), 0);
    assert_int_equal(uroce_engine_destroy(engine), 0);
    longer.later = 1;
    assert_int_equal(uroce_engine_create(&longer.config, 0, &engine), -E2BIG);
    assert_int_equal(uroce_engine_destroy(NULL), -EINVAL);
    uint8_t gid[UROCE_GID_SIZE];
    assert_int_equal(uroce_gid_parse("10.0.0", gid), -EINVAL);
    assert_int_equal(uroce_gid_parse(NULL, gid), -EINVAL);
}

static void engine__wrong_argument__refused_and_nothing_changed(void **state)
{
    struct stage *stage = open_stage(UROCE_RC);
    struct uroce_engine *engine = stage->one.engine;
    static uint8_t bytes[ROOM];
    struct uroce_buffer buffer = { bytes, ROOM - 1, 0 };
    struct uroce_packet packet = { .length = 60 };
    struct uroce_event event;
    uint64_t value;

    (void)state;
    assert_int_equal(uroce_engine_frame_max(engine), ROOM);
    assert_int_equal(uroce_engine_output(engine, &buffer, 1, 0), -EINVAL);
    assert_int_equal(uroce_engine_output(engine, NULL, 1, 0), -EINVAL);
    assert_int_equal(uroce_engine_output(NULL, &buffer, 1, 0), -EINVAL);
    assert_int_equal(uroce_engine_input(engine, &packet, 1, 0), -EINVAL);
    assert_int_equal(uroce_engine_input(engine, NULL, 1, 0), -EINVAL);
    assert_int_equal(uroce_engine_event(engine, NULL), -EINVAL);
    assert_int_equal(uroce_engine_event(NULL, &event), -EINVAL);
    assert_int_equal(uroce_engine_link(NULL, 1, 0), -EINVAL);
    assert_true(uroce_engine_next(NULL) == UROCE_TIME_NEVER);
    assert_int_equal(uroce_engine_counter(engine, "tx_roce", &value), 0);
    assert_int_equal(uroce_engine_counter(engine, "none", &value), -ENOENT);
    assert_int_equal(uroce_engine_counter(engine, NULL, &value), -EINVAL);

    assert_int_equal(uroce_engine_link(engine, 1, 1000), 0);
    assert_int_equal(uroce_engine_link(engine, 1, 999), -EINVAL); /* time goes back */
    assert_int_equal(uroce_engine_input(engine, NULL, 0, 999), -EINVAL);
    stage->now = 1000;
    packet = (struct uroce_packet){ .bytes = bytes }; /* a frame may have any length */
    assert_int_equal(uroce_engine_input(engine, &packet, 1, 1000), 0);
    assert_int_equal(uroce_engine_counter(engine, "drop_short", &value), 0);
    assert_int_equal(value, 1);
    close_stage(stage);
}

static void objects__wrong_argument__refused(void **state)
{
    struct stage *stage = open_stage(UROCE_RC);
    struct side *one = &stage->one;
    struct uroce_mr *mr;
    struct uroce_cq *cq;
    struct uroce_qp *qp;
    struct uroce_ah *ah;
    struct uroce_address address = { .sgid_index = 9 };

    (void)state;
    assert_int_equal(uroce_pd_create(NULL, NULL), -EINVAL);
    assert_int_equal(uroce_mr_create(one->pd, one->memory, 0, ACCESS, &mr), -EINVAL);
    assert_int_equal(uroce_mr_create(one->pd, one->memory, SIZE_MAX, ACCESS, &mr), -EINVAL);
    assert_int_equal(uroce_mr_create(one->pd, one->memory, SIZE, UROCE_ACCESS_REMOTE_WRITE, &mr),
                     -EINVAL);
    assert_int_equal(uroce_mr_create(one->pd, one->memory, SIZE, 1u << 20, &mr), -EINVAL);
    assert_int_equal(uroce_mr_create(one->pd, NULL, SIZE, ACCESS, &mr), -EINVAL);
    assert_int_equal(uroce_cq_create(one->engine, 0, NULL, &cq), -EINVAL);
    assert_int_equal(uroce_cq_create(one->engine, 1u << 22, NULL, &cq), -EINVAL);
    assert_int_equal(uroce_cq_poll(one->cq, NULL, 1), -EINVAL);
    assert_int_equal(uroce_cq_poll(NULL, NULL, 0), -EINVAL);
    assert_int_equal(uroce_ah_create(one->pd, &address, stage->now, &ah), -EINVAL);
    address.sgid_index = 1;
    assert_int_equal(uroce_gid_parse("192.168.0.1", address.gid), 0);
    assert_int_equal(uroce_ah_create(one->pd, &address, stage->now, &ah), -ENETUNREACH);

    struct uroce_qp_config wrong[6];
    for (int i = 0; i < 6; i++)
        wrong[i] = qp_config(one, UROCE_RC);
    wrong[0].send_cq = NULL;
    wrong[1].recv_cq = stage->two.cq;
    wrong[2].type = (enum uroce_qp_type)5;
    wrong[3].send_sge_max = 33;
    wrong[4].inline_max = 1025;
    wrong[5].size = 8;
    for (int i = 0; i < 6; i++)
        assert_int_equal(uroce_qp_create(one->pd, &wrong[i], &qp), -EINVAL);

    struct uroce_qp_attr attr = { .state = UROCE_INIT };
    assert_int_equal(uroce_qp_modify(one->qp, &attr, UROCE_ATTR_STATE, stage->now), -EINVAL);
    attr.state = UROCE_RESET;
    attr.reserved[6] = 1;
    assert_int_equal(uroce_qp_modify(one->qp, &attr, UROCE_ATTR_STATE, stage->now), -EINVAL);
    assert_int_equal(uroce_qp_modify(one->qp, NULL, UROCE_ATTR_STATE, stage->now), -EINVAL);
    assert_int_equal(uroce_qp_state(one->qp), UROCE_RTS);
    close_stage(stage);
}

static void post__wrong_request__refused(void **state)
{
    struct stage *stage = open_stage(UROCE_UC);
    const struct uroce_sge sge = element(&stage->one, 0, 64);
    const struct uroce_send right = request_of(stage, UROCE_RDMA_WRITE, &sge);
    struct uroce_send wrong[6];

    (void)state;
    for (int i = 0; i < 6; i++)
        wrong[i] = right;
    wrong[0].opcode = UROCE_RDMA_READ; /* UC has no READ */
    wrong[1].opcode = (enum uroce_opcode)13;
    wrong[2].flags = 1u << 9;
    wrong[3].flags = UROCE_INLINE; /* 64 bytes, but at most 32 can be inline */
    wrong[4].sge_count = 3;
    wrong[5].sges = NULL;
    for (int i = 0; i < 6; i++)
        assert_int_equal(uroce_qp_send(stage->one.qp, &wrong[i]), -EINVAL);
    assert_int_equal(uroce_qp_send(NULL, &right), -EINVAL);
    assert_int_equal(uroce_qp_receive(stage->one.qp, 0, &sge, 3), -EINVAL);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(uroce_qp_send(stage->one.qp, &right), 0);
        assert_int_equal(uroce_qp_receive(stage->one.qp, 0, &sge, 1), 0);
    }
    assert_int_equal(uroce_qp_send(stage->one.qp, &right), -ENOMEM);
    assert_int_equal(uroce_qp_receive(stage->one.qp, 0, &sge, 1), -ENOMEM);
    const struct uroce_qp_attr reset = { .state = UROCE_RESET };
    assert_int_equal(uroce_qp_modify(stage->one.qp, &reset, UROCE_ATTR_STATE, stage->now), 0);
    assert_int_equal(uroce_qp_send(stage->one.qp, &right), -EINVAL);
    assert_int_equal(uroce_qp_receive(stage->one.qp, 0, &sge, 1), -EINVAL);
    close_stage(stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc__send__arrives_in_the_receive),
        cmocka_unit_test(rc__write_read_and_atomics__move_the_bytes),
        cmocka_unit_test(input__shared_frames__are_received_like_other_frames),
        cmocka_unit_test(ud__datagram__follows_the_grh),
        cmocka_unit_test(rc__wrong_key__both_sides_have_the_reason),
        cmocka_unit_test(engine_create__wrong_value__refused),
        cmocka_unit_test(engine__wrong_argument__refused_and_nothing_changed),
        cmocka_unit_test(objects__wrong_argument__refused),
        cmocka_unit_test(post__wrong_request__refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
