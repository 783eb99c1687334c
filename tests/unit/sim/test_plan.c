/* SPDX-License-Identifier: BSD-3-Clause */
#include "support/check.h"

#include "sim/plan/plan.h"

#define SEEDS 600u

static struct sim_net_plan net;

static bool reaches_all(void)
{
    unsigned reached = 1;

    for (uint32_t i = 0; i < net.link_count * net.link_count; i++) {
        const unsigned *hosts = net.links[i % net.link_count].hosts;
        if (reached & (1u << hosts[0] | 1u << hosts[1]))
            reached |= 1u << hosts[0] | 1u << hosts[1];
    }
    return reached == (1u << net.host_count) - 1;
}

static void plan__seeds__have_two_to_eight_hosts_all_linked(void **state)
{
    (void)state;
    uint32_t count[SIM_NET_HOSTS_MAX + 1] = { 0 };

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        sim_net_plan_draw(&net, seed, 0, 0);
        assert_in_range(net.host_count, 2, SIM_NET_HOSTS_MAX);
        count[net.host_count]++;
        assert_true(reaches_all());
        for (uint32_t i = 0; i < net.link_count; i++)
            assert_true(net.links[i].hosts[0] != net.links[i].hosts[1]);
    }
    assert_in_range(count[2], SEEDS / 2, SEEDS * 7 / 10);
    for (unsigned i = 2; i <= SIM_NET_HOSTS_MAX; i++)
        assert_true(count[i] > 0);
}

static void plan__host_of_a_clean_link__is_delayed_by_nothing(void **state)
{
    (void)state;
    uint32_t mixed = 0;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        sim_net_plan_draw(&net, seed, 0, 0);
        for (uint32_t i = 0; i < net.link_count; i++) {
            const struct sim_plan *plan = &net.links[i];
            for (unsigned side = 0; side < 2 && plan->clean; side++) {
                const struct sim_host_config *host = &net.hosts[plan->hosts[side]];
                assert_int_equal(host->rx_ring, UINT32_MAX);
                assert_int_equal(host->tx_stall_probability, 0);
                assert_false(host->threads_wait);
                assert_int_equal(net.faults.jump_wait_max, 0);
                mixed += !net.clean;
            }
        }
    }
    assert_true(mixed > SEEDS / 20);
}

static void plan__clean_link__has_no_fault(void **state)
{
    (void)state;
    uint32_t clean = 0;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        sim_net_plan_draw(&net, seed, 0, 0);
        for (uint32_t i = 0; i < net.link_count; i++) {
            const struct sim_plan *plan = &net.links[i];
            const struct sim_cable_config *cable = &plan->cables[0];
            if (!plan->clean)
                continue;
            clean++;
            assert_true(plan->forever && cable->keep_order);
            assert_int_equal(cable->loss_probability | cable->duplicate_probability |
                                 cable->corrupt_probability | cable->truncate_probability |
                                 cable->ce_probability | cable->queue_bytes | cable->jitter |
                                 cable->partition_every,
                             0);
            assert_int_equal(plan->attacker.wait_max | plan->attacked.wait_max | plan->cq_tight, 0);
            for (uint32_t j = 0; j < plan->pair_count; j++)
                assert_int_equal(plan->pairs[j].inject_probability, 0);
        }
    }
    assert_true(clean > SEEDS / 20);
}

/* To reduce a failing run, a user must be able to omit a single fault. */
static void plan__part_left_out__other_fields_are_unchanged(void **state)
{
    (void)state;
    static struct sim_net_plan less;
    uint32_t lossy = 0;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        sim_net_plan_draw(&net, seed, 0, 0);
        sim_net_plan_draw(&less, seed, SIM_PLAN_PART(LOSE), 0);
        for (uint32_t i = 0; i < net.link_count; i++) {
            less.links[i].net = &net;
            for (unsigned side = 0; side < 2; side++) {
                assert_int_equal(less.links[i].cables[side].loss_probability, 0);
                lossy += net.links[i].cables[side].loss_probability > 0;
                net.links[i].cables[side].loss_probability = 0;
            }
        }
        assert_memory_equal(&net, &less, sizeof net);
    }
    assert_true(lossy > SEEDS / 20);
}

static void plan__text__names_the_faults_that_are_on(void **state)
{
    (void)state;
    char text[16384];

    sim_net_plan_draw(&net, 1, 0, 0);
    net.links[0].cables[0].loss_probability = 4321;
    net.links[0].cables[0].duplicate_probability = 0;
    net.links[0].cables[1].duplicate_probability = 0;
    sim_net_plan_text(&net, text, sizeof text);
    assert_non_null(strstr(text, "loss_probability 4321"));
    net.links[0].cables[0].loss_probability = 0;
    sim_net_plan_text(&net, text, sizeof text);
    assert_null(strstr(text, "loss_probability 4321"));
}

static void plan__work_halved__is_not_zero(void **state)
{
    (void)state;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        sim_net_plan_draw(&net, seed, 0, 20);
        for (uint32_t i = 0; i < net.link_count; i++) {
            assert_int_equal(net.links[i].pair_count, 1);
            assert_int_equal(net.links[i].pairs[0].lives, 1);
            assert_int_equal(net.links[i].pairs[0].ends[0].sends, 1);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan__seeds__have_two_to_eight_hosts_all_linked),
        cmocka_unit_test(plan__host_of_a_clean_link__is_delayed_by_nothing),
        cmocka_unit_test(plan__clean_link__has_no_fault),
        cmocka_unit_test(plan__part_left_out__other_fields_are_unchanged),
        cmocka_unit_test(plan__text__names_the_faults_that_are_on),
        cmocka_unit_test(plan__work_halved__is_not_zero),
    };
    return cmocka_run_group_tests_name("sim/plan", tests, NULL, NULL);
}
