/* SPDX-License-Identifier: BSD-3-Clause */
#include "support/check.h"

#include "base/defs.h"
#include "unit/wire/vectors.h"
#include "wire/frame.h"

static void frame__every_vector_is_accepted_and_read_right(void **state)
{
    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(vectors); i++) {
        uint8_t octets[VECTOR_OCTETS_MAX];
        const uint32_t length = vector_frame(&vectors[i], octets);
        struct uro_frame frame;

        memset(&frame, 0xa5, sizeof frame);
        assert_int_equal(uro_frame_network(octets, length, &frame), URO_FRAME_OK);
        assert_int_equal(frame.udp.dest_port, URO_ROCE_PORT);
        assert_int_equal(uro_frame_roce(&frame), URO_FRAME_OK);
        assert_string_equal(frame.op->name, vectors[i].opcode);
        assert_int_equal(frame.bth.dest_qpn, vectors[i].dest_qpn);
        assert_int_equal(frame.bth.psn, vectors[i].psn);
        assert_int_equal(frame.payload_length, vectors[i].payload_length);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frame__every_vector_is_accepted_and_read_right),
    };
    return cmocka_run_group_tests_name("wire/frame", tests, NULL, NULL);
}
