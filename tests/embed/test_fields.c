/* SPDX-License-Identifier: BSD-3-Clause */
/* test_fields.c - tests the effect of single fields of uroce/engine.h and uroce/objects.h, with one
 * engine and queue pairs that are connected to themselves. */
#include "support/check.h"

#include <errno.h>
#include <string.h>

#include <uroce/objects.h>
#include <uroce/uroce.h>

#define ROOM     1518
#define ACCESS   0xfu
#define QKEY     0x11111111u
#define RECEIVES 20u

static struct uroce_engine *engine;
static struct uroce_pd *pd;
static struct uroce_cq *cq;
static struct uroce_mr *mr;
static _Alignas(8) char memory[8192];

static struct uroce_engine_config config_of(void)
{
    struct uroce_engine_config config = { .size = sizeof config,
                                          .mac = { 2, 0, 0, 0, 0, 1 },
                                          .mtu = 1500,
                                          .address_count = 1,
                                          .seed = { 1 } };

    config.addresses[0].prefix = 24;
    assert_int_equal(uroce_gid_parse("10.0.0.1", config.addresses[0].gid), 0);
    return config;
}

static void open_engine(const struct uroce_engine_config *config)
{
    assert_int_equal(uroce_engine_create(config, 0, &engine), 0);
    assert_int_equal(uroce_pd_create(engine, &pd), 0);
    assert_int_equal(uroce_cq_create(engine, 64, NULL, &cq), 0);
    assert_int_equal(uroce_mr_create(pd, memory, sizeof memory, ACCESS, &mr), 0);
}

static int start(void **state)
{
    const struct uroce_engine_config config = config_of();

    (void)state;
    open_engine(&config);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    assert_int_equal(uroce_mr_destroy(mr), 0);
    assert_int_equal(uroce_cq_destroy(cq), 0);
    assert_int_equal(uroce_pd_destroy(pd), 0);
    assert_int_equal(uroce_engine_destroy(engine), 0);
    return 0;
}

static struct uroce_qp *make_qp(enum uroce_qp_type type, int signal_all)
{
    const struct uroce_qp_config config = { .size = sizeof config,
                                            .type = type,
                                            .send_cq = cq,
                                            .recv_cq = cq,
                                            .send_capacity = 4,
                                            .recv_capacity = RECEIVES,
                                            .send_sge_max = 2,
                                            .recv_sge_max = 2,
                                            .inline_max = 32,
                                            .signal_all = signal_all };
    struct uroce_qp *qp;

    assert_int_equal(uroce_qp_create(pd, &config, &qp), 0);
    return qp;
}

/* Moves an RC or UD queue pair to @state, connected to itself. */
static void go(struct uroce_qp *qp, enum uroce_qp_type type, enum uroce_qp_state state)
{
    struct uroce_qp_attr attr = { .state = UROCE_INIT,
                                  .port = 1,
                                  .access = 0xe,
                                  .qkey = QKEY,
                                  .path_mtu = 1024,
                                  .dest_qpn = uroce_qp_number(qp),
                                  .max_rd_atomic = 1,
                                  .max_dest_rd_atomic = 1,
                                  .timeout = 8,
                                  .address = { .sgid_index = 1 } };
    const unsigned init = UROCE_ATTR_STATE | UROCE_ATTR_PORT | UROCE_ATTR_PKEY_INDEX;
    unsigned rtr = UROCE_ATTR_STATE, rts = UROCE_ATTR_STATE | UROCE_ATTR_SQ_PSN;

    assert_int_equal(uroce_gid_parse("10.0.0.1", attr.address.gid), 0);
    if (type == UROCE_RC) {
        rtr |= UROCE_ATTR_AV | UROCE_ATTR_PATH_MTU | UROCE_ATTR_DEST_QPN | UROCE_ATTR_RQ_PSN |
               UROCE_ATTR_MAX_DEST_RD_ATOMIC | UROCE_ATTR_MIN_RNR_TIMER;
        rts |= UROCE_ATTR_TIMEOUT | UROCE_ATTR_RETRY_CNT | UROCE_ATTR_RNR_RETRY |
               UROCE_ATTR_MAX_RD_ATOMIC;
    }
    assert_int_equal(
        uroce_qp_modify(qp, &attr, init | (type == UROCE_RC ? UROCE_ATTR_ACCESS : UROCE_ATTR_QKEY),
                        0),
        0);
    attr.state = UROCE_RTR;
    assert_int_equal(uroce_qp_modify(qp, &attr, rtr, 0), 0);
    attr.state = UROCE_RTS;
    if (state == UROCE_RTS)
        assert_int_equal(uroce_qp_modify(qp, &attr, rts, 0), 0);
}

