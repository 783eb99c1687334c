/* SPDX-License-Identifier: BSD-3-Clause */
#include "support/check.h"

#include "io/sim/swarm_net.h"

#define SEEDS 600u

static struct uro_swarm_net net;

static void draw(uint64_t seed, uint32_t without)
{
    memset(&net, 0, sizeof net);
    uro_swarm_net_draw(&net, seed, without, 0);
}

static bool reaches_all(void)
{
    unsigned reached = 1;

    for (uint32_t i = 0; i < net.couple_count * net.couple_count; i++) {
        const unsigned *stations = net.couples[i % net.couple_count].stations;
        if (reached & (1u << stations[0] | 1u << stations[1]))
            reached |= 1u << stations[0] | 1u << stations[1];
    }
    return reached == (1u << net.station_count) - 1;
}

static void swarm_net__seeds__have_two_to_eight_stations_all_tied(void **state)
{
    (void)state;
    uint32_t count[URO_SWARM_STATIONS_MAX + 1] = { 0 };

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        draw(seed, 0);
        assert_in_range(net.station_count, 2, URO_SWARM_STATIONS_MAX);
        count[net.station_count]++;
        assert_true(reaches_all());
        for (uint32_t i = 0; i < net.couple_count; i++)
            assert_true(net.couples[i].stations[0] != net.couples[i].stations[1]);
    }
    assert_in_range(count[2], SEEDS / 2, SEEDS * 7 / 10);
    for (unsigned i = 2; i <= URO_SWARM_STATIONS_MAX; i++)
        assert_true(count[i] > 0);
}

static void swarm_net__without_nodes__is_what_two_stations_always_were(void **state)
{
    (void)state;
    static struct uro_swarm alone;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        draw(seed, URO_SWARM_PART(NODES));
        uro_swarm_draw(&alone, seed, URO_SWARM_ANY);
        assert_int_equal(net.station_count, 2);
        assert_int_equal(net.couple_count, 1);
        assert_memory_equal(&net.couples[0].swarm, &alone, sizeof alone);
    }
}

static void swarm_net__station_of_a_clean_couple__is_delayed_by_nothing(void **state)
{
    (void)state;
    uint32_t mixed = 0;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        draw(seed, 0);
        for (uint32_t i = 0; i < net.couple_count; i++) {
            const struct uro_swarm_couple *couple = &net.couples[i];
            for (unsigned side = 0; side < 2 && couple->swarm.clean; side++) {
                const struct uro_station_config *station = &net.stations[couple->stations[side]];
                assert_int_equal(station->rx_ring, UINT32_MAX);
                assert_int_equal(station->tx_stall_share, 0);
                assert_int_equal(net.trouble.jump_wait_max, 0);
                mixed += !net.clean;
            }
        }
    }
    assert_true(mixed > SEEDS / 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(swarm_net__seeds__have_two_to_eight_stations_all_tied),
        cmocka_unit_test(swarm_net__without_nodes__is_what_two_stations_always_were),
        cmocka_unit_test(swarm_net__station_of_a_clean_couple__is_delayed_by_nothing),
    };
    return cmocka_run_group_tests_name("swarm_net", tests, NULL, NULL);
}
