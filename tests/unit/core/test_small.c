/* SPDX-License-Identifier: BSD-3-Clause */
/* test_small.c - tests small functions without state: PSN arithmetic, the modify table, source
 * ports, verdicts, and scatter/gather walks. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mark.h"
#include "base/rng.h"
#include "core/key.h"
#include "core/path.h"
#include "core/psn.h"
#include "core/qp_state.h"
#include "core/rsp.h"
#include "core/sgl.h"
#include "core/shard.h"
#include "support/check.h"

/* rule PSN.ARITH, PSN.TYPE */
/* bug B28 */
static void psn_diff__any_two_psns__is_the_shorter_signed_distance(void **state)
{
    const uro_psn e = uro_psn_make(0xfffffe);

    (void)state; /* rule PSN.ARITH, PSN.TYPE */
    assert_int_equal(uro_psn_diff(uro_psn_add(e, 3), e), 3);
    assert_int_equal(uro_psn_add(e, 3).value, 1);
    assert_int_equal(uro_psn_diff(e, uro_psn_add(e, 3)), -3);
    assert_int_equal(uro_psn_diff(uro_psn_add(e, 0x7fffff), e), 0x7fffff);
    assert_int_equal(uro_psn_diff(uro_psn_add(e, 0x800000), e), -0x800000);
}

static int check(enum uro_qp_state from, enum uro_qp_state to, unsigned mask)
{
    return uro_qp_state_check(URO_QPT_RC, from, to, mask);
}

#define TO_RTR                                                                                     \
    (URO_ATTR_AV | URO_ATTR_PATH_MTU | URO_ATTR_DEST_QPN | URO_ATTR_RQ_PSN | URO_ATTR_DEST_RD |    \
     URO_ATTR_MIN_RNR)
#define TO_RTS                                                                                     \
    (URO_ATTR_TIMEOUT | URO_ATTR_RETRY_CNT | URO_ATTR_RNR_RETRY | URO_ATTR_SQ_PSN |                \
     URO_ATTR_RD_ATOMIC)

static void qp_state__rc_path__needs_each_required_attribute(void **state)
{
    static const struct {
        enum uro_qp_state from, to;
        unsigned required;
    } steps[] = {
        { URO_QPS_RESET, URO_QPS_INIT, URO_ATTR_PKEY_INDEX | URO_ATTR_PORT | URO_ATTR_ACCESS },
        { URO_QPS_INIT, URO_QPS_RTR, TO_RTR },
        { URO_QPS_RTR, URO_QPS_RTS, TO_RTS },
    };
    (void)state;
    uro_mark_clear();
    for (size_t i = 0; i < URO_ARRAY_LEN(steps); i++) {
        assert_int_equal(check(steps[i].from, steps[i].to, steps[i].required), 0);
        for (unsigned bit = 0; bit < 21; bit++)
            if (steps[i].required >> bit & 1)
                assert_int_equal(
                    check(steps[i].from, steps[i].to, steps[i].required & ~(1u << bit)), -EINVAL);
        assert_int_equal(check(steps[i].from, steps[i].to, steps[i].required | URO_ATTR_CAP),
                         -EINVAL);
    }
    assert_true(uro_mark_hit("QP.STATE.TABLE"));
}

/* The table has a row for each old state and a column for each new state, in the order of the
 * enum. */
static void qp_state__transitions_of_rc__are_these(void **state)
{
    static const char *const picture[URO_QPS_COUNT] = {
        "xI-----", /* RESET; I: with attributes */
        "xxR---x", /* INIT */
        "x--S--x", /* RTR */
        "x--xx-x", /* RTS */
        "x--xx-x", /* SQD */
        "x-----x", /* SQE: only UC and UD can leave this state to RTS */
        "x-----x", /* ERR */
    };
    (void)state;
    for (int from = 0; from < URO_QPS_COUNT; from++) {
        for (int to = 0; to < URO_QPS_COUNT; to++) {
            char want = picture[from][to];
            unsigned mask = want == 'I'   ? URO_ATTR_PKEY_INDEX | URO_ATTR_PORT | URO_ATTR_ACCESS
                            : want == 'R' ? TO_RTR
                            : want == 'S' ? TO_RTS
                                          : 0;
            int error = check((enum uro_qp_state)from, (enum uro_qp_state)to, mask);
            if (error != (want == '-' ? -EINVAL : 0))
                fail_msg("from %d to %d: %d", from, to, error);
        }
    }
    assert_int_equal(check(URO_QPS_RESET, (enum uro_qp_state)9, 0), -EINVAL);
}

/* The expected ports were measured on Linux rxe. */
static void source_port__flow_label_and_qpns__is_as_in_linux(void **state)
{
    (void)state;
    uro_mark_clear();
    assert_int_equal(uro_path_source_port(0x12345, 1, 2), 0xe341);
    assert_int_equal(uro_path_source_port(0, 0x34, 0x123456), 0xe149);
    assert_int_equal(uro_path_source_port(0, 0x123456, 0x34), 0xe149);
    assert_int_equal(uro_path_source_port(0xcb0c0, 5, 6), 0xf0f2);
    assert_true(uro_mark_hit("TX.PORT"));
}

