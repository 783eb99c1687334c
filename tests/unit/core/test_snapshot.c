/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests that a snapshot has every queue pair, CQ, SRQ and key once, also while other objects are
 * created and destroyed. */
#include "core/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "core/cq.h"
#include "core/key.h"
#include "core/qp_private.h"
#include "core/rq.h"
#include "core/shard.h"
#include "support/check.h"

#define MANY 300u /* more than the slots of the tables, so that buckets overflow */

static struct uro_shard shard;
static struct uro_record record;
static void *tables;
static struct uro_key keys[MANY];
static struct uro_cq *cqs[MANY];
static struct uro_qp *qps[MANY];

static void *memory(size_t size)
{
    void *made = aligned_alloc(64, (size + 63) & ~(size_t)63);

    assert_non_null(made);
    return made;
}

/* Creates a new shard for each test, so that no object of a failed test is in it. */
static int open_shard(void **state)
{
    const struct uro_shard_config config = { .table_bits = 6, .window = 256 };

    (void)state;
    tables = memory(uro_shard_table_size(&config));
    uro_shard_init(&shard, &config, tables, &record, 0);
    return 0;
}

static int close_shard(void **state)
{
    (void)state;
    free(tables);
    return 0;
}

static struct uro_cq *make_cq(uint32_t capacity)
{
    struct uro_cq *cq = uro_cq_init(memory(uro_cq_size(capacity)), capacity, NULL);

    uro_snapshot_add_cq(&shard, cq);
    return cq;
}

static void drop_cq(struct uro_cq *cq)
{
    uro_cq_fini(cq);
    free(cq);
}

static struct uro_qp *make_qp(struct uro_cq *cq)
{
    const struct uro_qp_init init = { .type = URO_QPT_RC,
                                      .pd = 7,
                                      .send_cq = cq,
                                      .recv_cq = cq,
                                      .send_capacity = 2,
                                      .recv_capacity = 2 };

    return uro_qp_create(&shard, &init, memory(uro_qp_size(&init)));
}

static void drop_qp(struct uro_qp *qp)
{
    uro_qp_destroy(&shard, qp);
    free(qp);
}

static struct uro_srq srqs[MANY];
static void *srq_slots[MANY];

static void make_srq(struct uro_srq *srq, uint32_t xrcd, struct uro_cq *cq)
{
    const struct uro_srq_init init = { .pd = 7, .capacity = 4, .xrcd = xrcd, .cq = cq };

    srq_slots[srq - srqs] = memory(uro_srq_slots_size(4, 0));
    uro_srq_create(&shard, srq, &init, srq_slots[srq - srqs]);
}

static void drop_srq(struct uro_srq *srq)
{
    uro_srq_destroy(&shard, srq);
    free(srq_slots[srq - srqs]);
}

static void make_key(struct uro_key *key)
{
    *key = (struct uro_key){ .pd = 7, .base = 0x1000, .length = 4096 };
    uro_key_register(&shard, key);
}

static void drop_key(struct uro_key *key)
{
    assert_int_equal(uro_key_deregister(&shard, key), 0);
}

static struct uro_snapshot_qp qp_rows[2 * MANY];
static struct uro_snapshot_cq cq_rows[2 * MANY];
static struct uro_snapshot_key key_rows[2 * MANY];
static struct uro_snapshot_srq srq_rows[2 * MANY];
static const struct uro_snapshot_rows rows = { .qps = qp_rows,
                                               .cqs = cq_rows,
                                               .keys = key_rows,
                                               .srqs = srq_rows,
                                               .capacity = { 2 * MANY, 2 * MANY, 2 * MANY,
                                                             2 * MANY } };

static struct uro_snapshot take(uint32_t rows_max)
{
    struct uro_snapshot snapshot;

    uro_snapshot_begin(&snapshot, &shard, &rows);
    while (!uro_snapshot_step(&snapshot, rows_max))
        ;
    return snapshot;
}

static void snapshot__of_nothing__is_empty(void **state)
{
    const struct uro_snapshot snapshot = take(16);

    (void)state;
    for (unsigned kind = 0; kind < URO_SNAPSHOT_KINDS; kind++) {
        assert_int_equal(snapshot.count[kind], 0);
        assert_int_equal(uro_snapshot_objects(&shard, (enum uro_snapshot_kind)kind), 0);
    }
    assert_false(snapshot.incomplete);
}

