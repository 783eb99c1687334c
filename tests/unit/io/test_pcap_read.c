/* SPDX-License-Identifier: BSD-3-Clause */
#include "support/check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/pcap/pcap_read.h"
#include "io/pcap/pcap_write.h"

#define ORIGIN UINT64_C(1700000000123456789)

static char folder[] = "/tmp/uroce-pcap-XXXXXX";
static char path[64];
static char error[URO_PCAP_ERROR_MAX];

/* Writes three frames of 60, 61 and 62 bytes, 1 ns apart. */
static void write_three(void)
{
    uint8_t octets[100];
    struct uro_pcap_write *writer;

    assert_int_equal(uro_pcap_write_open(path, "uroce0", ORIGIN, &writer), 0);
    for (uint32_t i = 0; i < 3; i++) {
        struct uro_pkt pkt = { .octets = octets, .length = 60 + i };
        memset(octets, (int)i, sizeof octets);
        assert_int_equal(uro_pcap_write_pkt(writer, &pkt, i), 0);
    }
    uro_pcap_write_close(writer);
}

static void patch(long at, uint32_t value)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    assert_int_equal(fwrite(&value, sizeof value, 1, file), 1);
    fclose(file);
}

static void pcap_read__written_capture__has_the_same_nanoseconds(void **state)
{
    (void)state;
    struct uro_pcap_read_frame frame;

    write_three();
    struct uro_pcap_read *reader = uro_pcap_read_open(path, error);
    assert_non_null(reader);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(uro_pcap_read_next(reader, &frame), 1);
        assert_true(frame.time == ORIGIN + i);
        assert_int_equal(frame.length, 60 + i);
        assert_int_equal(frame.pkt.length, 60 + i);
        for (uint32_t j = 0; j < 60 + i; j++)
            assert_int_equal(frame.pkt.octets[j], i);
    }
    assert_int_equal(uro_pcap_read_next(reader, &frame), 0);
    assert_int_equal(uro_pcap_read_next(reader, &frame), 0);
    uro_pcap_read_close(reader);
}

/* libpcap reads the frames of all interfaces, and ignores comments. */
static void pcapng__several_interfaces__frames_are_read_in_order(void **state)
{
    (void)state;
    static const uint8_t octets[61] = { 1, [60] = 0xee };
    const struct uro_pkt pkt = { .octets = octets, .length = sizeof octets };
    struct uro_pcap_read_frame frame;
    struct uro_pcap_write *writer;
    char ng[sizeof path + 8];

    (void)snprintf(ng, sizeof ng, "%s.pcapng", path);
    assert_int_equal(uro_pcap_write_open(ng, "uroce0", ORIGIN, &writer), 0);
    uro_pcap_write_comment(writer, "impair: tx request 0 1 dup");
    assert_int_equal(uro_pcap_write_pkt(writer, &pkt, 5), 0);
    assert_int_equal(uro_pcap_write_lost_pkt(writer, &pkt, 6), 0);
    assert_int_equal(uro_pcap_write_text(writer, "QP 0x11 RTS to ERR", 7), 0);
    uro_pcap_write_close(writer);

    struct uro_pcap_read *reader = uro_pcap_read_open(ng, error);
    assert_non_null(reader);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(uro_pcap_read_next(reader, &frame), 1);
        assert_int_equal(frame.time, ORIGIN + 5 + i);
        assert_int_equal(frame.pkt.length, sizeof octets);
        assert_memory_equal(frame.pkt.octets, octets, sizeof octets);
    }
    assert_int_equal(uro_pcap_read_next(reader, &frame), 1);
    assert_int_equal(frame.time, ORIGIN + 7);
    assert_int_equal(frame.pkt.length, 14 + 7 + 18);
    assert_memory_equal(frame.pkt.octets + 12, "\x88\xb5uroce: QP 0x11 RTS to ERR", 27);
    assert_int_equal(uro_pcap_read_next(reader, &frame), 0);
    uro_pcap_read_close(reader);
    unlink(ng);
}

static void pcap_read__truncated_frame__has_both_lengths(void **state)
{
    (void)state;
    struct uro_pcap_read_frame frame;

    write_three();
    patch(24 + 12, 1500);
    struct uro_pcap_read *reader = uro_pcap_read_open(path, error);
    assert_non_null(reader);
    assert_int_equal(uro_pcap_read_next(reader, &frame), 1);
    assert_int_equal(frame.length, 1500);
    assert_int_equal(frame.pkt.length, 60);
    uro_pcap_read_close(reader);
}