static void source_port__of_the_link__is_used(void **state)
{
    static struct uro_shard shard;
    struct uro_hop hop = { .state = URO_HOP_KNOWN };
    const struct uro_address address = { .hop = &hop };
    struct uro_path path;

    (void)state;
    shard.config.source_port = 4791;
    uro_path_init(&path, &shard, &address, 1024, 0xe341);
    assert_int_equal(path.source_port, 4791);
    shard.config.source_port = 0;
    uro_path_init(&path, &shard, &address, 1024, 0xe341);
    assert_int_equal(path.source_port, 0xe341);
}

static void verdicts__each_verdict__sends_nak_and_only_two_keep_the_qp_running(void **state)
{
    (void)state;
    for (int v = URO_RSP_PSN_GAP; v < URO_RSP_VERDICT_COUNT; v++) {
        const struct uro_rsp_consequence *what = uro_rsp_consequence((enum uro_rsp_verdict)v);
        assert_true(what->sends_nak);
        assert_int_equal(what->fails, v != URO_RSP_PSN_GAP && v != URO_RSP_NO_RECEIVE);
        assert_int_equal(what->fail_reason == URO_FAIL_NONE, !what->fails);
        assert_int_equal(uro_rsp_verdict_fails((enum uro_rsp_verdict)v), what->fails);
    }
    assert_false(uro_rsp_verdict_fails(URO_RSP_ACCEPT));
    assert_false(uro_rsp_verdict_fails(URO_RSP_DUPLICATE));
    assert_true(uro_rsp_verdict_fails(URO_RSP_OVERRUN));
}

static struct uro_shard shard;
static struct uro_record record;
static uint8_t memory[512];

/* Splits a list of elements and a message at random. Copying in pieces from and to the elements
 * must give the same bytes as one array. */
/* bug B26 */
static void sgl__any_cut_of_list_and_message__touches_the_same_bytes(void **state)
{
    const struct uro_shard_config config = { .table_bits = 4 };
    struct uro_key key = { .pd = 1,
                           .access = URO_ACCESS_LOCAL_WRITE,
                           .base = (uintptr_t)memory,
                           .length = sizeof memory,
                           .memory = memory };
    void *tables = aligned_alloc(64, (uro_shard_table_size(&config) + 63) & ~(size_t)63);
    struct uro_rng rng;

    (void)state;
    uro_mark_clear();
    uro_shard_init(&shard, &config, tables, &record, 0);
    uro_key_register(&shard, &key);
    uro_rng_init_number(&rng, 1);
    for (int round = 0; round < 2000; round++) {
        struct uro_sge sges[8];
        uint8_t whole[512], from[512];
        uint32_t length = 0;
        for (int i = 0; i < 8; i++) {
            uint32_t part = uro_rng_below(&rng, 30); /* may be 0 */
            sges[i] = (struct uro_sge){ (uintptr_t)memory + (uint64_t)i * 60, part,
                                        uro_key_number(&key) };
            length += part;
        }
        const struct uro_sgl sgl = { sges, 8, 1 };
        for (uint32_t i = 0; i < length; i++)
            from[i] = (uint8_t)uro_rng_u32(&rng);
        memset(memory, 0, sizeof memory);
        for (uint32_t at = 0; at < length;) {
            uint32_t step = 1 + uro_rng_below(&rng, length - at);
            assert_true(uro_sgl_scatter(&shard, &sgl, at, from + at, step));
            at += step;
        }
        struct uro_tx tx;
        assert_true(uro_sgl_gather(&shard, &sgl, 0, length, &tx));
        uint32_t got = 0;
        for (uint16_t i = 0; i < tx.span_count; i++) {
            memcpy(whole + got, tx.spans[i].data, tx.spans[i].length);
            got += tx.spans[i].length;
        }
        assert_int_equal(got, length);
        assert_memory_equal(whole, from, length);
    }
    uro_key_deregister(&shard, &key);
    free(tables);
    assert_true(uro_mark_hit("SGE.SUM"));
}

static void path_mtu__of_a_link__every_header_fits(void **state)
{
    static const struct {
        uint32_t link, path;
    } cases[] = { { 576, 256 },   { 599, 256 },   { 600, 512 },   { 1111, 512 },  { 1112, 1024 },
                  { 1500, 1024 }, { 2136, 2048 }, { 4183, 2048 }, { 4184, 4096 }, { 9600, 4096 } };

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(cases); i++) {
        shard.mtu = cases[i].link;
        assert_int_equal(uro_shard_path_mtu(&shard), cases[i].path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(psn_diff__any_two_psns__is_the_shorter_signed_distance),
        cmocka_unit_test(qp_state__rc_path__needs_each_required_attribute),
        cmocka_unit_test(qp_state__transitions_of_rc__are_these),
        cmocka_unit_test(source_port__flow_label_and_qpns__is_as_in_linux),
        cmocka_unit_test(source_port__of_the_link__is_used),
        cmocka_unit_test(verdicts__each_verdict__sends_nak_and_only_two_keep_the_qp_running),
        cmocka_unit_test(sgl__any_cut_of_list_and_message__touches_the_same_bytes),
        cmocka_unit_test(path_mtu__of_a_link__every_header_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