static struct uroce_sge element(uint32_t at, uint32_t length)
{
    return (struct uroce_sge){ (uintptr_t)memory + at, length, uroce_mr_key(mr) };
}

/* Returns a WRITE of 3 bytes from the start of the memory to its byte 64. */
static struct uroce_send write_of(const struct uroce_sge *sge)
{
    return (struct uroce_send){ .wr_id = 7,
                                .opcode = UROCE_RDMA_WRITE,
                                .flags = UROCE_SIGNALED,
                                .sges = sge,
                                .sge_count = 1,
                                .remote_address = (uintptr_t)memory + 64,
                                .rkey = uroce_mr_key(mr) };
}

/* Runs the engine for several rounds. Returns the last frame that it sent. */
static const uint8_t *run(void)
{
    static uint8_t bytes[ROOM];
    struct uroce_buffer buffer = { bytes, ROOM, 0 };
    struct uroce_event event;

    memset(bytes, 0, sizeof bytes);
    for (int i = 0; i < 8; i++) {
        assert_in_range(uroce_engine_output(engine, &buffer, 1, 0), 0, 1);
        assert_int_equal(uroce_engine_input(engine, NULL, 0, 0), 0);
        while (uroce_engine_event(engine, &event) == 1)
            ;
    }
    return bytes;
}

static enum uroce_status next_status(void)
{
    struct uroce_completion completion = { 0 };

    assert_int_equal(uroce_cq_poll(cq, &completion, 1), 1);
    return (enum uroce_status)completion.status;
}

static void signal_all__request_without_the_flag__completes(void **state)
{
    struct uroce_qp *qp = make_qp(UROCE_RC, 1);
    const struct uroce_sge sge = element(0, 3);
    struct uroce_send send = write_of(&sge);

    (void)state;
    go(qp, UROCE_RC, UROCE_RTS);
    send.flags = 0;
    assert_int_equal(uroce_qp_send(qp, &send), 0);
    (void)run();
    assert_int_equal(next_status(), UROCE_SUCCESS);
    assert_int_equal(uroce_qp_destroy(qp), 0);
}

static void inline__two_elements__are_joined(void **state)
{
    struct uroce_qp *qp = make_qp(UROCE_RC, 0);
    const struct uroce_sge sges[] = { element(0, 3), element(8, 2) };
    struct uroce_send send = write_of(sges);

    (void)state;
    go(qp, UROCE_RC, UROCE_RTS);
    memcpy(memory, "abc.....de", 10);
    send.flags |= UROCE_INLINE;
    send.sge_count = 2;
    assert_int_equal(uroce_qp_send(qp, &send), 0);
    memset(memory, 0, 64); /* the bytes were copied */
    (void)run();
    assert_int_equal(next_status(), UROCE_SUCCESS);
    assert_memory_equal(memory + 64, "abcde", 5);
    assert_int_equal(uroce_qp_destroy(qp), 0);
}

static void mr__destroyed_or_of_another_pd__peers_have_no_access(void **state)
{
    struct uroce_pd *other;
    struct uroce_mr *wrong;

    (void)state;
    assert_int_equal(uroce_pd_create(engine, &other), 0);
    assert_int_equal(uroce_mr_create(other, memory, sizeof memory, ACCESS, &wrong), 0);
    for (int turn = 0; turn < 2; turn++) {
        struct uroce_qp *qp = make_qp(UROCE_RC, 0);
        const struct uroce_sge sge = element(0, 3);
        struct uroce_send send = write_of(&sge);
        go(qp, UROCE_RC, UROCE_RTS);
        if (turn == 0) {
            send.rkey = uroce_mr_key(wrong);
        } else {
            struct uroce_mr *gone;
            assert_int_equal(uroce_mr_create(pd, memory, sizeof memory, ACCESS, &gone), 0);
            send.rkey = uroce_mr_key(gone);
            assert_int_equal(uroce_mr_destroy(gone), 0);
        }
        assert_int_equal(uroce_qp_send(qp, &send), 0);
        (void)run();
        assert_int_not_equal(next_status(), UROCE_SUCCESS);
        assert_int_equal(uroce_qp_destroy(qp), 0);
    }
    assert_int_equal(uroce_mr_destroy(wrong), 0);
    assert_int_equal(uroce_pd_destroy(other), 0);
}

