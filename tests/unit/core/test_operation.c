/* SPDX-License-Identifier: BSD-3-Clause */
/* test_operation.c - compares the tables of core/operation.c with the opcode table of
 * wire/opcode.c. */
#include "core/cq.h"
#include "core/operation.h"
#include "support/check.h"

static const struct uro_opcode *request_of(enum uro_operation operation, enum uro_position position,
                                           unsigned extra)
{
    int opcode = uro_opcode_find(URO_RC, URO_REQUEST, operation, position, extra);

    return opcode < 0 ? NULL : &uro_opcodes[opcode];
}

static void operation__carries_payload__agrees_with_the_packets(void **state)
{
    (void)state;
    for (unsigned operation = 0; operation < URO_OPERATION_COUNT; operation++) {
        const struct uro_opcode *only = request_of(operation, URO_ONLY, 0);
        if (only != NULL)
            assert_int_equal(uro_operation_traits[operation].carries_payload, only->payload);
        else
            assert_false(uro_operation_traits[operation].carries_payload);
    }
}

static void operation__answered__is_one_packet_and_has_a_response(void **state)
{
    (void)state;
    for (unsigned operation = 0; operation < URO_OPERATION_COUNT; operation++) {
        if (request_of(operation, URO_ONLY, 0) == NULL)
            continue;
        const struct uro_operation_traits *traits = &uro_operation_traits[operation];
        assert_int_equal(uro_operation_has_response(operation),
                         request_of(operation, URO_FIRST, 0) == NULL);
        int response = uro_opcode_find(URO_RC, URO_RESPONSE, traits->response, URO_ONLY, 0);
        assert_true(response >= 0);
        const struct uro_opcode *op = &uro_opcodes[response];
        assert_int_equal(traits->fills_buffers, uro_operation_has_response(operation) &&
                                                    !traits->carries_payload &&
                                                    operation != URO_FLUSH);
        assert_int_equal(traits->form == URO_RESPOND_ATOMIC, (op->ext & URO_EXT_ATOMIC_ACK) != 0);
        assert_int_equal(traits->form == URO_RESPOND_ACK, !op->payload && op->ext == URO_EXT_AETH);
    }
}

static void operation__names_memory_of_the_peer__requires_a_right(void **state)
{
    (void)state;
    for (unsigned operation = 0; operation < URO_OPERATION_COUNT; operation++) {
        const struct uro_opcode *only = request_of(operation, URO_ONLY, 0);
        bool names = only != NULL && (only->ext & (URO_EXT_RETH | URO_EXT_ATOMIC)) != 0 &&
                     (only->ext & URO_EXT_FETH) == 0;
        assert_int_equal(uro_operation_traits[operation].access != 0, names);
    }
}

static void request_kind__remote__has_an_opcode_with_its_extra_header(void **state)
{
    (void)state;
    for (unsigned i = 0; i < URO_REQUEST_KINDS; i++) {
        const struct uro_request_kind *kind = &uro_request_kinds[i];
        if (kind->scope == URO_REQUEST_REMOTE)
            assert_non_null(request_of(kind->operation, URO_ONLY, kind->ext));
        else
            assert_int_equal(kind->ext, 0);
    }
}

static void request_kind__not_in_the_table__is_unknown(void **state)
{
    struct uro_wqe wqe = { 0 };

    (void)state;
    for (unsigned i = 0; i < 256; i++) {
        wqe.opcode = (uint8_t)i;
        bool known = i <= URO_WR_SEND_WITH_INV || i == URO_WR_FLUSH || i == URO_WR_ATOMIC_WRITE;
        assert_int_equal(uro_request_kind(&wqe)->scope != URO_REQUEST_UNKNOWN, known);
    }
}

/* WRITE_WITH_IMM completes as WRITE, SEND_WITH_INV as SEND. */
static void request_kind__variants__complete_as_the_plain_request(void **state)
{
    (void)state;
    for (unsigned i = 0; i < URO_REQUEST_KINDS; i++)
        for (unsigned k = 0; k < URO_REQUEST_KINDS; k++) {
            const struct uro_request_kind *a = &uro_request_kinds[i], *b = &uro_request_kinds[k];
            if (a->scope != URO_REQUEST_REMOTE || b->scope != URO_REQUEST_REMOTE)
                continue;
            assert_int_equal(a->wc_opcode == b->wc_opcode, a->operation == b->operation);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operation__carries_payload__agrees_with_the_packets),
        cmocka_unit_test(operation__answered__is_one_packet_and_has_a_response),
        cmocka_unit_test(operation__names_memory_of_the_peer__requires_a_right),
        cmocka_unit_test(request_kind__remote__has_an_opcode_with_its_extra_header),
        cmocka_unit_test(request_kind__not_in_the_table__is_unknown),
        cmocka_unit_test(request_kind__variants__complete_as_the_plain_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
