/* SPDX-License-Identifier: BSD-3-Clause */
/* test_quirks.c - tests that a simulated cable rewrites frames as other RoCE stacks send them. */
#include "support/check.h"

#include <string.h>

#include "sim/net/quirks.h"
#include "wire/bytes.h"

#include "support/make_frame.h"

#define ALL ((1u << SIM_QUIRKS_COUNT) - 1)

static struct sim_world world;
static uint8_t before[MADE_FRAME_MAX];
static struct sim_world_frame *carried;
static struct sim_quirks quirks;

static void free_carried(void)
{
    if (carried != NULL)
        sim_world_free_frame(&world, carried);
    carried = NULL;
}

static int open_world(void **state)
{
    (void)state;
    sim_world_init(&world, 1, 0);
    memset(&quirks, 0, sizeof quirks);
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    free_carried();
    sim_world_fini(&world);
    return 0;
}

/* Returns a frame with this opcode, PSN and AETH, after the cable has rewritten it. */
static struct uro_frame rewrite_one(const char *name, uint32_t psn, struct uro_aeth aeth,
                                    unsigned habits, uint32_t number)
{
    static const uint8_t address[2][4] = { { 10, 0, 0, 1 }, { 10, 0, 0, 2 } };
    const struct uro_frame frame = {
        .ether = { .type = URO_ETHERTYPE_IPV4 },
        .ip = { .hop_limit = 64,
                .source = uro_gid_from_ipv4(address[0]),
                .dest = uro_gid_from_ipv4(address[1]) },
        .udp = { .source_port = 50000, .dest_port = 4791 },
        .op = &uro_opcodes[uro_opcode_by_name(name)],
        .bth = { .opcode = (uint8_t)uro_opcode_by_name(name),
                 .pkey = 0xffff,
                 .dest_qpn = 7,
                 .psn = psn,
                 .migrated = true },
        .aeth = aeth,
        .payload = (const uint8_t *)"12345",
        .payload_length = uro_opcodes[uro_opcode_by_name(name)].payload ? 5 : 0,
    };
    struct uro_frame decoded;
    uint32_t length = make_frame(&frame, before);

    free_carried();
    carried = sim_world_make_frame(&world, length);
    memcpy(carried->bytes, before, length);
    sim_quirks_rewrite(&quirks, carried, habits, number);
    assert_int_equal(uro_frame_network(carried->bytes, carried->length, &decoded), URO_FRAME_OK);
    assert_int_equal(uro_frame_roce(&decoded), URO_FRAME_OK);
    return decoded;
}

static struct uro_frame rewrite(const char *name, unsigned habits, uint32_t number)
{
    const struct uro_aeth aeth = { .kind = URO_AETH_ACK, .value = URO_CREDITS_UNLIMITED, .msn = 9 };

    return rewrite_one(name, 100, aeth, habits, number);
}

static struct uro_frame rewrite_response(const char *name, uint32_t psn)
{
    return rewrite_one(name, psn, (struct uro_aeth){ .kind = URO_AETH_ACK }, SIM_QUIRK_TAIL, 1);
}

static void quirks__none__frame_is_unchanged(void **state)
{
    (void)state;
    (void)rewrite("RC_SEND_ONLY", 0, 3);
    assert_memory_equal(carried->bytes, before, carried->length);
}

static void quirks__not_roce__frame_is_unchanged(void **state)
{
    (void)state;
    carried = sim_world_make_frame(&world, 60);
    memset(carried->bytes, 0xee, 60);
    memset(before, 0xee, 60);
    sim_quirks_rewrite(&quirks, carried, ALL, 3);
    assert_memory_equal(carried->bytes, before, 60);
}

static void quirks__first_packet_of_a_message__has_ack_req(void **state)
{
    (void)state;
    assert_true(rewrite("RC_SEND_FIRST", SIM_QUIRK_ACK_REQ, 3).bth.ack_req);
}

static void quirks__acknowledge__grants_finite_credits(void **state)
{
    (void)state;
    const struct uro_frame frame = rewrite("RC_ACK", SIM_QUIRK_CREDITS, 33);

    assert_int_equal(frame.aeth.kind, URO_AETH_ACK);
    assert_int_equal(frame.aeth.value, 2);
    assert_int_equal(frame.aeth.msn, 9);
}

