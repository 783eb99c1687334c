/* SPDX-License-Identifier: BSD-3-Clause */
/* test_opcode.c - tests the opcode table with rules that were not used to write it. */
#include "support/check.h"

#include <string.h>

#include "wire/opcode.h"

#define OPTIONAL (URO_EXT_IMM | URO_EXT_INV)

static bool contains(const char *text, const char *word)
{
    return strstr(text, word) != NULL;
}

static bool starts(const char *text, const char *word)
{
    return strncmp(text, word, strlen(word)) == 0;
}

/* rule WIRE.OPCODES */
static void opcode__table__has_the_packets_of_the_specification_and_no_more(void **state)
{
    static const struct {
        unsigned first;
        unsigned last;
    } ranges[] = {
        { 0x00, 0x14 }, { 0x16, 0x17 }, { 0x1c, 0x1d }, { 0x20, 0x2b }, { 0x64, 0x65 },
        { 0x81, 0x81 }, { 0xa0, 0xb4 }, { 0xb6, 0xb7 }, { 0xbc, 0xbd },
    };
    bool known[256] = { false };

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(ranges); i++)
        for (unsigned opcode = ranges[i].first; opcode <= ranges[i].last; opcode++)
            known[opcode] = true;
    for (unsigned opcode = 0; opcode < 256; opcode++)
        assert_int_equal(uro_opcodes[opcode].name != NULL, known[opcode]);
}

static void opcode__name__has_service_operation_position_and_headers(void **state)
{
    static const char *const services[] = { "RC_", "UC_", "UD_", "XRC_", "CNP" };
    static const char *const suffixes[] = { "_FIRST", "_MIDDLE", "_LAST", "_ONLY" };

    (void)state;
    for (unsigned opcode = 0; opcode < 256; opcode++) {
        const struct uro_opcode *op = &uro_opcodes[opcode];
        if (op->name == NULL)
            continue;
        assert_true(starts(op->name, services[op->service]));
        assert_int_equal(contains(op->name, "SEND"), op->operation == URO_SEND);
        assert_int_equal(contains(op->name, "READ"), op->operation == URO_READ);
        assert_int_equal(contains(op->name, "_IMM"), (op->ext & URO_EXT_IMM) != 0);
        assert_int_equal(contains(op->name, "_INV"), (op->ext & URO_EXT_INV) != 0);
        if (op->operation == URO_SEND || op->operation == URO_WRITE ||
            contains(op->name, "RESPONSE"))
            assert_true(contains(op->name, suffixes[op->position]));
        else
            assert_int_equal(op->position, URO_ONLY);
    }
}

/* The three high bits of an opcode are its service. */
static void opcode__number__has_the_service(void **state)
{
    static const int service_of[8] = { URO_RC, URO_UC, -1, URO_UD, URO_CNP, URO_XRC, -1, -1 };

    (void)state;
    for (unsigned opcode = 0; opcode < 256; opcode++)
        if (uro_opcodes[opcode].name != NULL)
            assert_int_equal(uro_opcodes[opcode].service, service_of[opcode >> 5]);
}

static void opcode__headers__follow_from_the_operation(void **state)
{
    (void)state;
    for (unsigned opcode = 0; opcode < 256; opcode++) {
        const struct uro_opcode *op = &uro_opcodes[opcode];
        if (op->name == NULL)
            continue;
        const bool starts_message = op->position == URO_FIRST || op->position == URO_ONLY;
        const bool request = op->role == URO_REQUEST;
        const bool middle_read = op->operation == URO_READ && op->position == URO_MIDDLE;

        assert_int_equal((op->ext & URO_EXT_XRCETH) != 0, op->service == URO_XRC && request);
        assert_int_equal((op->ext & URO_EXT_DETH) != 0, op->service == URO_UD);
        assert_int_equal((op->ext & URO_EXT_AETH) != 0, !request && !middle_read);
        assert_int_equal((op->ext & URO_EXT_ATOMIC_ACK) != 0, op->operation == URO_ATOMIC_ACK);
        assert_int_equal((op->ext & URO_EXT_ATOMIC) != 0,
                         op->operation == URO_CMP_SWAP || op->operation == URO_FETCH_ADD);
        assert_int_equal((op->ext & URO_EXT_FETH) != 0, op->operation == URO_FLUSH);
        assert_int_equal((op->ext & URO_EXT_CNP) != 0, op->operation == URO_NOTIFY);
        assert_int_equal((op->ext & URO_EXT_RETH) != 0,
                         (op->operation == URO_WRITE && starts_message) ||
                             op->operation == URO_FLUSH || (op->operation == URO_READ && request) ||
                             op->operation == URO_ATOMIC_WRITE);
        assert_int_equal(op->payload, op->operation == URO_SEND || op->operation == URO_WRITE ||
                                          op->operation == URO_ATOMIC_WRITE ||
                                          (op->operation == URO_READ && !request));
        assert_int_equal(op->takes_recv, (op->operation == URO_SEND && starts_message) ||
                                             (op->operation == URO_WRITE && op->ext & URO_EXT_IMM));
    }
}