static void snapshot__queue_pair__has_the_state(void **state)
{
    struct uro_cq *cq = make_cq(5);
    struct uro_qp *qp = make_qp(cq);
    const struct uro_cqe cqe = { .qpn = 1 };

    (void)state;
    assert_true(uro_cq_push(&shard, cq, &cqe, false));
    qp->req.una = uro_psn_make(100);
    qp->req.next = uro_psn_make(103);
    qp->req.max = uro_psn_make(110);
    qp->rsp.expected = uro_psn_make(9);
    qp->req.retry.rtt = 1234;
    qp->rare.retransmits = 3;
    qp->rare.rnr_naks = 2;
    qp->congestion.window = 64;
    uro_wq_publish(&qp->send, 2);
    const struct uro_snapshot snapshot = take(16);
    assert_int_equal(snapshot.count[URO_SNAPSHOT_QPS], 1);
    assert_int_equal(snapshot.count[URO_SNAPSHOT_CQS], 1);
    const struct uro_snapshot_qp *row = &qp_rows[0];
    assert_int_equal(row->qpn, uro_qp_number(qp));
    assert_int_equal(row->type, URO_QPT_RC);
    assert_int_equal(row->state, URO_QPS_RESET);
    assert_int_equal(row->pd, 7);
    assert_int_equal(row->send_cq, cq_rows[0].number);
    assert_int_equal(row->oldest_psn, 100);
    assert_int_equal(row->next_psn, 110);
    assert_int_equal(row->outstanding, 3);
    assert_int_equal(row->expected_psn, 9);
    assert_int_equal(row->window, 64);
    assert_int_equal(row->rtt, 1234);
    assert_int_equal(row->retransmits, 3);
    assert_int_equal(row->rnr_naks, 2);
    assert_int_equal(row->sends_posted - row->sends_done, 2);
    assert_int_equal(row->peer_qpn, 0); /* not connected */
    assert_int_equal(cq_rows[0].waiting, 1);
    assert_int_equal(cq_rows[0].capacity, 5);
    qp->req.next = qp->req.una;
    drop_qp(qp);
    drop_cq(cq);
}

static void snapshot__connected_queue_pair__has_the_peer(void **state)
{
    struct uro_qp *qp = make_qp(NULL);

    (void)state;
    atomic_store(&qp->state, URO_QPS_RTR);
    qp->attr.dest_qpn = 77;
    qp->attr.path_mtu = 1024;
    qp->attr.address.dest.octets[15] = 9;
    (void)take(16);
    assert_int_equal(qp_rows[0].state, URO_QPS_RTR);
    assert_int_equal(qp_rows[0].peer_qpn, 77);
    assert_int_equal(qp_rows[0].path_mtu, 1024);
    assert_int_equal(qp_rows[0].peer.octets[15], 9);
    assert_int_equal(qp_rows[0].send_cq, 0);
    assert_int_equal(qp_rows[0].window,
                     256); /* no CNP was received, so it is the window of the device */
    atomic_store(&qp->state, URO_QPS_RESET);
    drop_qp(qp);
}

static void snapshot__key__has_the_range(void **state)
{
    (void)state;
    make_key(&keys[0]);
    const struct uro_snapshot snapshot = take(16);
    assert_int_equal(snapshot.count[URO_SNAPSHOT_KEYS], 1);
    assert_int_equal(key_rows[0].key, uro_key_number(&keys[0]));
    assert_int_equal(key_rows[0].address, 0x1000);
    assert_int_equal(key_rows[0].length, 4096);
    drop_key(&keys[0]);
}