static void pcap_read__file_truncated_in_a_frame__complete_frames_then_an_error(void **state)
{
    (void)state;
    struct uro_pcap_read_frame frame;

    write_three();
    assert_int_equal(truncate(path, 24 + 16 + 60 + 16 + 30), 0);
    struct uro_pcap_read *reader = uro_pcap_read_open(path, error);
    assert_non_null(reader);
    assert_int_equal(uro_pcap_read_next(reader, &frame), 1);
    assert_int_equal(uro_pcap_read_next(reader, &frame), -EBADMSG);
    assert_non_null(strstr(uro_pcap_read_problem(reader), "truncated"));
    uro_pcap_read_close(reader);
}

static void pcap_read__other_link_type__error_has_the_type(void **state)
{
    (void)state;

    write_three();
    patch(20, 247); /* InfiniBand */
    assert_null(uro_pcap_read_open(path, error));
    assert_non_null(strstr(error, path));
    assert_non_null(strstr(error, "INFINIBAND"));
    assert_non_null(strstr(error, "Ethernet"));
}

/* Writes one frame: a link header of @header bytes with a protocol number at @type_at, and an IPv6
 * packet. */
static void write_linked(uint32_t link, uint32_t header, uint32_t type_at)
{
    uint8_t octets[100] = { 0 };
    struct uro_pkt pkt = { .octets = octets, .length = header + 40 };
    struct uro_pcap_write *writer;

    if (header > 0) {
        octets[type_at] = 0x86;
        octets[type_at + 1] = 0xdd;
    }
    octets[header] = 0x60;
    octets[header + 39] = 0x77;
    assert_int_equal(uro_pcap_write_open(path, "uroce0", ORIGIN, &writer), 0);
    assert_int_equal(uro_pcap_write_pkt(writer, &pkt, 0), 0);
    uro_pcap_write_close(writer);
    patch(20, link);
}

/* The link types are Linux cooked, its second version, and raw IP. */
static void pcap_read__link_type_without_ethernet__gets_an_ethernet_header(void **state)
{
    static const uint32_t kinds[][3] = { { 113, 16, 14 }, { 276, 20, 0 }, { 101, 0, 0 } };
    struct uro_pcap_read_frame frame;

    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        write_linked(kinds[i][0], kinds[i][1], kinds[i][2]);
        struct uro_pcap_read *reader = uro_pcap_read_open(path, error);
        assert_non_null(reader);
        assert_int_equal(uro_pcap_read_next(reader, &frame), 1);
        assert_int_equal(frame.pkt.length, 14 + 40);
        assert_int_equal(frame.length, 14 + 40);
        assert_int_equal(frame.pkt.octets[12], 0x86);
        assert_int_equal(frame.pkt.octets[13], 0xdd);
        assert_int_equal(frame.pkt.octets[14], 0x60);
        assert_int_equal(frame.pkt.octets[14 + 39], 0x77);
        uro_pcap_read_close(reader);
    }
}

/* A frame shorter than its link header is a frame of no protocol. */
static void pcap_read__frame_shorter_than_its_link_header__is_empty(void **state)
{
    uint8_t octets[10] = { 0 };
    struct uro_pkt pkt = { .octets = octets, .length = sizeof octets };
    struct uro_pcap_read_frame frame;
    struct uro_pcap_write *writer;

    (void)state;
    assert_int_equal(uro_pcap_write_open(path, "uroce0", ORIGIN, &writer), 0);
    assert_int_equal(uro_pcap_write_pkt(writer, &pkt, 0), 0);
    uro_pcap_write_close(writer);
    patch(20, 113);
    struct uro_pcap_read *reader = uro_pcap_read_open(path, error);
    assert_non_null(reader);
    assert_int_equal(uro_pcap_read_next(reader, &frame), 1);
    assert_int_equal(frame.pkt.length, 14);
    assert_int_equal(frame.pkt.octets[12] | frame.pkt.octets[13], 0);
    uro_pcap_read_close(reader);
}

static void pcap_read__file_other_than_a_capture__error_has_the_reason(void **state)
{
    (void)state;

    write_three();
    patch(0, 0x21212121);
    assert_null(uro_pcap_read_open(path, error));
    assert_non_null(strstr(error, path));
    unlink(path);
    assert_null(uro_pcap_read_open(path, error));
    assert_non_null(strstr(error, path));
}

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/a.pcap", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pcap_read__written_capture__has_the_same_nanoseconds),
        cmocka_unit_test(pcapng__several_interfaces__frames_are_read_in_order),
        cmocka_unit_test(pcap_read__truncated_frame__has_both_lengths),
        cmocka_unit_test(pcap_read__file_truncated_in_a_frame__complete_frames_then_an_error),
        cmocka_unit_test(pcap_read__other_link_type__error_has_the_type),
        cmocka_unit_test(pcap_read__link_type_without_ethernet__gets_an_ethernet_header),
        cmocka_unit_test(pcap_read__frame_shorter_than_its_link_header__is_empty),
        cmocka_unit_test(pcap_read__file_other_than_a_capture__error_has_the_reason),
    };
    return cmocka_run_group_tests_name("io/pcap_read", tests, make_folder, remove_folder);
}
