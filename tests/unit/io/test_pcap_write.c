/* SPDX-License-Identifier: BSD-3-Clause */
#include "support/check.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/pcap/pcap_write.h"

#define FILE_HEADER  24u
#define FRAME_HEADER 16u

static char folder[] = "/tmp/uroce-pcap-XXXXXX";
static char pcap_path[64], pcapng_path[64];
static const char *path = pcap_path; /* file of the current test */

static const uint8_t octets[100] = { 1, 2, 3, [99] = 0xee };

static struct uro_pcap_write *open_writer(uint64_t origin)
{
    struct uro_pcap_write *writer = NULL;

    path = pcap_path;
    assert_int_equal(uro_pcap_write_open(path, "uroce0", origin, &writer), 0);
    assert_non_null(writer);
    return writer;
}

static int append(struct uro_pcap_write *writer, uint32_t length, uro_time now)
{
    struct uro_pkt pkt = { .octets = octets, .length = length };
    return uro_pcap_write_pkt(writer, &pkt, now);
}

/* Reads the whole file. Returns its length. */
static size_t content(uint8_t *at, size_t size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t length = fread(at, 1, size, file);
    fclose(file);
    return length;
}

static uint32_t word(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static void file__two_frames__are_stored_with_nanoseconds(void **state)
{
    (void)state;
    uint8_t file[1024];
    struct uro_pcap_write *writer = open_writer(UINT64_C(1700000000999999999));

    assert_int_equal(append(writer, 14, 1), 0);
    assert_int_equal(append(writer, 100, 12), 0);
    uro_pcap_write_close(writer);

    assert_int_equal(content(file, sizeof file), FILE_HEADER + 2 * FRAME_HEADER + 114);
    assert_int_equal(word(file), 0xa1b23c4d); /* magic: nanoseconds */
    assert_int_equal(word(file + 4), 2 | 4 << 16);
    assert_int_equal(word(file + 20), 1); /* Ethernet */
    assert_int_equal(word(file + 24), 1700000001);
    assert_int_equal(word(file + 28), 0);
    assert_int_equal(word(file + 32), 14);
    assert_int_equal(word(file + 36), 14);
    assert_memory_equal(file + 40, octets, 14);
    assert_int_equal(word(file + 54), 1700000001);
    assert_int_equal(word(file + 58), 11);
    assert_memory_equal(file + 70, octets, 100);
}

static void file__without_frames__is_a_capture(void **state)
{
    (void)state;
    uint8_t file[100];

    uro_pcap_write_close(open_writer(0));
    assert_int_equal(content(file, sizeof file), FILE_HEADER);
}

static void flush__frames_in_the_buffer__are_visible_to_other_readers(void **state)
{
    (void)state;
    uint8_t file[1024];
    struct uro_pcap_write *writer = open_writer(0);

    assert_int_equal(append(writer, 50, 0), 0);
    assert_int_equal(uro_pcap_write_flush(writer), 0);
    assert_int_equal(content(file, sizeof file), FILE_HEADER + FRAME_HEADER + 50);
    uro_pcap_write_close(writer);
}

static void write__frames_beyond_the_buffer_size__all_are_in_the_file(void **state)
{
    (void)state;
    enum { FRAMES = 5000 };
    struct stat status;
    struct uro_pcap_write *writer = open_writer(0);

    for (int i = 0; i < FRAMES; i++)
        assert_int_equal(append(writer, 100, 0), 0);
    uro_pcap_write_close(writer);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_size, FILE_HEADER + FRAMES * (FRAME_HEADER + 100));
}

static void limit_file_size(rlim_t bytes_max)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* A file size limit acts like a full disk: the first write is short, and the next fails. */
static void write__disk_full__one_message_and_the_capture_continues(void **state)
{
    (void)state;
    uint8_t file[1024];
    struct uro_pcap_write *writer = open_writer(0);

    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(uro_pcap_write_flush(writer), 0);
    assert_int_equal(append(writer, 20, 0), 0);
    assert_int_equal(uro_pcap_write_flush(writer), 0);

    limit_file_size(FILE_HEADER + FRAME_HEADER + 20 + 7);
    assert_int_equal(append(writer, 30, 0), 0);
    assert_int_equal(append(writer, 30, 0), 0);
    assert_int_equal(uro_pcap_write_flush(writer), -EFBIG);
    assert_int_equal(append(writer, 30, 0), 0);
    assert_int_equal(uro_pcap_write_flush(writer), 0);
    assert_int_equal(uro_pcap_write_lost(writer), 3);
    assert_int_equal(content(file, sizeof file), FILE_HEADER + FRAME_HEADER + 20);

    limit_file_size(RLIM_INFINITY);
    assert_int_equal(append(writer, 40, 0), 0);
    uro_pcap_write_close(writer);
    assert_int_equal(content(file, sizeof file), FILE_HEADER + 2 * FRAME_HEADER + 60);
    assert_int_equal(word(file + FILE_HEADER + FRAME_HEADER + 20 + 8), 40);
}

