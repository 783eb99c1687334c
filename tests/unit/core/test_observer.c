/* SPDX-License-Identifier: BSD-3-Clause */
/* test_observer.c - tests which events an observer of a shard gets. */
#include "core/observer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/qp.h"
#include "core/shard.h"
#include "support/check.h"

static struct uro_shard shard;
static struct uro_record record;
static char told[512];

static void tell_state(void *context, uint32_t qpn, enum uro_qp_state from, enum uro_qp_state to,
                       enum uro_fail_reason reason)
{
    assert_ptr_equal(context, &told);
    assert_int_not_equal(qpn, 0);
    (void)snprintf(told + strlen(told), sizeof told - strlen(told), "%s-%s %u;",
                   uro_qp_state_name(from), uro_qp_state_name(to), (unsigned)reason);
}

static void tell_failed(void *context, const struct uro_cqe *cqe)
{
    assert_ptr_equal(context, &told);
    (void)snprintf(told + strlen(told), sizeof told - strlen(told), "failed %u;", cqe->status);
}

static const struct uro_observer observer = { tell_state, tell_failed, &told };

static void *memory(size_t size)
{
    void *made = aligned_alloc(64, (size + 63) & ~(size_t)63);

    assert_non_null(made);
    return made;
}

static int modify(struct uro_qp *qp, enum uro_qp_state state, unsigned mask)
{
    const struct uro_qp_attr attr = { .state = state, .port = 1 };

    return uro_qp_modify(&shard, qp, &attr, mask | URO_ATTR_STATE, 5);
}

static void observer__states_and_failed_completions__are_reported_except_flushed_requests(
    void **state)
{
    const struct uro_shard_config config = { .table_bits = 6, .window = 256 };
    struct uro_cqe cqe = { .status = URO_WC_SUCCESS };
    void *tables = memory(uro_shard_table_size(&config));

    (void)state;
    memset(&shard, 0xff, sizeof shard); /* the memory of an engine need not be zero */
    uro_shard_init(&shard, &config, tables, &record, 0);
    struct uro_cq *cq = uro_cq_init(memory(uro_cq_size(8)), 8, NULL);
    const struct uro_qp_init init = { .type = URO_QPT_RC,
                                      .pd = 7,
                                      .send_cq = cq,
                                      .recv_cq = cq,
                                      .send_capacity = 2,
                                      .recv_capacity = 2 };
    struct uro_qp *qp = uro_qp_create(&shard, &init, memory(uro_qp_size(&init)));

    /* The shard has no observer. */
    assert_int_equal(
        modify(qp, URO_QPS_INIT, URO_ATTR_PKEY_INDEX | URO_ATTR_PORT | URO_ATTR_ACCESS), 0);
    shard.observer = &observer;
    assert_int_equal(modify(qp, URO_QPS_INIT, URO_ATTR_ACCESS), 0); /* no change of the state */
    assert_int_equal(modify(qp, URO_QPS_ERR, 0), 0);
    assert_int_equal(modify(qp, URO_QPS_RESET, 0), 0);
    assert_true(uro_cq_push(&shard, cq, &cqe, false));
    cqe.status = URO_WC_WR_FLUSH_ERR;
    assert_true(uro_cq_push(&shard, cq, &cqe, false));
    cqe.status = URO_WC_RETRY_EXC_ERR;
    assert_true(uro_cq_push(&shard, cq, &cqe, false));

    char wanted[64];
    (void)snprintf(wanted, sizeof wanted, "INIT-ERR %u;ERR-RESET 0;failed %u;", URO_FAIL_MODIFIED,
                   URO_WC_RETRY_EXC_ERR);
    assert_string_equal(told, wanted);
    uro_qp_destroy(&shard, qp);
    uro_cq_fini(cq);
    free(qp);
    free(cq);
    free(tables);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            observer__states_and_failed_completions__are_reported_except_flushed_requests),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
