/* SPDX-License-Identifier: BSD-3-Clause */
#include "support/check.h"

#include "sim/plan/plan.h"

#define SEEDS 600u

static struct sim_net_plan net;

static void draw(uint64_t seed, uint32_t without)
{
    memset(&net, 0, sizeof net);
    sim_net_plan_draw(&net, seed, without, 0);
}

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

static void net_plan__seeds__have_two_to_eight_stations_all_tied(void **state)
{
    (void)state;
    uint32_t count[SIM_NET_HOSTS_MAX + 1] = { 0 };

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        draw(seed, 0);
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

static void net_plan__without_nodes__is_what_two_stations_always_were(void **state)
{
    (void)state;
    static struct sim_plan alone;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        draw(seed, SIM_PLAN_PART(HOSTS));
        sim_plan_draw(&alone, seed, SIM_PLAN_ANY);
        assert_int_equal(net.host_count, 2);
        assert_int_equal(net.link_count, 1);
        assert_memory_equal(&net.links[0].plan, &alone, sizeof alone);
    }
}

static void net_plan__station_of_a_clean_couple__is_delayed_by_nothing(void **state)
{
    (void)state;
    uint32_t mixed = 0;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        draw(seed, 0);
        for (uint32_t i = 0; i < net.link_count; i++) {
            const struct sim_net_link *link = &net.links[i];
            for (unsigned side = 0; side < 2 && link->plan.clean; side++) {
                const struct sim_host_config *host = &net.hosts[link->hosts[side]];
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(net_plan__seeds__have_two_to_eight_stations_all_tied),
        cmocka_unit_test(net_plan__without_nodes__is_what_two_stations_always_were),
        cmocka_unit_test(net_plan__station_of_a_clean_couple__is_delayed_by_nothing),
    };
    return cmocka_run_group_tests_name("sim/net_plan", tests, NULL, NULL);
}
