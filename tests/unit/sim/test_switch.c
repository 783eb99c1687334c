/* SPDX-License-Identifier: BSD-3-Clause */
#include "support/check.h"

#include "sim/net/cable.h"

#define WAYS 3u

/* End of a path: counts and frees the arriving frames. */
static struct way_end {
    struct sim_node node;
    uint32_t count;
    uint8_t last;
} ends[WAYS];

static struct sim_world world;
static struct sim_switch of_three;

static void end_accept(struct sim_node *node, struct sim_world_frame *frame)
{
    struct way_end *end = URO_CONTAINER_OF(node, struct way_end, node);

    end->count++;
    end->last = frame->bytes[frame->length - 1];
    sim_world_free_frame(&world, frame);
}

static void send(uint8_t first, uint8_t last, uint8_t mark)
{
    struct sim_world_frame *frame = sim_world_make_frame(&world, 20);

    memset(frame->bytes, 0, 20);
    frame->bytes[0] = first;
    frame->bytes[5] = last;
    frame->bytes[19] = mark;
    of_three.node.accept(&of_three.node, frame);
}

static int open_switch(void **state)
{
    (void)state;
    sim_world_init(&world, 1, 0);
    sim_switch_init(&of_three, &world);
    for (uint8_t i = 0; i < WAYS; i++) {
        const struct uro_mac mac = { { 0x02, 0, 0, 0, 0, i } };
        ends[i] = (struct way_end){ .node.accept = end_accept };
        sim_switch_add(&of_three, &mac, &ends[i].node);
    }
    return 0;
}

static int close_switch(void **state)
{
    (void)state;
    assert_int_equal(world.frames_alive, 0);
    sim_world_fini(&world);
    return 0;
}

static void switch__unicast_frame__leaves_by_one_port(void **state)
{
    (void)state;
    send(0x02, 1, 7);
    assert_int_equal(ends[0].count, 0);
    assert_int_equal(ends[1].count, 1);
    assert_int_equal(ends[1].last, 7);
    assert_int_equal(ends[2].count, 0);
}

static void switch__multicast_frame__leaves_by_all_ports(void **state)
{
    (void)state;
    send(0x33, 1, 8);
    for (unsigned i = 0; i < WAYS; i++) {
        assert_int_equal(ends[i].count, 1);
        assert_int_equal(ends[i].last, 8);
    }
}

static void switch__unknown_destination__frame_is_flooded(void **state)
{
    (void)state;
    send(0x02, WAYS, 9);
    for (unsigned i = 0; i < WAYS; i++)
        assert_int_equal(ends[i].count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(switch__unicast_frame__leaves_by_one_port, open_switch,
                                        close_switch),
        cmocka_unit_test_setup_teardown(switch__multicast_frame__leaves_by_all_ports, open_switch,
                                        close_switch),
        cmocka_unit_test_setup_teardown(switch__unknown_destination__frame_is_flooded, open_switch,
                                        close_switch),
    };
    return cmocka_run_group_tests_name("sw", tests, NULL, NULL);
}
