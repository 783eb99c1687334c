/* SPDX-License-Identifier: BSD-3-Clause */
/* test_replay.c - decodes captures of other implementations, encodes them again, and gives them to
 * an engine. */
#include "support/check.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/pcap/pcap_read.h"
#include "io/pcap/pcap_replay.h"
#include "sim/oracle/model.h"
#include "wire/frame.h"

#define CAPTURES_MAX 200u

static char captures[CAPTURES_MAX][512];
static uint32_t capture_count;

static int find_captures(void **state)
{
    (void)state;
    const char *folder = getenv("UROCE_FIXTURES");
    const struct dirent *entry;
    DIR *dir = folder != NULL ? opendir(folder) : NULL;

    if (dir == NULL)
        return -1;
    while ((entry = readdir(dir)) != NULL && capture_count < CAPTURES_MAX) {
        const char *end = strrchr(entry->d_name, '.');
        if (end != NULL && strcmp(end, ".pcap") == 0)
            snprintf(captures[capture_count++], sizeof captures[0], "%s/%s", folder, entry->d_name);
    }
    closedir(dir);
    return capture_count > 0 ? 0 : -1;
}

static struct uro_pcap_read *open_capture(uint32_t number)
{
    char error[URO_PCAP_ERROR_MAX];
    struct uro_pcap_read *reader = uro_pcap_read_open(captures[number], error);

    if (reader == NULL)
        fail_msg("%s", error);
    return reader;
}

/* Encodes every decoded frame again: all headers, checksums and the ICRC must be the same. */
static void fixtures__each_frame__encodes_to_its_own_bytes(void **state)
{
    (void)state;
    struct uro_pcap_read_frame frame;
    struct sim_codec recode;
    uint32_t frames = 0;
    uint32_t as_rxe = 0;

    for (uint32_t i = 0; i < capture_count; i++) {
        struct uro_pcap_read *reader = open_capture(i);
        for (uint32_t n = 1; uro_pcap_read_next(reader, &frame) == 1; n++) {
            if (!sim_codec_check(frame.pkt.octets, frame.pkt.length, &recode))
                fail_msg("%s frame %u: %s", captures[i], n, recode.problem);
            assert_true(recode.roce);
            frames++;
            as_rxe += recode.rxe_flush;
        }
        uro_pcap_read_close(reader);
    }
    printf("# %u frames, %u with the ICRC of Linux rxe's FLUSH\n", frames, as_rxe);
    assert_true(frames > 300);
    assert_int_equal(as_rxe, 4); /* one frame of made_flush.pcap, and three frames of rxe */
}

/* The captures must contain every opcode of the table, except those of XRC and of @missing. */
static void fixtures__each_opcode__is_in_a_capture(void **state)
{
    (void)state;
    static const char *const missing[] = {
        "RC_SEND_LAST_INV"
    }; /* no capture has a long SEND with invalidate */
    bool seen[256] = { false };
    struct uro_pcap_read_frame frame;
    struct uro_frame decoded;

    for (uint32_t i = 0; i < capture_count; i++) {
        struct uro_pcap_read *reader = open_capture(i);
        while (uro_pcap_read_next(reader, &frame) == 1) {
            assert_int_equal(uro_frame_network(frame.pkt.octets, frame.pkt.length, &decoded),
                             URO_FRAME_OK);
            assert_int_equal(uro_frame_roce(&decoded), URO_FRAME_OK);
            seen[decoded.bth.opcode] = true;
        }
        uro_pcap_read_close(reader);
    }
    for (unsigned i = 0; i < 256; i++) {
        bool excused = uro_opcodes[i].name == NULL || uro_opcodes[i].service == URO_XRC;
        for (size_t j = 0; j < URO_ARRAY_LEN(missing) && !excused; j++)
            excused = strcmp(uro_opcodes[i].name, missing[j]) == 0;
        if (!excused && !seen[i])
            fail_msg("no fixture shows %s", uro_opcodes[i].name);
    }
}

static struct uro_engine *make_engine(void **memory)
{
    static const uint8_t address[4] = { 10, 77, 0, 3 };
    struct uro_engine_config config = {
        .mac = { { 2, 0, 0, 0, 0, 3 } }, .mtu = 4200, .address_count = 2, .table_bits = 4
    };
    struct uro_engine *engine;

    config.addresses[0].gid = uro_gid_link_local(&config.mac);
    config.addresses[0].prefix = 64;
    config.addresses[1].gid = uro_gid_from_ipv4(address);
    config.addresses[1].prefix = 24;
    size_t size = (uro_engine_size(&config) + 63) / 64 * 64;
    *memory = aligned_alloc(64, size);
    assert_non_null(*memory);
    assert_int_equal(uro_engine_init(*memory, &config, URO_MS(5), &engine), 0);
    return engine;
}

static void replay__frames_to_another_address__are_counted_and_not_answered(void **state)
{
    (void)state;
    void *memory;

    for (uint32_t i = 0; i < capture_count; i++) {
        struct uro_engine *engine = make_engine(&memory);
        struct uro_pcap_replay replay = { .engine = engine, .start = URO_MS(6) };
        struct uro_pcap_read *reader = open_capture(i);

        assert_int_equal(uro_pcap_replay_run(&replay, reader, URO_MS(1000)), 0);
        assert_true(replay.frames_in > 0);
        assert_int_equal(replay.frames_out, 0);
        assert_true(replay.now >= URO_MS(1006));
        assert_int_equal(uro_engine_counters(engine)->value[URO_COUNT_RX_FRAMES], replay.frames_in);
        assert_true(uro_engine_next(engine) == URO_TIME_NEVER);
        uro_pcap_read_close(reader);
        free(memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fixtures__each_frame__encodes_to_its_own_bytes),
        cmocka_unit_test(fixtures__each_opcode__is_in_a_capture),
        cmocka_unit_test(replay__frames_to_another_address__are_counted_and_not_answered),
    };
    return cmocka_run_group_tests_name("replay", tests, find_captures, NULL);
}
