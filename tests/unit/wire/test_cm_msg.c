/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cm_msg.c - tests connection management messages: known octets from Linux, and values encoded
 * and decoded again. */
#include "support/check.h"

#include "base/rng.h"
#include "wire/bytes.h"
#include "wire/cm_msg.h"

#define BODY   24u
#define ROUNDS 200

struct piece {
    uint32_t at;
    const char *hex;
};

static uint8_t nibble(char c)
{
    return (uint8_t)(c <= '9' ? c - '0' : c - 'a' + 10);
}

/* Writes a datagram of @attribute with the octets of @pieces in its body to @mad. */
static void build(uint8_t mad[static URO_MAD_LEN], uint16_t attribute, const struct piece *pieces,
                  size_t count)
{
    memset(mad, 0, URO_MAD_LEN);
    mad[0] = 1;
    mad[1] = 7;
    mad[2] = 2;
    mad[3] = 3;
    uro_put_be64(mad + 8, UINT64_C(0x000000023dcbe40b));
    uro_put_be16(mad + 16, attribute);
    for (size_t i = 0; i < count; i++) {
        uint8_t *at = mad + BODY + pieces[i].at;
        for (const char *c = pieces[i].hex; *c != '\0'; c += 2)
            *at++ = (uint8_t)(nibble(c[0]) << 4 | nibble(c[1]));
    }
}

static void assert_same(const uint8_t *mad, const struct uro_cm_msg *msg)
{
    uint8_t again[URO_MAD_LEN];

    uro_cm_encode(again, msg);
    assert_memory_equal(again, mad, URO_MAD_LEN);
}

/* rule CM.LAYOUT */
static void req__sent_by_linux__every_field_is_decoded(void **state)
{
    static const struct piece pieces[] = {
        { 0, "0be4cb3d" },
        { 8, "0000000001061c06" },
        { 16, "505400fffe11220b" },
        { 32, "000011010000000100000"
              "0a0d7ac85a7" },
        { 48, "ffff37f0ffffffff" },
        { 56, "00000000000000000000ffff0a070002" },
        { 72, "00000000000000000000ffff0a070001" },
        { 88, "cb0c000000400098" },
        { 140, "0040ec06" },
        { 156, "0a070002" },
        { 172, "0a070001" },
    };
    static const uint64_t expected[URO_CM_FIELD_COUNT] = {
        [URO_CM_LOCAL_ID] = 0x0be4cb3d,
        [URO_CM_SERVICE_ID] = 0x01061c06,
        [URO_CM_CA_GUID] = UINT64_C(0x505400fffe11220b),
        [URO_CM_LOCAL_QPN] = 0x11,
        [URO_CM_RESPONDER_RESOURCES] = 1,
        [URO_CM_INITIATOR_DEPTH] = 1,
        [URO_CM_REMOTE_RESPONSE_TIMEOUT] = 20,
        [URO_CM_STARTING_PSN] = 0xd7ac85,
        [URO_CM_LOCAL_RESPONSE_TIMEOUT] = 20,
        [URO_CM_RETRY_COUNT] = 7,
        [URO_CM_PKEY] = 0xffff,
        [URO_CM_PATH_MTU] = 3,
        [URO_CM_RNR_RETRY_COUNT] = 7,
        [URO_CM_MAX_RETRIES] = 15,
        [URO_CM_LOCAL_LID] = 0xffff,
        [URO_CM_REMOTE_LID] = 0xffff,
        [URO_CM_FLOW_LABEL] = 0xcb0c0,
        [URO_CM_HOP_LIMIT] = 64,
        [URO_CM_LOCAL_ACK_TIMEOUT] = 19,
    };
    const uint8_t client[4] = { 10, 7, 0, 2 };
    const uint8_t server[4] = { 10, 7, 0, 1 };
    const struct uro_gid from = uro_gid_from_ipv4(client);
    const struct uro_gid to = uro_gid_from_ipv4(server);
    uint8_t mad[URO_MAD_LEN];
    struct uro_cm_msg msg;

    (void)state;
    build(mad, 0x0010, pieces, URO_ARRAY_LEN(pieces));
    assert_int_equal(uro_cm_decode(mad, &msg), URO_CM_OK);
    assert_int_equal(msg.kind, URO_CM_REQ);
    assert_int_equal(msg.tid, UINT64_C(0x000000023dcbe40b));
    for (unsigned i = 0; i < URO_CM_FIELD_COUNT; i++)
        if (msg.value[i] != expected[i])
            fail_msg("field %u is %llx, not %llx", i, (unsigned long long)msg.value[i],
                     (unsigned long long)expected[i]);
    assert_true(uro_gid_equal(&msg.local_gid, &from));
    assert_true(uro_gid_equal(&msg.remote_gid, &to));
    assert_int_equal(msg.data_length, 92);
    assert_int_equal(msg.data[1], 0x40);
    assert_same(mad, &msg);
}