/* The engine's own function returns fewer completions at a time, so uroce_cq_poll() calls it
 * again. */
static void poll__20_completions__one_call_returns_all(void **state)
{
    struct uroce_qp *qp = make_qp(UROCE_RC, 0);
    const struct uroce_qp_attr error = { .state = UROCE_ERR };
    struct uroce_completion completions[32];

    (void)state;
    go(qp, UROCE_RC, UROCE_RTS);
    for (uint64_t i = 0; i < RECEIVES; i++)
        assert_int_equal(uroce_qp_receive(qp, i, NULL, 0), 0);
    assert_int_equal(uroce_qp_modify(qp, &error, UROCE_ATTR_STATE, 0), 0);
    (void)run();
    assert_int_equal(uroce_cq_poll(cq, completions, 32), RECEIVES);
    for (uint64_t i = 0; i < RECEIVES; i++)
        assert_int_equal(completions[i].wr_id, i);
    assert_int_equal(uroce_qp_destroy(qp), 0);
}

static void qp__destroyed__completions_are_removed(void **state)
{
    struct uroce_qp *qp = make_qp(UROCE_RC, 0);
    const struct uroce_qp_attr error = { .state = UROCE_ERR };
    struct uroce_completion completion;

    (void)state;
    go(qp, UROCE_RC, UROCE_RTS);
    assert_int_equal(uroce_qp_receive(qp, 1, NULL, 0), 0);
    assert_int_equal(uroce_qp_modify(qp, &error, UROCE_ATTR_STATE, 0), 0);
    (void)run();
    assert_int_equal(uroce_qp_destroy(qp), 0);
    assert_int_equal(uroce_cq_poll(cq, &completion, 1), 0);
}

static void post__request_that_the_operation_forbids__refused(void **state)
{
    struct uroce_qp *rc = make_qp(UROCE_RC, 0), *rtr = make_qp(UROCE_RC, 0);
    const struct uroce_sge sge = element(0, 8), four = element(0, 4);
    struct uroce_send send = write_of(&sge);

    (void)state;
    go(rc, UROCE_RC, UROCE_RTS);
    go(rtr, UROCE_RC, UROCE_RTR);
    assert_int_equal(uroce_qp_send(rtr, &send), -EINVAL);
    send.opcode = UROCE_RDMA_READ;
    send.flags |= UROCE_INLINE; /* a READ writes to its elements */
    assert_int_equal(uroce_qp_send(rc, &send), -EINVAL);
    send.opcode = UROCE_FETCH_ADD;
    send.flags = UROCE_SIGNALED;
    send.sges = &four; /* an atomic returns 8 bytes */
    assert_int_equal(uroce_qp_send(rc, &send), -EINVAL);
    assert_int_equal(uroce_qp_destroy(rtr), 0);
    assert_int_equal(uroce_qp_destroy(rc), 0);
}

static void modify__unknown_access_bit_or_state__refused(void **state)
{
    struct uroce_qp *qp = make_qp(UROCE_RC, 0);
    struct uroce_qp_attr attr = { .state = UROCE_INIT, .port = 1, .access = 1u << 20 };
    const unsigned init = UROCE_ATTR_STATE | UROCE_ATTR_PORT | UROCE_ATTR_PKEY_INDEX;

    (void)state;
    assert_int_equal(uroce_qp_modify(qp, &attr, init | UROCE_ATTR_ACCESS, 0), -EINVAL);
    attr.access = 0;
    attr.pkey_index = 1;
    assert_int_equal(uroce_qp_modify(qp, &attr, init | UROCE_ATTR_ACCESS, 0), -EINVAL);
    attr.state = (enum uroce_qp_state)(UROCE_ERR + 1);
    assert_int_equal(uroce_qp_modify(qp, &attr, UROCE_ATTR_STATE, 0), -EINVAL);
    assert_int_equal(uroce_qp_destroy(qp), 0);
}