static void disk_full__from_the_start__capture_is_written_later(void **state)
{
    (void)state;
    uint8_t file[1024];
    struct uro_pcap_write *writer = open_writer(0);

    limit_file_size(10);
    assert_int_equal(append(writer, 20, 0), 0);
    assert_int_equal(uro_pcap_write_flush(writer), -EFBIG);
    limit_file_size(RLIM_INFINITY);
    assert_int_equal(append(writer, 30, 0), 0);
    uro_pcap_write_close(writer);
    assert_int_equal(content(file, sizeof file), FILE_HEADER + FRAME_HEADER + 30);
    assert_int_equal(word(file), 0xa1b23c4d);
}

/* ---- pcapng ------------------------------------------------------------------- */

/* Length of the section header block and of the interfaces "w", "w lost" and "w events", bytes. */
#define NG_HEADER (28u + 40u + 44u + 44u)

static struct uro_pcap_write *open_pcapng(void)
{
    struct uro_pcap_write *writer = NULL;

    path = pcapng_path;
    assert_int_equal(uro_pcap_write_open(path, "w", UINT64_C(0x100000000), &writer), 0);
    assert_true(uro_pcap_write_is_pcapng(writer));
    return writer;
}

/* Checks the lengths at the start and the end of each block. Returns the number of blocks. */
static unsigned check_blocks(const uint8_t *file, size_t length)
{
    unsigned count = 0;

    for (size_t at = 0; at < length; count++) {
        const uint32_t block = word(file + at + 4);
        assert_in_range(block, 12, length - at);
        assert_int_equal(block % 4, 0);
        assert_int_equal(word(file + at + block - 4), block);
        at += block;
    }
    return count;
}

static void pcapng__frame_with_a_comment__comment_is_an_option(void **state)
{
    (void)state;
    uint8_t file[1024];
    struct uro_pcap_write *writer = open_pcapng();

    uro_pcap_write_comment(writer, "lost!");
    assert_int_equal(append(writer, 14, 3), 0);
    assert_int_equal(append(writer, 13, 4), 0);
    uro_pcap_write_close(writer);

    const size_t length = content(file, sizeof file);
    const uint8_t *frame = file + NG_HEADER;
    assert_int_equal(check_blocks(file, length), 4 + 2);
    assert_int_equal(word(frame), 6);      /* enhanced packet block */
    assert_int_equal(word(frame + 8), 0);  /* interface */
    assert_int_equal(word(frame + 12), 1); /* time, upper half */
    assert_int_equal(word(frame + 16), 3);
    assert_int_equal(word(frame + 20), 14);
    assert_int_equal(word(frame + 24), 14);
    assert_memory_equal(frame + 28, octets, 14);
    assert_int_equal(word(frame + 44), 1 | 5 << 16); /* a comment of 5 bytes */
    assert_memory_equal(frame + 48, "lost!\0\0", 8);
    assert_int_equal(word(frame + 56), 0);         /* the end of the options */
    assert_int_equal(length, NG_HEADER + 64 + 48); /* the second frame has no comment */
}

static void pcapng__lost_frames_and_sentences__are_of_other_interfaces(void **state)
{
    (void)state;
    uint8_t file[1024];
    const struct uro_pkt pkt = { .octets = octets, .length = 16 };
    struct uro_pcap_write *writer = open_pcapng();

    assert_int_equal(uro_pcap_write_lost_pkt(writer, &pkt, 0), 0);
    assert_int_equal(uro_pcap_write_text(writer, "QP", 0), 0);
    assert_int_equal(append(writer, 16, 0), 0);
    uro_pcap_write_close(writer);

    assert_int_equal(check_blocks(file, content(file, sizeof file)), 4 + 3);
    assert_int_equal(word(file + NG_HEADER + 8), 1);
    assert_int_equal(word(file + NG_HEADER + 48 + 8), 2);
    assert_memory_equal(file + NG_HEADER + 48 + 28 + 12, "\x88\xb5uroce: QP", 11);
    assert_int_equal(word(file + NG_HEADER + 48 + 68 + 8), 0);
}

