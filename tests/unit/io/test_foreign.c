/* SPDX-License-Identifier: BSD-3-Clause */
#include "support/check.h"

#include <string.h>

#include "io/sim/foreign.h"
#include "wire/bytes.h"

#include "support/make_frame.h"

#define ALL ((1u << URO_FOREIGN_HABITS) - 1)

static struct uro_world world;
static uint8_t before[MADE_FRAME_MAX];
static struct uro_world_frame *carried;

static int open_world(void **state)
{
    (void)state;
    uro_world_init(&world, 1, 0);
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    uro_world_free_frame(&world, carried);
    uro_world_fini(&world);
    return 0;
}

/* A frame of that name, as a cable rewrites it. */
static struct uro_frame rewrite(const char *name, unsigned habits, uint32_t number)
{
    static const uint8_t address[2][4] = { { 10, 0, 0, 1 }, { 10, 0, 0, 2 } };
    const struct uro_frame frame = {
        .ether = { .type = URO_ETHERTYPE_IPV4 },
        .ip = { .hop_limit = 64,
                .source = uro_gid_from_ipv4(address[0]),
                .dest = uro_gid_from_ipv4(address[1]) },
        .udp = { .source_port = 50000, .dest_port = 4791 },
        .op = &uro_opcodes[uro_opcode_by_name(name)],
        .bth = { .opcode = (uint8_t)uro_opcode_by_name(name), .pkey = 0xffff, .dest_qpn = 7 },
        .aeth = { .kind = URO_AETH_ACK, .value = URO_CREDITS_UNLIMITED, .msn = 9 },
    };
    struct uro_frame decoded;
    uint32_t length = make_frame(&frame, before);

    carried = uro_world_make_frame(&world, length);
    memcpy(carried->octets, before, length);
    uro_foreign_rewrite(carried, habits, number);
    assert_int_equal(uro_frame_network(carried->octets, length, &decoded), URO_FRAME_OK);
    assert_int_equal(uro_frame_roce(&decoded), URO_FRAME_OK);
    return decoded;
}

static void foreign__no_habits__frame_stays_as_it_is(void **state)
{
    (void)state;
    (void)rewrite("RC_SEND_ONLY", 0, 3);
    assert_memory_equal(carried->octets, before, carried->length);
}

static void foreign__not_roce__frame_stays_as_it_is(void **state)
{
    (void)state;
    carried = uro_world_make_frame(&world, 60);
    memset(carried->octets, 0xee, 60);
    memset(before, 0xee, 60);
    uro_foreign_rewrite(carried, ALL, 3);
    assert_memory_equal(carried->octets, before, 60);
}

static void foreign__request__asks_for_an_ack_in_the_middle(void **state)
{
    (void)state;
    assert_true(rewrite("RC_SEND_FIRST", URO_FOREIGN_ACK_REQ, 3).bth.ack_req);
}

static void foreign__acknowledge__grants_finite_credits(void **state)
{
    (void)state;
    const struct uro_frame frame = rewrite("RC_ACK", URO_FOREIGN_CREDITS, 33);

    assert_int_equal(frame.aeth.kind, URO_AETH_ACK);
    assert_int_equal(frame.aeth.value, 2);
    assert_int_equal(frame.aeth.msn, 9);
}

static void foreign__source_port__is_another_one(void **state)
{
    (void)state;
    assert_int_equal(rewrite("RC_SEND_ONLY", URO_FOREIGN_PORT, 5).udp.source_port, 0xc005);
}

static void foreign__flush__has_the_icrc_of_rxe(void **state)
{
    (void)state;
    const struct uro_frame frame = rewrite("RC_FLUSH", URO_FOREIGN_FLUSH, 5);
    size_t length = carried->length - (size_t)(frame.network - carried->octets) - URO_ICRC_LEN;

    assert_int_equal(uro_get_le32(frame.network + length),
                     uro_icrc_rxe_flush(frame.network, false, length));
}

#define IN_WORLD(test) cmocka_unit_test_setup_teardown(test, open_world, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(foreign__no_habits__frame_stays_as_it_is),
        IN_WORLD(foreign__not_roce__frame_stays_as_it_is),
        IN_WORLD(foreign__request__asks_for_an_ack_in_the_middle),
        IN_WORLD(foreign__acknowledge__grants_finite_credits),
        IN_WORLD(foreign__source_port__is_another_one),
        IN_WORLD(foreign__flush__has_the_icrc_of_rxe),
    };
    return cmocka_run_group_tests_name("foreign", tests, NULL, NULL);
}
