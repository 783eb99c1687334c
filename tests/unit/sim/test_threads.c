/* SPDX-License-Identifier: BSD-3-Clause */
/* test_threads.c - tests the threads of a simulated host, and the check for lost wake-ups. */
#include "support/check.h"

#include "sim/net/host.h"

#define START URO_MS(1)

struct fixture {
    struct sim_world world;
    struct sim_host host;
    struct sim_node sink;
    struct uroce_pd *pd;
    struct uroce_cq *cq;
};

static struct sim_world *sink_world; /* world of the frames that sink() frees */

static void sink(struct sim_node *node, struct sim_world_frame *frame)
{
    (void)node;
    sim_world_free_frame(sink_world, frame);
}

static void setup(struct fixture *f)
{
    const struct sim_host_config config = {
        .engine = { .size = sizeof config.engine, .mac = { 2, [5] = 1 }, .mtu = 1500 },
        .name = 'A',
        .rx_burst = 1,
        .rx_ring = 1,
        .tx_burst = 1,
        .threads = true,
    };

    sim_world_init(&f->world, 1, START);
    sink_world = &f->world;
    sim_host_init(&f->host, &f->world, &config);
    f->sink = (struct sim_node){ .accept = sink };
    f->host.out = &f->sink;
    assert_int_equal(uroce_pd_create(f->host.engine, &f->pd), 0);
    assert_int_equal(uroce_cq_create(f->host.engine, 8, NULL, &f->cq), 0);
}

static void teardown(struct fixture *f)
{
    assert_int_equal(uroce_cq_destroy(f->cq), 0);
    assert_int_equal(uroce_pd_destroy(f->pd), 0);
    sim_host_fini(&f->host);
    sim_world_fini(&f->world);
}

/* Creates a queue pair in ERR, and posts a request that the engine has to flush. */
static struct uroce_qp *post(struct fixture *f)
{
    const struct uroce_qp_config config = { .size = sizeof config,
                                            .type = UROCE_UC,
                                            .send_cq = f->cq,
                                            .recv_cq = f->cq,
                                            .send_capacity = 1 };
    struct uroce_qp_attr attr = { .state = UROCE_INIT, .port = 1 };
    const struct uroce_send send = { .opcode = UROCE_SEND };
    struct uroce_qp *qp;

    assert_int_equal(uroce_qp_create(f->pd, &config, &qp), 0);
    assert_int_equal(uroce_qp_modify(qp, &attr,
                                     UROCE_ATTR_STATE | UROCE_ATTR_PKEY_INDEX | UROCE_ATTR_PORT |
                                         UROCE_ATTR_ACCESS,
                                     f->world.now),
                     0);
    attr.state = UROCE_ERR;
    assert_int_equal(uroce_qp_modify(qp, &attr, UROCE_ATTR_STATE, f->world.now), 0);
    assert_int_equal(uroce_qp_send(qp, &send), 0);
    assert_int_equal(uroce_engine_rung(f->host.engine), 1);
    return qp;
}

/* Runs until the service thread is in a round. */
static void run_until_thread_round(struct fixture *f)
{
    for (unsigned i = 0; i < 100000 && !f->host.threads.thread_ends; i++)
        (void)sim_world_run(&f->world, sim_world_next(&f->world));
    assert_true(f->host.threads.thread_ends);
}

static void doorbell__cleared_by_a_command_in_a_round__work_is_not_missed(void **state)
{
    struct fixture f;

    (void)state;
    setup(&f);
    run_until_thread_round(&f);
    struct uroce_qp *qp = post(&f);
    (void)sim_world_run(&f.world, f.world.now); /* the program rings the doorbell */
    assert_int_equal(uroce_qp_destroy(qp), 0);
    assert_int_equal(uroce_engine_rung(f.host.engine), 0);
    f.host.threads.program_at = URO_TIME_NEVER; /* the program sleeps */
    f.host.threads.program_until = f.world.now;
    (void)sim_world_run(&f.world, f.world.now + 4 * SIM_THREADS_LATE);

    qp = post(&f);
    (void)sim_world_run(&f.world, f.world.now + 4 * SIM_THREADS_LATE);
    assert_string_equal(f.world.failure, "");
    assert_int_equal(uroce_engine_rung(f.host.engine), 0);
    assert_int_equal(uroce_qp_destroy(qp), 0);
    teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(doorbell__cleared_by_a_command_in_a_round__work_is_not_missed),
    };

    return cmocka_run_group_tests_name("sim/threads", tests, NULL, NULL);
}