static void quirks__source_port__is_changed(void **state)
{
    (void)state;
    assert_int_equal(rewrite("RC_SEND_ONLY", SIM_QUIRK_PORT, 5).udp.source_port, 0xc005);
}

static void quirks__flush__has_the_icrc_of_rxe(void **state)
{
    (void)state;
    const struct uro_frame frame = rewrite("RC_FLUSH", SIM_QUIRK_FLUSH, 5);
    size_t length = carried->length - (size_t)(frame.network - carried->bytes) - URO_ICRC_LEN;

    assert_int_equal(uro_get_le32(frame.network + length),
                     uro_icrc_rxe_flush(frame.network, false, length));
}

static void quirks__migreq__is_never_set(void **state)
{
    (void)state;
    assert_false(rewrite("RC_SEND_ONLY", SIM_QUIRK_MIGREQ, 3).bth.migrated);
}

static void quirks__nak_invalid__has_code_operational_error(void **state)
{
    (void)state;
    const struct uro_aeth nak = { .kind = URO_AETH_NAK, .value = URO_NAK_INVALID_REQ };

    assert_int_equal(rewrite_one("RC_ACK", 5, nak, SIM_QUIRK_OPERATIONAL, 3).aeth.value,
                     URO_NAK_OPERATIONAL);
}

static void quirks__read_response__is_sometimes_an_ack_without_data(void **state)
{
    (void)state;
    const struct uro_frame other = rewrite("RC_READ_RESPONSE_LAST", SIM_QUIRK_BARE_ACK, 4);
    assert_string_equal(other.op->name, "RC_READ_RESPONSE_LAST");

    const struct uro_frame frame = rewrite("RC_READ_RESPONSE_LAST", SIM_QUIRK_BARE_ACK, 5);
    assert_string_equal(frame.op->name, "RC_ACK");
    assert_int_equal(frame.bth.psn, 100);
    assert_int_equal(frame.aeth.msn, 9);
    assert_int_equal(frame.payload_length, 0);
}

static void quirks__repeated_read_response__continues_in_the_middle(void **state)
{
    (void)state;
    assert_string_equal(rewrite_response("RC_READ_RESPONSE_FIRST", 0xffffff).op->name,
                        "RC_READ_RESPONSE_FIRST");
    (void)rewrite_response("RC_READ_RESPONSE_MIDDLE", 0);
    (void)rewrite_response("RC_READ_RESPONSE_LAST", 1);
    const struct uro_frame middle = rewrite_response("RC_READ_RESPONSE_FIRST", 0);
    assert_string_equal(middle.op->name, "RC_READ_RESPONSE_MIDDLE");
    assert_int_equal(middle.payload_length, 5);
    assert_memory_equal(middle.payload, "12345", 5);
    assert_string_equal(rewrite_response("RC_READ_RESPONSE_ONLY", 1).op->name,
                        "RC_READ_RESPONSE_LAST");
    assert_string_equal(rewrite_response("RC_READ_RESPONSE_ONLY", 2).op->name,
                        "RC_READ_RESPONSE_ONLY");
    assert_string_equal(rewrite_response("RC_READ_RESPONSE_FIRST", 0xffffff).op->name,
                        "RC_READ_RESPONSE_FIRST");
}

#define IN_WORLD(test) cmocka_unit_test_setup_teardown(test, open_world, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(quirks__none__frame_is_unchanged),
        IN_WORLD(quirks__not_roce__frame_is_unchanged),
        IN_WORLD(quirks__first_packet_of_a_message__has_ack_req),
        IN_WORLD(quirks__acknowledge__grants_finite_credits),
        IN_WORLD(quirks__source_port__is_changed),
        IN_WORLD(quirks__flush__has_the_icrc_of_rxe),
        IN_WORLD(quirks__migreq__is_never_set),
        IN_WORLD(quirks__nak_invalid__has_code_operational_error),
        IN_WORLD(quirks__read_response__is_sometimes_an_ack_without_data),
        IN_WORLD(quirks__repeated_read_response__continues_in_the_middle),
    };
    return cmocka_run_group_tests_name("quirks", tests, NULL, NULL);
}