static void snapshot__srq__has_the_state(void **state)
{
    struct uro_cq *cq = make_cq(5);

    (void)state;
    make_srq(&srqs[0], 0, NULL);
    make_srq(&srqs[1], 3, cq);
    uro_wq_publish(&srqs[1].wq, 2);
    assert_int_equal(uro_srq_arm(&srqs[1], 3), 0);
    const struct uro_qp_init init = {
        .type = URO_QPT_RC, .send_cq = cq, .recv_cq = cq, .send_capacity = 2, .srq = &srqs[0]
    };
    struct uro_qp *qp = uro_qp_create(&shard, &init, memory(uro_qp_size(&init)));
    assert_int_equal(uro_snapshot_objects(&shard, URO_SNAPSHOT_SRQS), 2);
    const struct uro_snapshot snapshot = take(16);
    assert_int_equal(snapshot.count[URO_SNAPSHOT_SRQS], 2);
    assert_int_equal(srq_rows[0].number, 1);
    assert_int_equal(srq_rows[0].pd, 7);
    assert_int_equal(srq_rows[0].is_xrc, 0);
    assert_int_equal(srq_rows[0].cq, 0);
    assert_int_equal(srq_rows[1].number, 2);
    assert_int_equal(srq_rows[1].capacity, 4);
    assert_int_equal(srq_rows[1].is_xrc, 1);
    assert_int_equal(srq_rows[1].cq, cq->number);
    assert_int_equal(srq_rows[1].limit, 3);
    assert_int_equal(srq_rows[1].posted - srq_rows[1].taken, 2);
    assert_int_equal(qp_rows[0].srq, 1);
    drop_qp(qp);
    drop_srq(&srqs[1]);
    drop_srq(&srqs[0]);
    drop_cq(cq);
    assert_int_equal(uro_snapshot_objects(&shard, URO_SNAPSHOT_SRQS), 0);
}

static void make_many(void)
{
    for (uint32_t i = 0; i < MANY; i++) {
        cqs[i] = make_cq(1);
        qps[i] = make_qp(cqs[i]);
        make_key(&keys[i]);
        make_srq(&srqs[i], 0, NULL);
    }
}

static void drop_many(uint32_t from, uint32_t step)
{
    for (uint32_t i = from; i < MANY; i += step) {
        drop_qp(qps[i]);
        drop_cq(cqs[i]);
        drop_key(&keys[i]);
        drop_srq(&srqs[i]);
    }
}

static uint32_t times_of_cq(const struct uro_snapshot *snapshot, uint32_t number)
{
    uint32_t times = 0;

    for (uint32_t i = 0; i < snapshot->count[URO_SNAPSHOT_CQS]; i++)
        times += cq_rows[i].number == number;
    return times;
}

static uint32_t times_of_qp(const struct uro_snapshot *snapshot, uint32_t qpn)
{
    uint32_t times = 0;

    for (uint32_t i = 0; i < snapshot->count[URO_SNAPSHOT_QPS]; i++)
        times += qp_rows[i].qpn == qpn;
    return times;
}

static uint32_t times_of_srq(const struct uro_snapshot *snapshot, uint32_t number)
{
    uint32_t times = 0;

    for (uint32_t i = 0; i < snapshot->count[URO_SNAPSHOT_SRQS]; i++)
        times += srq_rows[i].number == number;
    return times;
}

static uint32_t times_of_key(const struct uro_snapshot *snapshot, uint32_t key)
{
    uint32_t times = 0;

    for (uint32_t i = 0; i < snapshot->count[URO_SNAPSHOT_KEYS]; i++)
        times += key_rows[i].key == key;
    return times;
}

static void snapshot__in_small_steps__has_everything_once(void **state)
{
    (void)state;
    make_many();
    const struct uro_snapshot snapshot = take(1);
    for (unsigned kind = 0; kind < URO_SNAPSHOT_KINDS; kind++)
        assert_int_equal(snapshot.count[kind], kind == URO_SNAPSHOT_IDS ? 0 : MANY);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_int_equal(times_of_qp(&snapshot, uro_qp_number(qps[i])), 1);
        assert_int_equal(times_of_cq(&snapshot, cqs[i]->number), 1);
        assert_int_equal(times_of_key(&snapshot, uro_key_number(&keys[i])), 1);
        assert_int_equal(times_of_srq(&snapshot, srqs[i].listed_as), 1);
    }
    drop_many(0, 1);
}

/* After each step of the snapshot, the test creates and destroys a CQ and a key. It also destroys
 * one of the objects of each kind that existed before, until half of them are gone. */
