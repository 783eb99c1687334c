/* SPDX-License-Identifier: BSD-3-Clause */
/* test_judge.c - tests that the simulator detects wrong completions. Each case changes the
 * completions that the engine reports. */
#include "support/check.h"

#include <string.h>

#include "core/cq.h"
#include "sim/sim.h"

#define SEEDS 20u

uint32_t __real_uro_cq_poll(struct uro_cq *cq, struct uro_cqe *cqes, uint32_t room);
uint32_t __wrap_uro_cq_poll(struct uro_cq *cq, struct uro_cqe *cqes, uint32_t room);

/* Changes the @count completions of a poll. Returns the new number of completions. */
static uint32_t (*change)(struct uro_cqe *cqes, uint32_t count, uint32_t room);
static uint32_t seen; /* completions since the run began */

uint32_t __wrap_uro_cq_poll(struct uro_cq *cq, struct uro_cqe *cqes, uint32_t room)
{
    uint32_t count = __real_uro_cq_poll(cq, cqes, room);

    return count > 0 && change != NULL ? change(cqes, count, room) : count;
}

static bool is_success(const struct uro_cqe *cqe, bool receive)
{
    return cqe->status == URO_WC_SUCCESS && ((cqe->opcode & URO_WC_RECV) != 0) == receive;
}

/* Returns whether one of the first 20 seeds ends with a failure whose message contains @what. */
static bool is_noticed(uint32_t (*with)(struct uro_cqe *, uint32_t, uint32_t), const char *what)
{
    bool noticed = false;

    for (uint64_t seed = 1; seed <= SEEDS && !noticed; seed++) {
        const struct sim_options options = { .seed = seed };
        struct sim_result result;
        seen = 0;
        change = with;
        noticed = !sim_run(&options, &result) && strstr(result.failure, what) != NULL;
        change = NULL;
    }
    return noticed;
}

static uint32_t repeat(struct uro_cqe *cqes, uint32_t count, uint32_t room)
{
    if (count == room || !is_success(&cqes[count - 1], false))
        return count;
    cqes[count] = cqes[count - 1];
    return count + 1;
}

static void completion__delivered_twice__is_reported(void **state)
{
    (void)state;
    assert_true(is_noticed(repeat, "completed twice"));
}

static uint32_t drop(struct uro_cqe *cqes, uint32_t count, uint32_t room)
{
    (void)room;
    return is_success(&cqes[count - 1], false) && ++seen == 3 ? count - 1 : count;
}

static void completion__missing__is_reported(void **state)
{
    (void)state;
    assert_true(is_noticed(drop, "did not complete before the next request"));
}

static uint32_t report_error(struct uro_cqe *cqes, uint32_t count, uint32_t room)
{
    (void)room;
    if (is_success(&cqes[0], false) && ++seen == 3)
        cqes[0].status = URO_WC_REM_OP_ERR;
    return count;
}

static void completion__with_an_error_without_cause__is_reported(void **state)
{
    (void)state;
    assert_true(is_noticed(report_error, "failed with status"));
}

static uint32_t flush(struct uro_cqe *cqes, uint32_t count, uint32_t room)
{
    (void)room;
    if (is_success(&cqes[0], false) && ++seen == 3)
        cqes[0].status = URO_WC_WR_FLUSH_ERR;
    return count;
}

static void completion__flushed_in_rts__is_reported(void **state)
{
    (void)state;
    assert_true(is_noticed(flush, "flushed without cause"));
}

static uint32_t rename_operation(struct uro_cqe *cqes, uint32_t count, uint32_t room)
{
    (void)room;
    for (uint32_t i = 0; i < count; i++)
        if (is_success(&cqes[i], false))
            cqes[i].opcode = cqes[i].opcode == URO_WC_SEND ? URO_WC_RDMA_WRITE : URO_WC_SEND;
    return count;
}

static void completion__of_another_operation__is_reported(void **state)
{
    (void)state;
    assert_true(is_noticed(rename_operation, "completed with the opcode of another operation"));
}

static uint32_t shorten(struct uro_cqe *cqes, uint32_t count, uint32_t room)
{
    (void)room;
    for (uint32_t i = 0; i < count; i++)
        if (is_success(&cqes[i], true) && cqes[i].byte_len > 0)
            cqes[i].byte_len--;
    return count;
}

static void receive__wrong_length__is_reported(void **state)
{
    (void)state;
    assert_true(is_noticed(shorten, "receive"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(completion__delivered_twice__is_reported),
        cmocka_unit_test(completion__missing__is_reported),
        cmocka_unit_test(completion__with_an_error_without_cause__is_reported),
        cmocka_unit_test(completion__flushed_in_rts__is_reported),
        cmocka_unit_test(completion__of_another_operation__is_reported),
        cmocka_unit_test(receive__wrong_length__is_reported),
    };

    return cmocka_run_group_tests_name("sim/judge", tests, NULL, NULL);
}
