/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_pcap_read.c - reads any bytes as a capture. Describes each frame, judges all frames, and
 * passes them to an engine at the times in the file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "capture/judge.h"
#include "embed/embed.h"
#include "fuzz_stage.h"
#include "io/pcap/pcap_replay.h"
#include "wire/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LINGER URO_MS(10000)

/* Returns a file that contains the input. */
static int hold(const uint8_t *data, size_t size)
{
    int fd = memfd_create("capture", MFD_CLOEXEC);

    stage_check(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    return fd;
}

/* Opens a reader. Returns NULL with an error message when the file is not a capture. */
static struct uro_pcap_read *open_reader(int fd)
{
    char path[64];
    char error[URO_PCAP_ERROR_MAX] = "";

    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct uro_pcap_read *reader = uro_pcap_read_open(path, error);
    stage_check((reader == NULL) == (error[0] != '\0'));
    stage_check(memchr(error, '\0', sizeof error) != NULL);
    return reader;
}

/* Reads every byte of a lent frame, in a copy of exactly its size. */
static void describe(const struct uro_pcap_read_frame *frame)
{
    char line[URO_TEXT_LINE_MAX];
    uint8_t *exact = malloc(frame->pkt.length > 0 ? frame->pkt.length : 1);

    stage_check(exact != NULL);
    memcpy(exact, frame->pkt.octets, frame->pkt.length);
    (void)uro_text_line(exact, frame->pkt.length, line);
    stage_check(memchr(line, '\0', sizeof line) != NULL);
    free(exact);
}

static void describe_all(int fd)
{
    struct uro_pcap_read *reader = open_reader(fd);
    struct uro_pcap_read_frame frame;
    int result;

    if (reader == NULL)
        return;
    while ((result = uro_pcap_read_next(reader, &frame)) == 1)
        describe(&frame);
    if (result != 0)
        stage_check(uro_pcap_read_problem(reader)[0] != '\0');
    uro_pcap_read_close(reader);
}

/* Judges the capture. Each finding has a text, a rule, and frames of the capture. */
static void judge_all(int fd)
{
    char path[64];
    char error[URO_PCAP_ERROR_MAX] = "";

    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct uro_capture *capture = uro_capture_load(path, NULL, NULL, error);
    stage_check((capture == NULL) == (error[0] != '\0'));
    if (capture == NULL)
        return;
    struct uro_judge *judge = uro_judge_run(capture);
    stage_check(judge != NULL);
    for (uint32_t i = 0; i < judge->count; i++) {
        const struct uro_judge_finding *finding = &judge->findings[i];
        stage_check(finding->packet < capture->count);
        stage_check(finding->other == URO_CAPTURE_NONE || finding->other < capture->count);
        stage_check(finding->seen[0] != '\0');
        stage_check(uro_judge_rules[finding->check].id != NULL);
    }
    uro_judge_free(judge);
    uro_capture_free(capture);
}

static void replay(int fd)
{
    struct uro_pcap_read *reader = open_reader(fd);
    struct stage stage = { .now = 0 };

    if (reader == NULL)
        return;
    stage_open(&stage);
    struct uro_pcap_replay replay = { .engine = stage.engine->engine, .start = stage.now };
    (void)!uro_pcap_replay_run(&replay, reader, LINGER);
    stage.now = replay.now;
    stage_output(&stage);
    stage_close(&stage);
    uro_pcap_read_close(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = hold(data, size);

    describe_all(fd);
    judge_all(fd);
    replay(fd);
    (void)close(fd);
    return 0;
}