static void rep__sent_by_linux__every_field_is_decoded(void **state)
{
    static const struct piece pieces[] = {
        { 0, "11cb9e2b0be4cb3d00000000000011000000000"
             "04def7b00"
             "010178e0505400fffe11220a" },
    };
    static const uint64_t expected[URO_CM_FIELD_COUNT] = {
        [URO_CM_LOCAL_ID] = 0x11cb9e2b,
        [URO_CM_REMOTE_ID] = 0x0be4cb3d,
        [URO_CM_LOCAL_QPN] = 0x11,
        [URO_CM_STARTING_PSN] = 0x4def7b,
        [URO_CM_RESPONDER_RESOURCES] = 1,
        [URO_CM_INITIATOR_DEPTH] = 1,
        [URO_CM_TARGET_ACK_DELAY] = 15,
        [URO_CM_RNR_RETRY_COUNT] = 7,
        [URO_CM_CA_GUID] = UINT64_C(0x505400fffe11220a),
    };
    uint8_t mad[URO_MAD_LEN];
    struct uro_cm_msg msg;

    (void)state;
    build(mad, 0x0013, pieces, URO_ARRAY_LEN(pieces));
    assert_int_equal(uro_cm_decode(mad, &msg), URO_CM_OK);
    assert_int_equal(msg.kind, URO_CM_REP);
    for (unsigned i = 0; i < URO_CM_FIELD_COUNT; i++)
        if (msg.value[i] != expected[i])
            fail_msg("field %u is %llx, not %llx", i, (unsigned long long)msg.value[i],
                     (unsigned long long)expected[i]);
    assert_same(mad, &msg);
}

static void every_message__random_values__are_encoded_and_decoded(void **state)
{
    struct uro_rng rng;
    uint8_t mad[URO_MAD_LEN], again[URO_MAD_LEN];
    struct uro_cm_msg msg;

    (void)state;
    uro_rng_init_number(&rng, 20261121);
    for (unsigned kind = 0; kind < URO_CM_KIND_COUNT; kind++)
        for (int round = 0; round < ROUNDS; round++) {
            memset(&msg, 0, sizeof msg);
            msg.kind = (enum uro_cm_kind)kind;
            msg.data_length = uro_cm_data_max(msg.kind);
            for (unsigned i = 0; i < URO_CM_FIELD_COUNT; i++)
                msg.value[i] = uro_rng_u64(&rng);
            for (uint32_t i = 0; i < msg.data_length; i++)
                msg.data[i] = (uint8_t)uro_rng_u32(&rng);
            uro_cm_encode(mad, &msg);
            assert_int_equal(uro_cm_decode(mad, &msg), URO_CM_OK);
            uro_cm_encode(again, &msg);
            assert_memory_equal(again, mad, URO_MAD_LEN);
        }
}

/* No two fields of a message share a bit, and none reaches into the private data. */
static void cm_message__one_field_at_a_time__only_its_bits_are_set(void **state)
{
    uint8_t mad[URO_MAD_LEN], seen[URO_MAD_LEN];
    struct uro_cm_msg msg;

    (void)state;
    for (unsigned kind = 0; kind < URO_CM_KIND_COUNT; kind++) {
        memset(seen, 0, sizeof seen);
        for (unsigned field = 0; field < URO_CM_FIELD_COUNT; field++) {
            memset(&msg, 0, sizeof msg);
            msg.kind = (enum uro_cm_kind)kind;
            msg.value[field] = UINT64_MAX;
            uro_cm_encode(mad, &msg);
            for (unsigned i = BODY; i < URO_MAD_LEN; i++) {
                assert_int_equal(seen[i] & mad[i], 0);
                seen[i] |= mad[i];
            }
        }
        memset(&msg, 0, sizeof msg);
        msg.kind = (enum uro_cm_kind)kind;
        msg.data_length = uro_cm_data_max(msg.kind);
        memset(msg.data, 0xff, msg.data_length);
        uro_cm_encode(mad, &msg);
        for (unsigned i = BODY; i < URO_MAD_LEN; i++)
            assert_int_equal(seen[i] & mad[i], 0);
        assert_int_equal(mad[URO_MAD_LEN - 1], 0xff);
    }
}

static void cm_decode__other_datagrams__are_recognised(void **state)
{
    static const struct {
        unsigned at;
        uint8_t value;
        enum uro_cm_result result;
    } cases[] = {
        { 0, 2, URO_CM_NOT_CM },    { 1, 3, URO_CM_NOT_CM },      { 2, 1, URO_CM_NOT_CM },
        { 3, 0x81, URO_CM_NOT_CM }, { 17, 0x1b, URO_CM_UNKNOWN },
    };
    uint8_t mad[URO_MAD_LEN], answer[URO_MAD_LEN];
    struct uro_cm_msg msg;

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(cases); i++) {
        build(mad, 0x0010, NULL, 0);
        mad[cases[i].at] = cases[i].value;
        assert_int_equal(uro_cm_decode(mad, &msg), cases[i].result);
    }
    build(mad, 0x0001, NULL, 0);
    mad[3] = 1;
    assert_int_equal(uro_cm_decode(mad, &msg), URO_CM_CLASS_INFO);
    uro_cm_refuse_class_info(mad, answer);
    assert_int_equal(answer[3], 0x81);
    assert_int_equal(uro_get_be16(answer + 4), 0x000c);
    assert_int_equal(uro_get_be64(answer + 8), UINT64_C(0x000000023dcbe40b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(req__sent_by_linux__every_field_is_decoded),
        cmocka_unit_test(rep__sent_by_linux__every_field_is_decoded),
        cmocka_unit_test(every_message__random_values__are_encoded_and_decoded),
        cmocka_unit_test(cm_message__one_field_at_a_time__only_its_bits_are_set),
        cmocka_unit_test(cm_decode__other_datagrams__are_recognised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
