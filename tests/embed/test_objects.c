/* SPDX-License-Identifier: BSD-3-Clause */
/* test_objects.c - tests windows, shared receive queues, XRC, multicast, and the less common
 * operations of uroce/objects.h. Queue pairs of one engine are connected to each other. */
#include "support/check.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include <uroce/objects.h>
#include <uroce/uroce.h>

#define ROOM   1518
#define ALL    0x31fu /* every access flag except ZERO_BASED */
#define QKEY   0x11111111u
#define HALF   4096u
#define GROUP  "239.1.2.3"
#define FRAMES 8

static struct uroce_engine *engine;
static struct uroce_pd *pd;
static struct uroce_cq *cq;
static struct uroce_mr *mr;
static _Alignas(8) uint8_t memory[2 * HALF];
static uint64_t now;

static int start(void **state)
{
    struct uroce_engine_config config = { .size = sizeof config,
                                          .mac = { 2, 0, 0, 0, 0, 1 },
                                          .mtu = 1500,
                                          .address_count = 1,
                                          .seed = { 1 } };

    (void)state;
    now = 0;
    config.addresses[0].prefix = 24;
    assert_int_equal(uroce_gid_parse("10.0.0.1", config.addresses[0].gid), 0);
    assert_int_equal(uroce_engine_create(&config, 0, &engine), 0);
    assert_int_equal(uroce_pd_create(engine, &pd), 0);
    assert_int_equal(uroce_cq_create(engine, 64, NULL, &cq), 0);
    assert_int_equal(uroce_mr_create(pd, memory, sizeof memory, ALL, &mr), 0);
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

static struct uroce_qp_config config_of(enum uroce_qp_type type)
{
    const bool sends = type != UROCE_XRC_TGT, receives = type <= UROCE_UD;

    return (struct uroce_qp_config){ .size = sizeof(struct uroce_qp_config),
                                     .type = type,
                                     .send_cq = sends ? cq : NULL,
                                     .recv_cq = receives ? cq : NULL,
                                     .send_capacity = sends ? 4 : 0,
                                     .recv_capacity = receives ? 4 : 0,
                                     .send_sge_max = 2,
                                     .recv_sge_max = 2,
                                     .inline_max = 32 };
}

static struct uroce_qp *make(const struct uroce_qp_config *config)
{
    struct uroce_qp *qp;

    assert_int_equal(uroce_qp_create(pd, config, &qp), 0);
    return qp;
}

static void modify(struct uroce_qp *qp, struct uroce_qp_attr *attr, enum uroce_qp_state state,
                   unsigned mask)
{
    attr->state = state;
    assert_int_equal(uroce_qp_modify(qp, attr, mask | UROCE_ATTR_STATE, now), 0);
}

static void connect(struct uroce_qp *qp, enum uroce_qp_type type, uint32_t dest)
{
    const bool ud = type == UROCE_UD, serves = type == UROCE_RC || type == UROCE_XRC_TGT,
               asks = type == UROCE_RC || type == UROCE_XRC_INI;
    struct uroce_qp_attr attr = { .port = 1,
                                  .access = ALL & ~0x11u,
                                  .qkey = QKEY,
                                  .path_mtu = 1024,
                                  .dest_qpn = dest,
                                  .max_rd_atomic = 2,
                                  .max_dest_rd_atomic = 2,
                                  .timeout = 8,
                                  .address = { .sgid_index = 1 } };

    assert_int_equal(uroce_gid_parse("10.0.0.1", attr.address.gid), 0);
    modify(qp, &attr, UROCE_INIT,
           UROCE_ATTR_PORT | UROCE_ATTR_PKEY_INDEX | (ud ? UROCE_ATTR_QKEY : UROCE_ATTR_ACCESS));
    modify(
        qp, &attr, UROCE_RTR,
        (ud ? 0u : UROCE_ATTR_AV | UROCE_ATTR_PATH_MTU | UROCE_ATTR_DEST_QPN | UROCE_ATTR_RQ_PSN) |
            (serves ? UROCE_ATTR_MAX_DEST_RD_ATOMIC | UROCE_ATTR_MIN_RNR_TIMER : 0u));
    modify(
        qp, &attr, UROCE_RTS,
        UROCE_ATTR_SQ_PSN | (serves || asks ? UROCE_ATTR_TIMEOUT : 0u) |
            (asks ? UROCE_ATTR_RETRY_CNT | UROCE_ATTR_RNR_RETRY | UROCE_ATTR_MAX_RD_ATOMIC : 0u));
}

/* Returns an RC queue pair in RTS that is connected to itself. */
static struct uroce_qp *rc(void)
{
    const struct uroce_qp_config config = config_of(UROCE_RC);
    struct uroce_qp *qp = make(&config);

    connect(qp, UROCE_RC, uroce_qp_number(qp));
    return qp;
}

static struct uroce_sge element(uint32_t at, uint32_t length)
{
    return (struct uroce_sge){ (uintptr_t)memory + at, length, uroce_mr_key(mr) };
}

/* Runs the engine for several rounds. Returns the kind of the last event, or -1. */
static int run(void)
{
    static uint8_t bytes[FRAMES][ROOM];
    struct uroce_buffer buffers[FRAMES];
    struct uroce_event event;
    int last = -1;

    for (int i = 0; i < FRAMES; i++)
        buffers[i] = (struct uroce_buffer){ bytes[i], ROOM, 0 };
    for (int i = 0; i < 16; i++) {
        assert_true(uroce_engine_output(engine, buffers, FRAMES, now) >= 0);
        while (uroce_engine_event(engine, &event) == 1)
            last = (int)event.kind;
    }
    return last;
}

static struct uroce_completion next_completion(void)
{
    struct uroce_completion completion = { 0 };

    assert_int_equal(uroce_cq_poll(cq, &completion, 1), 1);
    return completion;
}

static enum uroce_status do_send(struct uroce_qp *qp, const struct uroce_send *send)
{
    assert_int_equal(uroce_qp_send(qp, send), 0);
    (void)run();
    return (enum uroce_status)next_completion().status;
}

/* ---- operations --------------------------------------------------------- */

static void send__atomic_write_and_flush__reach_the_memory(void **state)
{
    struct uroce_qp *qp = rc();
    const struct uroce_sge sge = element(0, 8);
    struct uroce_send send = { .opcode = UROCE_ATOMIC_WRITE,
                               .flags = UROCE_SIGNALED,
                               .sges = &sge,
                               .sge_count = 1,
                               .remote_address = (uintptr_t)memory + HALF,
                               .rkey = uroce_mr_key(mr) };

    (void)state;
    memcpy(memory, "8 bytes.", 8);
    assert_int_equal(do_send(qp, &send), UROCE_SUCCESS);
    assert_memory_equal(memory + HALF, "8 bytes.", 8);
    send = (struct uroce_send){ .opcode = UROCE_FLUSH,
                                .flags = UROCE_SIGNALED,
                                .remote_address = (uintptr_t)memory,
                                .rkey = uroce_mr_key(mr),
                                .flush_length = 100,
                                .flush_placement = UROCE_FLUSH_GLOBAL };
    assert_int_equal(uroce_qp_send(qp, &send), 0);
    (void)run();
    const struct uroce_completion done = next_completion();
    assert_int_equal(done.status, UROCE_SUCCESS);
    assert_int_equal(done.opcode, UROCE_DONE_FLUSH);
    assert_int_equal(uroce_qp_destroy(qp), 0);
}

static void post__field_that_the_operation_forbids__refused(void **state)
{
    struct uroce_qp *qp = rc();
    const struct uroce_sge sge = element(0, 8), four = element(0, 4);
    const struct uroce_send flush = { .opcode = UROCE_FLUSH, .flush_placement = 1 },
                            atomic = { .opcode = UROCE_ATOMIC_WRITE, .sges = &sge, .sge_count = 1 };
    struct uroce_send wrong[7];

    (void)state;
    for (int i = 0; i < 4; i++)
        wrong[i] = flush;
    wrong[0].flush_placement = 0;
    wrong[1].flush_placement = 4;
    wrong[2].flush_selectivity = 2;
    wrong[3].sges = &sge; /* FLUSH has no elements */
    wrong[3].sge_count = 1;
    wrong[4] = atomic;
    wrong[4].sges = &four;
    wrong[5] = atomic;
    wrong[5].reserved[5] = 1;
    wrong[6] = atomic;
    wrong[6].remote_srqn = 1u << 24;
    for (int i = 0; i < 7; i++)
        assert_int_equal(uroce_qp_send(qp, &wrong[i]), -EINVAL);
    assert_int_equal(uroce_qp_destroy(qp), 0);
}

/* ---- regions and windows ------------------------------------------------ */

static void mr__with_an_address_of_its_own__is_used_by_that_address(void **state)
{
    struct uroce_qp *qp = rc();
    const struct uroce_sge sge = element(0, 4);
    struct uroce_send send = {
        .opcode = UROCE_RDMA_WRITE, .flags = UROCE_SIGNALED, .sges = &sge, .sge_count = 1
    };
    struct uroce_mr *at, *zero;

    (void)state;
    memcpy(memory, "abcd", 4);
    assert_int_equal(uroce_mr_create_at(pd, memory + HALF, 64, 0x1000, ALL, &at), 0);
    assert_int_equal(uroce_mr_create(pd, memory + HALF, 64, ALL | UROCE_ACCESS_ZERO_BASED, &zero),
                     0);
    send.rkey = uroce_mr_key(at);
    send.remote_address = 0x1002;
    assert_int_equal(do_send(qp, &send), UROCE_SUCCESS);
    send.rkey = uroce_mr_key(zero);
    send.remote_address = 6;
    assert_int_equal(do_send(qp, &send), UROCE_SUCCESS);
    assert_memory_equal(memory + HALF + 2, "abcdabcd", 8);
    assert_int_equal(uroce_mr_destroy(at), 0);
    assert_int_equal(uroce_mr_destroy(zero), 0);
    assert_int_equal(uroce_mr_create_at(pd, memory, 64, UINT64_MAX - 62, ALL, &at), -EINVAL);
    assert_int_equal(uroce_mr_create_at(pd, memory, 64, 0, UROCE_ACCESS_ZERO_BASED, &at), -EINVAL);
    assert_int_equal(uroce_mr_create_at(NULL, memory, 64, 0, ALL, &at), -EINVAL);
    assert_int_equal(uroce_qp_destroy(qp), 0);
}

static struct uroce_send bind_of(struct uroce_mw *mw)
{
    return (struct uroce_send){ .opcode = UROCE_BIND_MW,
                                .flags = UROCE_SIGNALED,
                                .mw = mw,
                                .mr = mr,
                                .rkey = uroce_mw_key(mw) ^ 1,
                                .remote_address = (uintptr_t)memory + HALF,
                                .bind_length = 8,
                                .bind_access = UROCE_ACCESS_REMOTE_WRITE };
}

static void window__bound_then_invalidated__access_allowed_then_refused(void **state)
{
    struct uroce_qp *qp = rc();
    const struct uroce_sge sge = element(0, 8);
    struct uroce_mw *mw;

    (void)state;
    assert_int_equal(uroce_mw_create(pd, UROCE_MW_TYPE_2, &mw), 0);
    assert_int_equal(uroce_mw_is_bound(mw), 0);
    const struct uroce_send bind = bind_of(mw);
    assert_int_equal(do_send(qp, &bind), UROCE_SUCCESS);
    assert_int_equal(uroce_mw_key(mw), bind.rkey);
    assert_int_equal(uroce_mw_is_bound(mw), 1);
    assert_int_equal(uroce_mr_destroy(mr), -EBUSY);
    memcpy(memory, "window..", 8);
    struct uroce_send send = { .opcode = UROCE_RDMA_WRITE,
                               .flags = UROCE_SIGNALED,
                               .sges = &sge,
                               .sge_count = 1,
                               .remote_address = bind.remote_address,
                               .rkey = bind.rkey };
    assert_int_equal(do_send(qp, &send), UROCE_SUCCESS);
    assert_memory_equal(memory + HALF, "window..", 8);

    const struct uroce_sge receive = element(64, 8);
    assert_int_equal(uroce_qp_receive(qp, 1, &receive, 1), 0);
    send.opcode = UROCE_SEND_WITH_INV;
    send.imm = bind.rkey;
    send.flags = 0;
    assert_int_equal(uroce_qp_send(qp, &send), 0);
    (void)run();
    const struct uroce_completion got = next_completion();
    assert_int_equal(got.opcode, UROCE_DONE_RECV);
    assert_int_equal(got.flags, UROCE_COMPLETION_WITH_INV);
    assert_int_equal(got.imm, bind.rkey);
    assert_int_equal(uroce_mw_is_bound(mw), 0);

    const struct uroce_send again = bind_of(mw);
    assert_int_equal(do_send(qp, &again), UROCE_SUCCESS);
    send = (struct uroce_send){ .opcode = UROCE_LOCAL_INV, .flags = UROCE_SIGNALED };
    send.imm = again.rkey;
    assert_int_equal(do_send(qp, &send), UROCE_SUCCESS);
    assert_int_equal(do_send(qp, &send), UROCE_MW_BIND_ERR); /* the window is not bound any more */
    assert_int_equal(uroce_mw_destroy(mw), 0);
    assert_int_equal(uroce_qp_destroy(qp), 0);
}

static void window__wrong_argument__refused(void **state)
{
    struct uroce_qp *qp = rc();
    struct uroce_mw *mw, *foreign;
    struct uroce_pd *other;

    (void)state;
    assert_int_equal(uroce_mw_create(NULL, UROCE_MW_TYPE_1, &mw), -EINVAL);
    assert_int_equal(uroce_mw_create(pd, UROCE_MW_TYPE_1, NULL), -EINVAL);
    assert_int_equal(uroce_mw_create(pd, (enum uroce_mw_type)3, &mw), -EINVAL);
    assert_int_equal(uroce_mw_destroy(NULL), -EINVAL);
    assert_int_equal(uroce_mw_key(NULL), 0);
    assert_int_equal(uroce_mw_is_bound(NULL), 0);
    assert_int_equal(uroce_pd_create(engine, &other), 0);
    assert_int_equal(uroce_mw_create(other, UROCE_MW_TYPE_1, &foreign), 0);
    assert_int_equal(uroce_pd_destroy(other), -EBUSY);
    assert_int_equal(uroce_mw_create(pd, UROCE_MW_TYPE_1, &mw), 0);
    struct uroce_send wrong[3] = { bind_of(mw), bind_of(mw), bind_of(foreign) };
    wrong[0].mw = NULL;
    wrong[1].mr = NULL; /* the length is not 0 */
    for (int i = 0; i < 3; i++)
        assert_int_equal(uroce_qp_send(qp, &wrong[i]), -EINVAL);
    struct uroce_send unbind = bind_of(mw);
    assert_int_equal(do_send(qp, &unbind), UROCE_SUCCESS);
    unbind = bind_of(mw);
    unbind.mr = NULL;
    unbind.bind_length = 0;
    assert_int_equal(do_send(qp, &unbind), UROCE_SUCCESS);
    assert_int_equal(uroce_mw_is_bound(mw), 0);
    assert_int_equal(uroce_mw_destroy(mw), 0);
    assert_int_equal(uroce_mw_destroy(foreign), 0);
    assert_int_equal(uroce_pd_destroy(other), 0);
    assert_int_equal(uroce_qp_destroy(qp), 0);
}

/* ---- shared receive queues ---------------------------------------------- */

static struct uroce_srq_config srq_config(uint32_t capacity)
{
    return (struct uroce_srq_config){ .size = sizeof(struct uroce_srq_config),
                                      .capacity = capacity,
                                      .sge_max = 1 };
}

static void srq__used_by_a_queue_pair__receives_and_raises_the_limit_event(void **state)
{
    const struct uroce_srq_config wanted = srq_config(4);
    struct uroce_qp_config config = config_of(UROCE_RC);
    const struct uroce_sge from = element(0, 4), to = element(HALF, 4);
    const struct uroce_send send = { .opcode = UROCE_SEND, .sges = &from, .sge_count = 1 };
    struct uroce_srq *srq;

    (void)state;
    assert_int_equal(uroce_srq_create(pd, &wanted, &srq), 0);
    assert_int_equal(uroce_srq_number(srq), 0);
    config.srq = srq;
    config.recv_capacity = 0;
    struct uroce_qp *qp = make(&config);
    connect(qp, UROCE_RC, uroce_qp_number(qp));
    assert_int_equal(uroce_srq_destroy(srq), -EBUSY);
    assert_int_equal(uroce_qp_receive(qp, 1, &to, 1), -EINVAL);
    assert_int_equal(uroce_srq_receive(NULL, 1, &to, 1), -EINVAL);
    assert_int_equal(uroce_srq_receive(srq, 1, &to, 2), -EINVAL);
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(uroce_srq_receive(srq, i, &to, 1), 0);
    assert_int_equal(uroce_srq_receive(srq, 9, &to, 1), -ENOMEM);
    assert_int_equal(uroce_srq_waiting(srq), 4);
    assert_int_equal(uroce_srq_resize(srq, 3), -EINVAL);
    assert_int_equal(uroce_srq_resize(srq, 0), -EINVAL);
    assert_int_equal(uroce_srq_resize(NULL, 4), -EINVAL);
    assert_int_equal(uroce_srq_resize(srq, 8), 0);
    assert_int_equal(uroce_srq_arm(srq, 9), -EINVAL);
    assert_int_equal(uroce_srq_arm(NULL, 1), -EINVAL);
    assert_int_equal(uroce_srq_arm(srq, 4), 0);
    memcpy(memory, "srq!", 4);
    assert_int_equal(uroce_qp_send(qp, &send), 0);
    assert_int_equal(run(), UROCE_EVENT_SRQ_LIMIT);
    assert_int_equal(next_completion().wr_id, 0);
    assert_memory_equal(memory + HALF, "srq!", 4);
    assert_int_equal(uroce_srq_waiting(srq), 3);
    assert_int_equal(uroce_qp_destroy(qp), 0);
    assert_int_equal(uroce_srq_destroy(srq), 0);
}

static void srq_create__wrong_value__refused(void **state)
{
    struct uroce_srq_config wrong[5];
    struct uroce_srq *srq;
    struct uroce_xrcd *xrcd;

    (void)state;
    assert_int_equal(uroce_xrcd_create(engine, &xrcd), 0);
    for (int i = 0; i < 5; i++)
        wrong[i] = srq_config(4);
    wrong[0].capacity = 0;
    wrong[1].sge_max = 33;
    wrong[2].xrcd = xrcd; /* the CQ is missing */
    wrong[3].cq = cq;
    wrong[4].size--;
    for (int i = 0; i < 5; i++)
        assert_int_equal(uroce_srq_create(pd, &wrong[i], &srq), -EINVAL);
    assert_int_equal(uroce_srq_create(pd, NULL, &srq), -EINVAL);
    assert_int_equal(uroce_srq_destroy(NULL), -EINVAL);
    assert_int_equal(uroce_srq_number(NULL), 0);
    assert_int_equal(uroce_srq_waiting(NULL), 0);
    assert_int_equal(uroce_xrcd_create(NULL, &xrcd), -EINVAL);
    assert_int_equal(uroce_xrcd_destroy(NULL), -EINVAL);
    assert_int_equal(uroce_xrcd_destroy(xrcd), 0);
}

/* ---- XRC ---------------------------------------------------------------- */

static void xrc__message__arrives_in_the_srq_that_it_names(void **state)
{
    struct uroce_qp_config ini_config = config_of(UROCE_XRC_INI),
                           tgt_config = config_of(UROCE_XRC_TGT);
    struct uroce_srq_config srq_wanted = srq_config(4);
    const struct uroce_sge from = element(0, 3), to = element(HALF, 3);
    struct uroce_send send = {
        .opcode = UROCE_SEND, .flags = UROCE_SIGNALED, .sges = &from, .sge_count = 1
    };
    struct uroce_xrcd *xrcd;
    struct uroce_srq *srq;
    struct uroce_qp *qp;

    (void)state;
    assert_int_equal(uroce_xrcd_create(engine, &xrcd), 0);
    assert_int_equal(uroce_qp_create(pd, &tgt_config, &qp), -EINVAL); /* no domain */
    tgt_config.xrcd = xrcd;
    ini_config.xrcd = xrcd;
    assert_int_equal(uroce_qp_create(pd, &ini_config, &qp),
                     -EINVAL); /* only targets have a domain */
    ini_config.xrcd = NULL;
    srq_wanted.xrcd = xrcd;
    srq_wanted.cq = cq;
    assert_int_equal(uroce_srq_create(pd, &srq_wanted, &srq), 0);
    struct uroce_qp *ini = make(&ini_config), *tgt = make(&tgt_config);
    connect(ini, UROCE_XRC_INI, uroce_qp_number(tgt));
    connect(tgt, UROCE_XRC_TGT, uroce_qp_number(ini));
    assert_int_equal(uroce_xrcd_destroy(xrcd), -EBUSY);
    assert_int_equal(uroce_qp_send(tgt, &send), -EINVAL);
    assert_int_equal(uroce_qp_receive(ini, 1, &to, 1), -EINVAL);
    assert_int_equal(uroce_srq_receive(srq, 5, &to, 1), 0);
    memcpy(memory, "xrc", 3);
    send.remote_srqn = uroce_srq_number(srq);
    assert_int_not_equal(send.remote_srqn, 0);
    assert_int_equal(uroce_qp_send(ini, &send), 0);
    (void)run();
    assert_int_equal(next_completion().wr_id, 5);
    assert_int_equal(next_completion().status, UROCE_SUCCESS);
    assert_memory_equal(memory + HALF, "xrc", 3);
    assert_int_equal(uroce_qp_destroy(ini), 0);
    assert_int_equal(uroce_qp_destroy(tgt), 0);
    assert_int_equal(uroce_srq_destroy(srq), 0);
    assert_int_equal(uroce_xrcd_destroy(xrcd), 0);
}

/* ---- multicast ---------------------------------------------------------- */

static void multicast__attached__receives_until_it_is_detached(void **state)
{
    const struct uroce_qp_config config = config_of(UROCE_UD);
    struct uroce_qp *qp = make(&config), *other = rc();
    const struct uroce_sge from = element(0, 3), to = element(HALF, 64);
    struct uroce_address address = { .sgid_index = 1 };
    struct uroce_send send = { .opcode = UROCE_SEND,
                               .sges = &from,
                               .sge_count = 1,
                               .remote_qpn = 0xffffff,
                               .remote_qkey = QKEY };
    uint8_t unicast[UROCE_GID_SIZE];
    struct uroce_completion completion;

    (void)state;
    connect(qp, UROCE_UD, 0);
    assert_int_equal(uroce_gid_parse(GROUP, address.gid), 0);
    assert_int_equal(uroce_gid_parse("10.0.0.7", unicast), 0);
    assert_int_equal(uroce_qp_attach(qp, unicast, now), -EINVAL);
    assert_int_equal(uroce_qp_attach(other, address.gid, now), -EINVAL);
    assert_int_equal(uroce_qp_attach(NULL, address.gid, now), -EINVAL);
    assert_int_equal(uroce_qp_attach(qp, NULL, now), -EINVAL);
    assert_int_equal(uroce_qp_detach(qp, address.gid, now), -EINVAL);
    assert_int_equal(uroce_qp_attach(qp, address.gid, now), 0);
    assert_int_equal(uroce_qp_attach(qp, address.gid, now), 0);
    assert_int_equal(uroce_ah_create(pd, &address, now, &send.ah), 0);
    for (int attached = 1; attached >= 0; attached--) {
        assert_int_equal(uroce_qp_receive(qp, 3, &to, 1), 0);
        assert_int_equal(uroce_qp_send(qp, &send), 0);
        (void)run();
        assert_int_equal(uroce_cq_poll(cq, &completion, 1), attached);
        assert_int_equal(uroce_qp_detach(qp, address.gid, now), attached ? 0 : -EINVAL);
    }
    assert_int_equal(uroce_qp_attach(qp, address.gid, now), 0);
    assert_int_equal(uroce_qp_destroy(qp), 0); /* leaves the group, too */
    assert_int_equal(uroce_ah_destroy(send.ah), 0);
    assert_int_equal(uroce_qp_destroy(other), 0);
}

static void multicast__57th_member__refused(void **state)
{
    struct uroce_qp_config config = config_of(UROCE_UD);
    struct uroce_qp *qps[57];
    uint8_t group[UROCE_GID_SIZE];

    (void)state;
    assert_int_equal(uroce_gid_parse(GROUP, group), 0);
    for (int i = 0; i < 57; i++) {
        qps[i] = make(&config);
        assert_int_equal(uroce_qp_attach(qps[i], group, now), i < 56 ? 0 : -ENOMEM);
    }
    for (int i = 0; i < 57; i++)
        assert_int_equal(uroce_qp_destroy(qps[i]), 0);
}

static void block_self_multicast__own_datagram__does_not_arrive(void **state)
{
    struct uroce_qp_config config = config_of(UROCE_UD), wrong = config_of(UROCE_RC);
    const struct uroce_sge from = element(0, 3), to = element(HALF, 64);
    struct uroce_address address = { .sgid_index = 1 };
    struct uroce_send send = { .opcode = UROCE_SEND,
                               .sges = &from,
                               .sge_count = 1,
                               .remote_qpn = 0xffffff,
                               .remote_qkey = QKEY };
    struct uroce_completion completion;
    struct uroce_qp *qp;

    (void)state;
    wrong.block_self_multicast = 1;
    assert_int_equal(uroce_qp_create(pd, &wrong, &qp), -EINVAL);
    config.block_self_multicast = 1;
    qp = make(&config);
    connect(qp, UROCE_UD, 0);
    assert_int_equal(uroce_gid_parse(GROUP, address.gid), 0);
    assert_int_equal(uroce_qp_attach(qp, address.gid, now), 0);
    assert_int_equal(uroce_ah_create(pd, &address, now, &send.ah), 0);
    assert_int_equal(uroce_qp_receive(qp, 3, &to, 1), 0);
    assert_int_equal(uroce_qp_send(qp, &send), 0);
    (void)run();
    assert_int_equal(uroce_cq_poll(cq, &completion, 1), 0);
    assert_int_equal(uroce_qp_destroy(qp), 0);
    assert_int_equal(uroce_ah_destroy(send.ah), 0);
}

/* ---- queries, sizes ----------------------------------------------------- */

static void query__after_modify__returns_the_new_attributes(void **state)
{
    struct uroce_qp *qp = rc();
    struct uroce_qp_attr attr;

    (void)state;
    assert_int_equal(uroce_qp_query(qp, &attr), 0);
    assert_int_equal(attr.state, UROCE_RTS);
    assert_int_equal(attr.path_mtu, 1024);
    assert_int_equal(attr.dest_qpn, uroce_qp_number(qp));
    assert_int_equal(attr.max_rd_atomic, 2);
    assert_int_equal(attr.timeout, 8);
    assert_int_equal(attr.address.hop_limit, 64);
    assert_int_equal(attr.access, ALL & ~0x11u);
    assert_int_equal(uroce_qp_query(NULL, &attr), -EINVAL);
    assert_int_equal(uroce_qp_query(qp, NULL), -EINVAL);
    assert_null(uroce_qp_problem(qp));
    assert_null(uroce_qp_problem(NULL));
    attr = (struct uroce_qp_attr){ .state = UROCE_SQD, .sqd_notify = 1 };
    assert_int_equal(uroce_qp_modify(qp, &attr, UROCE_ATTR_STATE | UROCE_ATTR_SQD_NOTIFY, now), 0);
    assert_int_equal(run(), UROCE_EVENT_SQ_DRAINED);
    attr = (struct uroce_qp_attr){ .state = UROCE_RTS, .current_state = UROCE_SQE };
    assert_int_equal(uroce_qp_modify(qp, &attr, UROCE_ATTR_STATE | UROCE_ATTR_CUR_STATE, now),
                     -EINVAL);
    attr.current_state = UROCE_SQD;
    assert_int_equal(uroce_qp_modify(qp, &attr, UROCE_ATTR_STATE | UROCE_ATTR_CUR_STATE, now), 0);
    assert_int_equal(uroce_qp_destroy(qp), 0);
}

static void cq__resized__keeps_pending_completions(void **state)
{
    struct uroce_qp *qp = rc();
    const struct uroce_qp_attr error = { .state = UROCE_ERR };

    (void)state;
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(uroce_qp_receive(qp, i, NULL, 0), 0);
    assert_int_equal(uroce_qp_modify(qp, &error, UROCE_ATTR_STATE, now), 0);
    assert_int_equal(uroce_engine_deliver(engine), 0);
    assert_int_equal(uroce_cq_resize(cq, 2), -EINVAL);
    assert_int_equal(uroce_cq_resize(cq, 0), -EINVAL);
    assert_int_equal(uroce_cq_resize(NULL, 8), -EINVAL);
    assert_int_equal(uroce_cq_resize(cq, 3), 0);
    assert_int_equal(uroce_cq_resize(cq, 500), 0);
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(next_completion().wr_id, i);
    assert_int_equal(uroce_qp_destroy(qp), 0);
}

/* ---- the engine --------------------------------------------------------- */

static void looped__frame_to_the_engine_itself__is_shown_once(void **state)
{
    struct uroce_qp *qp = rc();
    const struct uroce_sge sge = element(0, 3);
    const struct uroce_send send = { .opcode = UROCE_RDMA_WRITE,
                                     .flags = UROCE_SIGNALED,
                                     .sges = &sge,
                                     .sge_count = 1,
                                     .remote_address = (uintptr_t)memory + HALF,
                                     .rkey = uroce_mr_key(mr) };
    static uint8_t bytes[ROOM];
    struct uroce_buffer buffer = { bytes, ROOM, 0 };
    struct uroce_packet packet = { 0 };
    uint64_t named = 0;

    (void)state;
    assert_int_equal(uroce_engine_looped(engine, &packet, 1), 0);
    assert_int_equal(uroce_qp_send(qp, &send), 0);
    assert_int_equal(uroce_engine_output(engine, &buffer, 1, now), 0);
    assert_int_equal(uroce_engine_looped(engine, &packet, 0), 0);
    assert_int_equal(uroce_engine_looped(engine, &packet, 1), 1);
    assert_in_range(packet.length, 60, ROOM);
    assert_int_equal(uroce_engine_looped(NULL, &packet, 1), -EINVAL);
    assert_int_equal(uroce_engine_looped(engine, NULL, 1), -EINVAL);
    (void)run();
    assert_int_equal(next_completion().status, UROCE_SUCCESS);
    assert_int_equal(uroce_engine_counter(engine, "loop_frames", &named), 0);
    assert_true(named > 0);
    unsigned index = 0;
    while (strcmp(uroce_counter_name(index), "loop_frames") != 0)
        index++;
    assert_int_equal(uroce_engine_counter_at(engine, index), named);
    assert_int_equal(uroce_engine_counter_at(engine, 100000), 0);
    assert_int_equal(uroce_engine_counter_at(NULL, index), 0);
    assert_int_equal(uroce_engine_deliver(NULL), -EINVAL);
    assert_int_equal(uroce_qp_destroy(qp), 0);
}

static void set_mtu__smaller_link__the_next_connection_has_a_smaller_path_mtu(void **state)
{
    struct uroce_qp_attr attr;

    (void)state;
    assert_int_equal(uroce_engine_set_mtu(engine, 575), -EINVAL);
    assert_int_equal(uroce_engine_set_mtu(engine, 1501), -EINVAL);
    assert_int_equal(uroce_engine_set_mtu(NULL, 1500), -EINVAL);
    assert_int_equal(uroce_engine_set_mtu(engine, 700), 0);
    const struct uroce_qp_config config = config_of(UROCE_RC);
    struct uroce_qp *qp = make(&config);
    attr = (struct uroce_qp_attr){ .port = 1, .access = 0 };
    modify(qp, &attr, UROCE_INIT, UROCE_ATTR_PORT | UROCE_ATTR_PKEY_INDEX | UROCE_ATTR_ACCESS);
    attr.state = UROCE_RTR;
    attr.path_mtu = 1024;
    attr.address.sgid_index = 1;
    assert_int_equal(uroce_gid_parse("10.0.0.1", attr.address.gid), 0);
    assert_int_equal(uroce_qp_modify(qp, &attr,
                                     UROCE_ATTR_STATE | UROCE_ATTR_AV | UROCE_ATTR_PATH_MTU |
                                         UROCE_ATTR_DEST_QPN | UROCE_ATTR_RQ_PSN |
                                         UROCE_ATTR_MAX_DEST_RD_ATOMIC | UROCE_ATTR_MIN_RNR_TIMER,
                                     now),
                     -EINVAL);
    assert_int_equal(uroce_qp_destroy(qp), 0);
    assert_int_equal(uroce_engine_set_mtu(engine, 1500), 0);
}

static void config__prefix_and_source_port__show_in_numbers_and_frames(void **state)
{
    struct uroce_engine_config config = { .size = sizeof config,
                                          .mac = { 2, 0, 0, 0, 0, 1 },
                                          .mtu = 1500,
                                          .address_count = 1,
                                          .source_port = 4791,
                                          .qpn_prefix = 5,
                                          .timeout_min = 31,
                                          .link_routes = 1 };
    struct uroce_packet packet;
    static uint8_t bytes[ROOM];
    struct uroce_buffer buffer = { bytes, ROOM, 0 };

    (void)state;
    config.addresses[0].prefix = 24;
    assert_int_equal(uroce_gid_parse("10.0.0.1", config.addresses[0].gid), 0);
    struct uroce_engine *plain = engine;
    config.qpn_prefix = 63;
    assert_int_equal(uroce_engine_create(&config, 0, &engine), -EINVAL);
    config.qpn_prefix = 5;
    config.timeout_min = 32;
    assert_int_equal(uroce_engine_create(&config, 0, &engine), -EINVAL);
    config.timeout_min = 31;
    assert_ptr_equal(engine, plain);
    (void)stop(state);
    assert_int_equal(uroce_engine_create(&config, 0, &engine), 0);
    assert_int_equal(uroce_pd_create(engine, &pd), 0);
    assert_int_equal(uroce_cq_create(engine, 64, NULL, &cq), 0);
    assert_int_equal(uroce_mr_create(pd, memory, sizeof memory, ALL, &mr), 0);
    struct uroce_qp *qp = rc();
    assert_int_equal(uroce_qp_number(qp) >> 18, 5);
    const struct uroce_sge sge = element(0, 3);
    const struct uroce_send send = { .opcode = UROCE_SEND, .sges = &sge, .sge_count = 1 };
    assert_int_equal(uroce_qp_send(qp, &send), 0);
    assert_int_equal(uroce_engine_output(engine, &buffer, 1, now), 0);
    assert_int_equal(uroce_engine_looped(engine, &packet, 1), 1);
    assert_int_equal(packet.bytes[34] << 8 | packet.bytes[35], 4791);
    assert_int_equal(uroce_qp_destroy(qp), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define WITH_ENGINE(name) cmocka_unit_test_setup_teardown(name, start, stop)
        WITH_ENGINE(send__atomic_write_and_flush__reach_the_memory),
        WITH_ENGINE(post__field_that_the_operation_forbids__refused),
        WITH_ENGINE(mr__with_an_address_of_its_own__is_used_by_that_address),
        WITH_ENGINE(window__bound_then_invalidated__access_allowed_then_refused),
        WITH_ENGINE(window__wrong_argument__refused),
        WITH_ENGINE(srq__used_by_a_queue_pair__receives_and_raises_the_limit_event),
        WITH_ENGINE(srq_create__wrong_value__refused),
        WITH_ENGINE(xrc__message__arrives_in_the_srq_that_it_names),
        WITH_ENGINE(multicast__attached__receives_until_it_is_detached),
        WITH_ENGINE(multicast__57th_member__refused),
        WITH_ENGINE(block_self_multicast__own_datagram__does_not_arrive),
        WITH_ENGINE(query__after_modify__returns_the_new_attributes),
        WITH_ENGINE(cq__resized__keeps_pending_completions),
        WITH_ENGINE(looped__frame_to_the_engine_itself__is_shown_once),
        WITH_ENGINE(set_mtu__smaller_link__the_next_connection_has_a_smaller_path_mtu),
        WITH_ENGINE(config__prefix_and_source_port__show_in_numbers_and_frames),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