static void pcap__lost_frames_and_comments__are_left_out(void **state)
{
    (void)state;
    uint8_t file[1024];
    const struct uro_pkt pkt = { .octets = octets, .length = 16 };
    struct uro_pcap_write *writer = open_writer(0);

    assert_false(uro_pcap_write_is_pcapng(writer));
    uro_pcap_write_comment(writer, "lost");
    assert_int_equal(uro_pcap_write_lost_pkt(writer, &pkt, 0), 0);
    assert_int_equal(uro_pcap_write_text(writer, "QP", 0), 0);
    assert_int_equal(append(writer, 16, 0), 0);
    uro_pcap_write_close(writer);
    assert_int_equal(content(file, sizeof file), FILE_HEADER + FRAME_HEADER + 16);
}

static void pcapng__long_texts_and_frames__are_cut(void **state)
{
    (void)state;
    static uint8_t file[400000], large[80000];
    static char text[5000];
    const struct uro_pkt pkt = { .octets = large, .length = sizeof large };
    struct uro_pcap_write *writer = open_pcapng();

    memset(text, 'x', sizeof text - 1);
    for (unsigned i = 0; i < 4; i++) {
        uro_pcap_write_comment(writer, text);
        assert_int_equal(uro_pcap_write_pkt(writer, &pkt, 0), 0);
    }
    assert_int_equal(uro_pcap_write_text(writer, text, 0), 0);
    uro_pcap_write_close(writer);

    const size_t length = content(file, sizeof file);
    assert_int_equal(check_blocks(file, length), 4 + 5);
    assert_int_equal(word(file + NG_HEADER + 20), URO_PCAP_FRAME_MAX);
    assert_int_equal(word(file + NG_HEADER + 24), sizeof large);
}

static void pcapng__disk_full_from_the_start__the_header_is_written_later(void **state)
{
    (void)state;
    uint8_t file[1024];
    struct uro_pcap_write *writer = open_pcapng();

    signal(SIGXFSZ, SIG_IGN);
    limit_file_size(10);
    assert_int_equal(append(writer, 20, 0), 0);
    assert_int_equal(uro_pcap_write_flush(writer), -EFBIG);
    limit_file_size(RLIM_INFINITY);
    assert_int_equal(append(writer, 16, 0), 0);
    uro_pcap_write_close(writer);
    assert_int_equal(check_blocks(file, content(file, sizeof file)), 4 + 1);
}

static void open__symbolic_link__is_refused(void **state)
{
    (void)state;
    struct uro_pcap_write *writer = NULL;
    char target[80];

    path = pcap_path;
    snprintf(target, sizeof target, "%s.target", path);
    unlink(path);
    assert_int_equal(symlink(target, path), 0);
    assert_int_equal(uro_pcap_write_open(path, "uroce0", 0, &writer), -ELOOP);
    assert_int_equal(access(target, F_OK), -1);
    unlink(path);
}

static void open__fifo__is_refused_without_waiting(void **state)
{
    (void)state;
    struct uro_pcap_write *writer = NULL;

    path = pcap_path;
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    int reader = open(path, O_RDONLY | O_NONBLOCK);
    assert_int_equal(uro_pcap_write_open(path, "uroce0", 0, &writer), -EINVAL);
    close(reader);
    assert_int_equal(uro_pcap_write_open(path, "uroce0", 0, &writer), -ENXIO);
    unlink(path);
}

static void open__new_file__only_its_owner_may_read(void **state)
{
    (void)state;
    struct stat status;

    path = pcap_path;
    umask(0);
    unlink(path);
    uro_pcap_write_close(open_writer(0));
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
}

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(pcap_path, sizeof pcap_path, "%s/a.pcap", folder);
    snprintf(pcapng_path, sizeof pcapng_path, "%s/a.pcapng", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(pcap_path);
    unlink(pcapng_path);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file__two_frames__are_stored_with_nanoseconds),
        cmocka_unit_test(file__without_frames__is_a_capture),
        cmocka_unit_test(flush__frames_in_the_buffer__are_visible_to_other_readers),
        cmocka_unit_test(write__frames_beyond_the_buffer_size__all_are_in_the_file),
        cmocka_unit_test(write__disk_full__one_message_and_the_capture_continues),
        cmocka_unit_test(disk_full__from_the_start__capture_is_written_later),
        cmocka_unit_test(pcapng__frame_with_a_comment__comment_is_an_option),
        cmocka_unit_test(pcapng__lost_frames_and_sentences__are_of_other_interfaces),
        cmocka_unit_test(pcap__lost_frames_and_comments__are_left_out),
        cmocka_unit_test(pcapng__long_texts_and_frames__are_cut),
        cmocka_unit_test(pcapng__disk_full_from_the_start__the_header_is_written_later),
        cmocka_unit_test(open__symbolic_link__is_refused),
        cmocka_unit_test(open__fifo__is_refused_without_waiting),
        cmocka_unit_test(open__new_file__only_its_owner_may_read),
    };
    return cmocka_run_group_tests_name("io/pcap_write", tests, make_folder, remove_folder);
}