static void ud__wrong_handle_number_or_length__refused(void **state)
{
    struct uroce_qp *qp = make_qp(UROCE_UD, 0);
    const struct uroce_sge sge = element(0, 3), longer = element(0, 4097);
    struct uroce_address address = { .sgid_index = 1 };
    struct uroce_send right = write_of(&sge), send;
    struct uroce_ah *foreign;
    struct uroce_pd *other;

    (void)state;
    go(qp, UROCE_UD, UROCE_RTS);
    assert_int_equal(uroce_gid_parse("10.0.0.1", address.gid), 0);
    assert_int_equal(uroce_pd_create(engine, &other), 0);
    assert_int_equal(uroce_ah_create(other, &address, 0, &foreign), 0);
    right.opcode = UROCE_SEND;
    right.remote_qpn = uroce_qp_number(qp);
    assert_int_equal(uroce_ah_create(pd, &address, 0, &right.ah), 0);
    send = right;
    send.ah = foreign;
    assert_int_equal(uroce_qp_send(qp, &send), -EINVAL);
    send = right;
    send.remote_qpn = 1u << 24;
    assert_int_equal(uroce_qp_send(qp, &send), -EINVAL);
    send = right;
    send.sges = &longer;
    assert_int_equal(uroce_qp_send(qp, &send), -EINVAL);
    send = right;
    send.opcode = UROCE_RDMA_WRITE;
    assert_int_equal(uroce_qp_send(qp, &send), -EINVAL);
    assert_int_equal(uroce_qp_send(qp, &right), 0);
    assert_int_equal(uroce_ah_destroy(foreign), 0);
    assert_int_equal(uroce_ah_destroy(right.ah), 0);
    assert_int_equal(uroce_pd_destroy(other), 0);
    assert_int_equal(uroce_qp_destroy(qp), 0);
}

/* The engine asks for the gateway's MAC address, in the VLAN. */
static void vlan_and_gateway__destination_elsewhere__arp_request(void **state)
{
    struct uroce_engine_config config = config_of();
    struct uroce_address address = { .sgid_index = 1 };
    static const uint8_t tag[] = { 0x81, 0, 0, 5, 8, 6 }, gateway[] = { 10, 0, 0, 9 };
    struct uroce_ah *ah;

    (void)state;
    config.vlan = 5;
    assert_int_equal(uroce_gid_parse("10.0.0.9", config.gateway4), 0);
    open_engine(&config);
    assert_int_equal(uroce_gid_parse("192.168.0.1", address.gid), 0);
    assert_int_equal(uroce_ah_create(pd, &address, 0, &ah), 0);
    const uint8_t *frame = run();
    assert_memory_equal(frame + 12, tag, sizeof tag);
    assert_memory_equal(frame + 18 + 24, gateway, sizeof gateway);
    assert_int_equal(uroce_ah_destroy(ah), 0);
    (void)stop(state);
}

static void seed__different__different_queue_pair_numbers(void **state)
{
    uint32_t numbers[2];

    for (uint8_t i = 0; i < 2; i++) {
        struct uroce_engine_config config = config_of();
        config.seed[0] = i;
        open_engine(&config);
        struct uroce_qp *qp = make_qp(UROCE_RC, 0);
        numbers[i] = uroce_qp_number(qp);
        assert_int_equal(uroce_qp_destroy(qp), 0);
        (void)stop(state);
    }
    assert_int_not_equal(numbers[0], numbers[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define WITH_ENGINE(name) cmocka_unit_test_setup_teardown(name, start, stop)
        WITH_ENGINE(signal_all__request_without_the_flag__completes),
        WITH_ENGINE(inline__two_elements__are_joined),
        WITH_ENGINE(mr__destroyed_or_of_another_pd__peers_have_no_access),
        WITH_ENGINE(poll__20_completions__one_call_returns_all),
        WITH_ENGINE(qp__destroyed__completions_are_removed),
        WITH_ENGINE(post__request_that_the_operation_forbids__refused),
        WITH_ENGINE(modify__unknown_access_bit_or_state__refused),
        WITH_ENGINE(ud__wrong_handle_number_or_length__refused),
        cmocka_unit_test(vlan_and_gateway__destination_elsewhere__arp_request),
        cmocka_unit_test(seed__different__different_queue_pair_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