static void snapshot__objects_created_and_destroyed__remaining_objects_appear_once(void **state)
{
    struct uro_snapshot snapshot;
    static struct uro_key late_key;
    uint32_t gone = 1;

    (void)state;
    make_many();
    uro_snapshot_begin(&snapshot, &shard, &rows);
    while (!uro_snapshot_step(&snapshot, 2)) {
        struct uro_cq *late = make_cq(1);
        make_key(&late_key);
        if (gone < MANY) {
            drop_qp(qps[gone]);
            drop_cq(cqs[gone]);
            drop_key(&keys[gone]);
            drop_srq(&srqs[gone]);
            gone += 2;
        }
        drop_cq(late);
        drop_key(&late_key);
    }
    for (uint32_t i = 0; i < MANY; i += 2) {
        assert_int_equal(times_of_qp(&snapshot, uro_qp_number(qps[i])), 1);
        assert_int_equal(times_of_cq(&snapshot, cqs[i]->number), 1);
        assert_int_equal(times_of_key(&snapshot, uro_key_number(&keys[i])), 1);
        assert_int_equal(times_of_srq(&snapshot, srqs[i].listed_as), 1);
    }
    drop_many(0, 2);
    for (; gone < MANY; gone += 2) {
        drop_qp(qps[gone]);
        drop_cq(cqs[gone]);
        drop_key(&keys[gone]);
        drop_srq(&srqs[gone]);
    }
}

static void snapshot__more_objects_than_rows__is_reported(void **state)
{
    struct uro_snapshot snapshot;
    struct uro_snapshot_rows few = rows;

    (void)state;
    make_many();
    few.capacity[URO_SNAPSHOT_QPS] = few.capacity[URO_SNAPSHOT_CQS] = 10;
    uro_snapshot_begin(&snapshot, &shard, &few);
    assert_true(uro_snapshot_step(&snapshot, 10 * MANY));
    assert_true(snapshot.incomplete);
    assert_int_equal(snapshot.count[URO_SNAPSHOT_QPS], 10);
    assert_int_equal(snapshot.count[URO_SNAPSHOT_CQS], 10);
    assert_int_equal(snapshot.count[URO_SNAPSHOT_KEYS], MANY);
    drop_many(0, 1);
}

static void snapshot__cancelled__leaves_the_list_of_cqs(void **state)
{
    struct uro_snapshot snapshot;

    (void)state;
    make_many();
    uro_snapshot_begin(&snapshot, &shard, &rows);
    while (!uro_link_used(&snapshot.place))
        assert_false(uro_snapshot_step(&snapshot, 1));
    uro_snapshot_cancel(&snapshot);
    memset(&snapshot, 0xff, sizeof snapshot);
    const struct uro_snapshot whole = take(7);
    assert_int_equal(whole.count[URO_SNAPSHOT_CQS], MANY);
    drop_many(0, 1);
}

#define SNAPSHOT_TEST(name) cmocka_unit_test_setup_teardown(name, open_shard, close_shard)

static void snapshot__srq_moved_to_another_shard__is_in_that_shard_only(void **state)
{
    const struct uro_shard_config config = { .table_bits = 6, .window = 256 };
    static struct uro_shard other;
    static struct uro_record other_record;
    void *others = memory(uro_shard_table_size(&config));

    (void)state;
    uro_shard_init(&other, &config, others, &other_record, 0);
    make_srq(&srqs[0], 0, NULL);
    uro_srq_move(&shard, &other, &srqs[0]);
    assert_int_equal(uro_snapshot_objects(&shard, URO_SNAPSHOT_SRQS), 0);
    assert_int_equal(uro_snapshot_objects(&other, URO_SNAPSHOT_SRQS), 1);
    assert_true(uro_list_empty(&shard.srq_list));
    uro_srq_destroy(&other, &srqs[0]);
    assert_int_equal(uro_snapshot_objects(&other, URO_SNAPSHOT_SRQS), 0);
    free(srq_slots[0]);
    free(others);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SNAPSHOT_TEST(snapshot__srq_moved_to_another_shard__is_in_that_shard_only),
        SNAPSHOT_TEST(snapshot__of_nothing__is_empty),
        SNAPSHOT_TEST(snapshot__queue_pair__has_the_state),
        SNAPSHOT_TEST(snapshot__connected_queue_pair__has_the_peer),
        SNAPSHOT_TEST(snapshot__key__has_the_range),
        SNAPSHOT_TEST(snapshot__srq__has_the_state),
        SNAPSHOT_TEST(snapshot__in_small_steps__has_everything_once),
        SNAPSHOT_TEST(snapshot__objects_created_and_destroyed__remaining_objects_appear_once),
        SNAPSHOT_TEST(snapshot__more_objects_than_rows__is_reported),
        SNAPSHOT_TEST(snapshot__cancelled__leaves_the_list_of_cqs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