/* XRC opcodes are RC opcodes with another base. Their requests have an additional XRCETH. */
static void opcode__xrc__is_rc_with_an_srq_number(void **state)
{
    (void)state;
    for (unsigned operation = 0; operation < 32; operation++) {
        const struct uro_opcode *rc = &uro_opcodes[operation];
        const struct uro_opcode *xrc = &uro_opcodes[0xa0 + operation];

        assert_int_equal(rc->name == NULL, xrc->name == NULL);
        if (rc->name == NULL)
            continue;
        assert_string_equal(rc->name, xrc->name + 1);
        assert_int_equal(rc->role, xrc->role);
        assert_int_equal(rc->operation, xrc->operation);
        assert_int_equal(rc->position, xrc->position);
        assert_int_equal(rc->ext | (rc->role == URO_REQUEST ? URO_EXT_XRCETH : 0), xrc->ext);
        assert_int_equal(rc->payload, xrc->payload);
        assert_int_equal(rc->takes_recv, xrc->takes_recv);
    }
}

static void opcode_find__every_argument__agrees_with_the_table(void **state)
{
    static const unsigned exts[] = { 0, URO_EXT_IMM, URO_EXT_INV, OPTIONAL };
    unsigned found = 0;

    (void)state;
    for (unsigned n = 0; n < URO_SERVICE_COUNT * 2 * URO_OPERATION_COUNT * 4 * 4; n++) {
        const unsigned ext = exts[n % 4];
        const enum uro_position position = (enum uro_position)(n / 4 % 4);
        const enum uro_role role = (enum uro_role)(n / 16 % 2);
        const enum uro_operation operation = (enum uro_operation)(n / 32 % URO_OPERATION_COUNT);
        const enum uro_service service = (enum uro_service)(n / 32 / URO_OPERATION_COUNT);
        int expected = -1;

        for (int i = 0; i < 256; i++) {
            const struct uro_opcode *op = &uro_opcodes[i];
            if (op->name != NULL && op->service == service && op->role == role &&
                op->operation == operation && op->position == position &&
                (op->ext & OPTIONAL) == ext)
                expected = i;
        }
        found += expected >= 0;
        assert_int_equal(uro_opcode_find(service, role, operation, position, ext), expected);
    }
    assert_int_equal(found, 25 + 12 + 2 + 1 + 25);
}

static void opcode_by_name__any_text__only_opcode_names_are_found(void **state)
{
    (void)state;
    for (int opcode = 0; opcode < 256; opcode++)
        if (uro_opcodes[opcode].name != NULL)
            assert_int_equal(uro_opcode_by_name(uro_opcodes[opcode].name), opcode);
    assert_int_equal(uro_opcode_by_name("RC_SEND"), -1);
    assert_int_equal(uro_opcode_by_name(""), -1);
}

static void ext_length__any_headers__is_the_sum_of_their_lengths(void **state)
{
    (void)state;
    assert_int_equal(uro_ext_length(0), 0);
    assert_int_equal(uro_ext_length(URO_EXT_RETH), 16);
    assert_int_equal(uro_ext_length(URO_EXT_RETH | URO_EXT_IMM), 20);
    assert_int_equal(uro_ext_length(URO_EXT_XRCETH | URO_EXT_ATOMIC), 32);
    assert_int_equal(uro_ext_length(URO_EXT_AETH | URO_EXT_ATOMIC_ACK), 12);
    assert_int_equal(uro_ext_length(URO_EXT_FETH | URO_EXT_RETH), 20);
    assert_int_equal(uro_ext_length(URO_EXT_DETH | URO_EXT_INV), 12);
    assert_int_equal(uro_ext_length(URO_EXT_CNP), 16);
    for (unsigned opcode = 0; opcode < 256; opcode++)
        assert_int_equal(uro_opcodes[opcode].ext_length, uro_ext_length(uro_opcodes[opcode].ext));
    assert_int_equal(uro_ext_length((1u << URO_EXT_COUNT) - 1),
                     4 + 8 + 4 + 16 + 28 + 4 + 8 + 4 + 4 + 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opcode__table__has_the_packets_of_the_specification_and_no_more),
        cmocka_unit_test(opcode__name__has_service_operation_position_and_headers),
        cmocka_unit_test(opcode__number__has_the_service),
        cmocka_unit_test(opcode__headers__follow_from_the_operation),
        cmocka_unit_test(opcode__xrc__is_rc_with_an_srq_number),
        cmocka_unit_test(opcode_find__every_argument__agrees_with_the_table),
        cmocka_unit_test(opcode_by_name__any_text__only_opcode_names_are_found),
        cmocka_unit_test(ext_length__any_headers__is_the_sum_of_their_lengths),
    };
    return cmocka_run_group_tests_name("wire/opcode", tests, NULL, NULL);
}
