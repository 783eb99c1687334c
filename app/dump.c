/* SPDX-License-Identifier: BSD-3-Clause */
/* dump.c - `uroce dump FILE.pcap`: prints a line for each frame, with its first error, and a
 * summary. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "app.h"
#include "capture/capture.h"
#include "dump_html.h"
#include "usage.h"
#include "wire/icrc.h"
#include "wire/text.h"

#define NS_PER_SECOND UINT64_C(1000000000)

static int help(void)
{
    (void)printf(
        "Usage: uroce dump FILE\n"
        "       uroce dump --html FILE > PAGE.html\n"
        "\n"
        "Prints one line for each frame of a capture: its number, the seconds since the first\n"
        "frame, its contents, and after \"!\" the first error in it. If a device talks to itself,\n"
        "\"from\" is the queue pair that sent the packet, as far as the capture shows it.\n"
        "\n"
        "  FILE         a pcap or pcapng file; \"-\" is standard input, without \"from\"\n"
        "  --html       print a page for a browser instead, with a picture of the connections:\n"
        "               a ladder, PSNs over time, throughput, round trips, broken rules\n"
        "  -h, --help   print this help\n"
        "\n"
        "Exit status: 0 no frame has an error, 1 a frame has an error, 2 FILE cannot be read, or "
        "a\n"
        "wrong option. With --html, frames with errors do not change the exit status.\n");
    return 0;
}

struct totals {
    uint64_t frames;
    uint64_t problems;
    uint64_t first;  /* time of the first frame */
    uint32_t packet; /* index in the loaded capture of the first packet of the current frame */
};

/* Returns whether the frame has the ICRC of Linux rxe, which covers the headers of FLUSH twice.
 * Both forms are accepted, but the difference is shown. */
static bool icrc_as_rxe(const struct uro_pkt *pkt)
{
    struct uro_frame frame;

    if (uro_frame_network(pkt->octets, pkt->length, &frame) != URO_FRAME_OK ||
        frame.ether.type == URO_ETHERTYPE_ARP || frame.ip.protocol != URO_IPPROTO_UDP ||
        frame.udp.dest_port != URO_ROCE_PORT || uro_frame_roce(&frame) != URO_FRAME_OK ||
        frame.op->operation != URO_FLUSH)
        return false;
    const uint8_t *end = frame.body + frame.body_length - URO_ICRC_LEN;
    return uro_get_le32(end) != uro_icrc(frame.network, frame.ip.v6, (size_t)(end - frame.network));
}

/* If a device sent the packet to itself and the capture shows the sending queue pair, prints this
 * queue pair. */
static void print_sender(const struct uro_capture *capture, struct totals *totals)
{
    if (capture == NULL)
        return;
    while (totals->packet < capture->count &&
           capture->packets[totals->packet].frame < totals->frames)
        totals->packet++;
    if (totals->packet == capture->count)
        return;
    const struct uro_capture_packet *packet = &capture->packets[totals->packet];
    if (packet->kind != URO_CAPTURE_ROCE || packet->source != packet->dest)
        return;
    const struct uro_capture_flow *flow = &capture->flows[packet->flow];
    if (flow->pairing == URO_PAIRED_BY_CM || flow->pairing == URO_PAIRED_BY_PSN)
        (void)printf(" from 0x%06" PRIx32, uro_capture_source_qpn(capture, packet));
}

static void print_frame(const struct uro_pcap_read_frame *frame, const struct uro_capture *capture,
                        struct totals *totals)
{
    char line[URO_TEXT_LINE_MAX];
    bool before = frame->time < totals->first;
    uint64_t since = before ? totals->first - frame->time : frame->time - totals->first;

    bool good = uro_text_line(frame->pkt.octets, frame->pkt.length, line);
    (void)printf("%4" PRIu64 " %s%" PRIu64 ".%09" PRIu64 " %s", totals->frames, before ? "-" : "",
                 since / NS_PER_SECOND, since % NS_PER_SECOND, line);
    print_sender(capture, totals);
    if (good && icrc_as_rxe(&frame->pkt))
        (void)printf(" (ICRC as Linux rxe computes it)");
    if (frame->length > frame->pkt.length) {
        (void)printf(" !only %" PRIu32 " of %" PRIu32 " bytes were captured", frame->pkt.length,
                     frame->length);
        good = false;
    }
    (void)putchar('\n');
    totals->problems += !good;
}

/* Prints all frames. @capture: the file as read before, with its connections, or NULL. */
static int dump_file(const char *path, const struct uro_capture *capture)
{
    struct uro_pcap_read_frame frame;
    struct totals totals = { 0 };
    char error[URO_PCAP_ERROR_MAX];
    int result;

    struct uro_pcap_read *reader = uro_pcap_read_open(path, error);
    if (reader == NULL) {
        (void)fprintf(stderr, "uroce dump: %s\n", error);
        return 2;
    }
    while ((result = uro_pcap_read_next(reader, &frame)) == 1) {
        if (totals.frames++ == 0)
            totals.first = frame.time;
        print_frame(&frame, capture, &totals);
    }
    if (result != 0)
        (void)fprintf(stderr, "uroce dump: %s: the file is damaged after frame %" PRIu64 ": %s\n",
                      path, totals.frames, uro_pcap_read_problem(reader));
    uro_pcap_read_close(reader);
    (void)printf("%" PRIu64 " frames, %" PRIu64 " with problems\n", totals.frames, totals.problems);
    if (result != 0)
        return 2;
    return totals.problems > 0;
}

/* Returns whether @path is a regular file, which can be read twice. */
static bool can_read_twice(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

int uro_app_dump(int argc, char **argv)
{
    static const struct option options[] = { { "html", no_argument, NULL, 'H' },
                                             { "help", no_argument, NULL, 'h' },
                                             { NULL, 0, NULL, 0 } };
    char error[URO_PCAP_ERROR_MAX];
    struct uro_capture *capture = NULL;
    bool html = false;
    int option;

    while ((option = uro_usage_option(argc, argv, "h", options)) != -1) {
        if (option == 'h')
            return help();
        if (option == '?')
            return URO_USAGE_STATUS;
        html = true;
    }
    const char *path = uro_usage_file(argc, argv);
    if (path == NULL)
        return URO_USAGE_STATUS;
    if (html)
        return uro_dump_html(path);
    /* A capture that is too large for memory is printed without its senders. */
    if (can_read_twice(path))
        capture = uro_capture_load(path, NULL, NULL, error);
    const int status = dump_file(path, capture);
    uro_capture_free(capture);
    return status;
}
