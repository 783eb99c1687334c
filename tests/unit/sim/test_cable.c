/* SPDX-License-Identifier: BSD-3-Clause */
#include "support/check.h"

#include <string.h>

#include "sim/net/cable.h"

#define FRAMES 2000u

/* End of a cable: records the number in each frame and its arrival time. */
static struct sink {
    struct sim_node node;
    struct sim_world *world;
    uint32_t count;
    uint32_t numbers[2 * FRAMES];
    uro_time times[2 * FRAMES];
} sink;

static struct sim_world world;
static struct sim_cable cable;

static void sink_accept(struct sim_node *node, struct sim_world_frame *frame)
{
    (void)node;
    assert_true(sink.count < 2 * FRAMES);
    memcpy(&sink.numbers[sink.count], frame->bytes, sizeof sink.numbers[0]);
    sink.times[sink.count++] = world.now;
    sim_world_free_frame(&world, frame);
}

static void open_cable(const struct sim_cable_config *config)
{
    memset(&sink, 0, sizeof sink);
    sink.node = (struct sim_node){ .accept = sink_accept };
    sim_world_init(&world, 1, 0);
    sim_cable_init(&cable, &world, config, &sink.node);
}

static void send(uint32_t number, uint32_t length)
{
    struct sim_world_frame *frame = sim_world_make_frame(&world, length);
    memset(frame->bytes, 0, length);
    memcpy(frame->bytes, &number, sizeof number);
    cable.node.accept(&cable.node, frame);
}

static void send_all(uro_time gap)
{
    for (uint32_t i = 0; i < FRAMES; i++) {
        send(i, 100);
        sim_world_run(&world, world.now + gap);
    }
    sim_world_run(&world, world.now + URO_MS(100));
}

static void close_cable(void)
{
    assert_int_equal(world.frames_alive, 0);
    sim_cable_fini(&cable);
    sim_world_fini(&world);
}

static void cable__perfect__delivers_in_order_after_the_delay(void **state)
{
    (void)state;
    open_cable(&(struct sim_cable_config){ .one_way_delay = 500, .keep_order = true });
    send_all(100);
    assert_int_equal(sink.count, FRAMES);
    for (uint32_t i = 0; i < FRAMES; i++) {
        assert_int_equal(sink.numbers[i], i);
        assert_true(sink.times[i] == i * 100 + 500);
    }
    close_cable();
}

static void cable__loses__count_matches_and_probability_is_near(void **state)
{
    (void)state;
    open_cable(&(struct sim_cable_config){ .loss_probability = 6554 }); /* a tenth of 65536 */
    send_all(100);
    assert_int_equal(cable.counts.frames, FRAMES);
    assert_int_equal(sink.count, FRAMES - cable.counts.lost);
    assert_in_range(cable.counts.lost, FRAMES / 20, FRAMES / 5);
    close_cable();
}

static void cable__duplicates__each_copy_arrives(void **state)
{
    (void)state;
    open_cable(&(struct sim_cable_config){ .duplicate_probability = 6554 });
    send_all(100);
    assert_true(cable.counts.duplicated > 0);
    assert_int_equal(sink.count, FRAMES + cable.counts.duplicated);
    close_cable();
}

static void cable__late_frames__are_overtaken(void **state)
{
    (void)state;
    uint32_t overtaken = 0;

    open_cable(&(struct sim_cable_config){ .late_probability = 6554, .late_max = URO_US(10) });
    send_all(100);
    assert_int_equal(sink.count, FRAMES);
    for (uint32_t i = 1; i < FRAMES; i++)
        overtaken += sink.numbers[i] < sink.numbers[i - 1];
    assert_true(overtaken > FRAMES / 50);
    close_cable();
}

/* The rate is 1 ns a byte, so a frame of 100 bytes takes 100 ns. The queue holds three frames. */
static void cable__bottleneck__queues_then_drops_the_newest(void **state)
{
    (void)state;
    open_cable(&(struct sim_cable_config){ .ps_per_byte = 1000, .queue_bytes = 300 });
    for (uint32_t i = 0; i < 5; i++)
        send(i, 100);
    sim_world_run(&world, URO_US(10));
    assert_int_equal(sink.count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(sink.numbers[i], i);
        assert_true(sink.times[i] == (i + 1) * 100);
    }
    assert_int_equal(cable.counts.lost, 2);
    close_cable();
}

static void cable__partition__no_frame_passes_meanwhile(void **state)
{
    (void)state;
    open_cable(&(struct sim_cable_config){
        .partition_from = 1000, .partition_every = 100000, .partition_for = 500 });
    send_all(100);
    for (uint32_t i = 0; i < sink.count; i++)
        assert_false(sink.times[i] >= 1000 && (sink.times[i] - 1000) % 100000 < 500);
    assert_int_equal(FRAMES - sink.count, 10);
    close_cable();
}

static void cable__calm__has_no_more_faults(void **state)
{
    (void)state;
    open_cable(&(struct sim_cable_config){ .loss_probability = 60000,
                                           .lose_run = 10,
                                           .duplicate_probability = 30000,
                                           .late_probability = 30000,
                                           .late_max = 5000,
                                           .partition_every = 1000,
                                           .partition_for = 900,
                                           .one_way_delay = 10 });
    sim_cable_calm(&cable);
    send_all(1);
    assert_int_equal(sink.count, FRAMES);
    for (uint32_t i = 0; i < FRAMES; i++)
        assert_int_equal(sink.numbers[i], i);
    close_cable();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cable__perfect__delivers_in_order_after_the_delay),
        cmocka_unit_test(cable__loses__count_matches_and_probability_is_near),
        cmocka_unit_test(cable__duplicates__each_copy_arrives),
        cmocka_unit_test(cable__late_frames__are_overtaken),
        cmocka_unit_test(cable__bottleneck__queues_then_drops_the_newest),
        cmocka_unit_test(cable__partition__no_frame_passes_meanwhile),
        cmocka_unit_test(cable__calm__has_no_more_faults),
    };
    return cmocka_run_group_tests_name("io/cable", tests, NULL, NULL);
}
