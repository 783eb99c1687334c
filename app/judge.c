/* SPDX-License-Identifier: BSD-3-Clause */
/* judge.c - `uroce judge FILE.pcap`: prints the packets of a capture that break a rule of
 * RoCEv2. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "app.h"
#include "capture/judge.h"
#include "escape.h"
#include "usage.h"

#define NS_PER_SECOND UINT64_C(1000000000)

static int help(void)
{
    (void)printf(
        "Usage: uroce judge [ --json ] FILE\n"
        "\n"
        "Follows the queue pairs of a capture between any endpoints, and prints a line for each\n"
        "packet that breaks a rule: frame number, seconds since the first frame, sender, id of\n"
        "the rule in docs/PROTOCOL.md, what was seen, what the rule requires. A packet is not\n"
        "reported if a lost packet or a late start of the capture explains it.\n"
        "\n"
        "  FILE         a pcap or pcapng file; \"-\" is standard input\n"
        "  --json       print one JSON object\n"
        "  -h, --help   print this help\n"
        "\n"
        "Exit status: 0 no rule is broken, 1 a rule is broken, 2 FILE cannot be read.\n");
    return 0;
}

/* Writes an address and its VLAN. */
static const char *address_text(const struct uro_capture *capture, uint32_t position,
                                char text[static URO_GID_TEXT_MAX + 16])
{
    const struct uro_capture_address *address = &capture->addresses[position];
    size_t used;

    uro_gid_text(&address->gid, text);
    used = strlen(text);
    if (address->vlan != 0)
        (void)snprintf(text + used, 16, " vlan %u", address->vlan);
    return text;
}

/* Prints the time since the first frame, which is negative for a frame of an earlier time. */
static void print_time(const struct uro_capture *capture, uint32_t position)
{
    const uint64_t first = capture->packets[0].time, time = capture->packets[position].time;
    const uint64_t since = time < first ? first - time : time - first;

    (void)printf("%s%" PRIu64 ".%09" PRIu64, time < first ? "-" : "", since / NS_PER_SECOND,
                 since % NS_PER_SECOND);
}

static void print_finding(const struct uro_judge *judge, const struct uro_judge_finding *finding)
{
    const struct uro_capture *capture = judge->capture;
    const struct uro_capture_packet *packet = &capture->packets[finding->packet];
    const struct uro_judge_rule *rule = &uro_judge_rules[finding->check];
    const uint32_t qpn = uro_capture_source_qpn(capture, packet);
    char text[URO_GID_TEXT_MAX + 16];

    (void)printf("%4" PRIu32 " ", capture->packets[finding->packet].frame);
    print_time(capture, finding->packet);
    (void)printf(" %s", address_text(capture, packet->source, text));
    if (qpn != URO_CAPTURE_NONE)
        (void)printf(" qp 0x%06" PRIx32, qpn);
    (void)printf(" %s: %s", rule->id, finding->seen);
    if (finding->other != URO_CAPTURE_NONE)
        (void)printf(" (frame %" PRIu32 ")", capture->packets[finding->other].frame);
    (void)printf("; wanted: %s", rule->wants);
    if (finding->more > 0)
        (void)printf("; %" PRIu32 " more such frames", finding->more);
    (void)putchar('\n');
}

/* Returns the number of flows of RC and XRC whose reverse flow is unknown. */
static uint32_t count_lonely(const struct uro_capture *capture)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < capture->flow_count; i++)
        count += capture->flows[i].peer == URO_CAPTURE_NONE &&
                 (capture->flows[i].service == URO_RC || capture->flows[i].service == URO_XRC);
    return count;
}

/* Returns the number of findings that were counted, but not kept. */
static uint32_t count_more(const struct uro_judge *judge)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < judge->count; i++)
        count += judge->findings[i].more;
    return count;
}

/* Prints how much was judged, and which parts could not be judged. */
static void print_summary(const struct uro_judge *judge)
{
    const struct uro_capture *capture = judge->capture;
    const uint32_t lonely = count_lonely(capture), more = count_more(judge);

    (void)printf("%" PRIu32 " frames, %" PRIu32 " of RoCEv2, %" PRIu32 " findings",
                 capture->frame_count, capture->roce_count, judge->count);
    if (more > 0)
        (void)printf(" and %" PRIu32 " more like them", more);
    (void)putchar('\n');
    if (capture->roce_count == 0)
        (void)printf("note: no frame is for UDP port 4791, so there was nothing to judge\n");
    if (lonely > 0)
        (void)printf("note: %" PRIu32 " of %" PRIu32
                     " flows have no known other direction; their responses were not judged, nor "
                     "what their requests must do after responses\n",
                     lonely, capture->flow_count);
    if (capture->cut_count > 0)
        (void)printf("note: %" PRIu32 " frames are cut before the end of their headers, and were "
                     "not judged; capture with -s 128 or more\n",
                     capture->cut_count);
    if (capture->joined_count > 0)
        (void)printf("note: %" PRIu32 " packets were not judged: the kernel joined them with "
                     "others in one frame (GSO, GRO), and they have no correct ICRC; capture with "
                     "pcap= in the device description, or with gso=no,gro=no\n",
                     capture->joined_count);
    if (capture->split_count > 0)
        (void)printf(
            "note: %" PRIu32 " frames have several packets: the capture has them before "
            "the kernel splits (GSO) or after it joins packets (GRO); each packet was judged\n",
            capture->split_count);
    if (judge->track->incomplete && capture->joined_count == 0)
        (void)printf(
            "note: frame %" PRIu32
            " acknowledges packets that the capture does not have, so it is not complete\n",
            capture->packets[judge->track->incomplete_at].frame);
    if (judge->unsent > judge->unsent_seen && capture->joined_count == 0)
        (void)printf("note: %" PRIu32 " responses, the first in frame %" PRIu32
                     ", are to PSNs beyond the requests of the capture: either it is not complete, "
                     "or they break REQ.ACK.GHOST\n",
                     judge->unsent - judge->unsent_seen,
                     capture->packets[judge->unsent_packet].frame);
    if (!judge->complete)
        (void)printf("note: rules that need every packet were not judged: MSNs, the form of READ "
                     "responses, READ depth\n");
}

static void print_json_finding(const struct uro_judge *judge,
                               const struct uro_judge_finding *finding)
{
    const struct uro_capture *capture = judge->capture;
    const struct uro_capture_packet *packet = &capture->packets[finding->packet];
    const uint32_t qpn = uro_capture_source_qpn(capture, packet);
    char text[URO_GID_TEXT_MAX + 16];

    (void)printf("{\"frame\": %" PRIu32 ", \"time\": ", capture->packets[finding->packet].frame);
    print_time(capture, finding->packet);
    (void)printf(", \"sender\": \"%s\"", address_text(capture, packet->source, text));
    if (qpn != URO_CAPTURE_NONE)
        (void)printf(", \"qpn\": %" PRIu32, qpn);
    (void)printf(", \"rule\": \"%s\", \"seen\": ", uro_judge_rules[finding->check].id);
    uro_escape_json(stdout, finding->seen);
    (void)printf(", \"wanted\": ");
    uro_escape_json(stdout, uro_judge_rules[finding->check].wants);
    if (finding->other != URO_CAPTURE_NONE)
        (void)printf(", \"other_frame\": %" PRIu32, capture->packets[finding->other].frame);
    (void)printf(", \"more\": %" PRIu32 "}", finding->more);
}

static void print_json(const struct uro_judge *judge)
{
    const struct uro_capture *capture = judge->capture;

    (void)printf("{\"frames\": %" PRIu32 ", \"roce_frames\": %" PRIu32 ", \"flows\": %" PRIu32
                 ", \"flows_without_peer\": %" PRIu32 ", \"cut_frames\": %" PRIu32
                 ", \"complete\": %s, \"damaged\": %s,\n \"findings\": [",
                 capture->frame_count, capture->roce_count, capture->flow_count,
                 count_lonely(capture), capture->cut_count, judge->complete ? "true" : "false",
                 capture->damaged ? "true" : "false");
    for (uint32_t i = 0; i < judge->count; i++) {
        (void)printf("%s\n  ", i > 0 ? "," : "");
        print_json_finding(judge, &judge->findings[i]);
    }
    (void)printf("]}\n");
}

static int judge_file(const char *path, bool json)
{
    char error[URO_PCAP_ERROR_MAX];
    struct uro_capture *capture = uro_capture_load(path, NULL, NULL, error);

    if (capture == NULL) {
        (void)fprintf(stderr, "uroce judge: %s\n", error);
        return 2;
    }
    struct uro_judge *judge = uro_judge_run(capture);
    if (judge == NULL) {
        (void)fprintf(stderr, "uroce judge: %s: out of memory; split the capture with editcap -c\n",
                      path);
        uro_capture_free(capture);
        return 2;
    }
    for (uint32_t i = 0; i < judge->count && !json; i++)
        print_finding(judge, &judge->findings[i]);
    if (json)
        print_json(judge);
    else
        print_summary(judge);
    if (capture->damaged)
        (void)fprintf(stderr, "uroce judge: %s: %s\n", path, capture->problem);
    const int status = capture->damaged ? 2 : judge->count > 0;
    uro_judge_free(judge);
    uro_capture_free(capture);
    return status;
}

int uro_app_judge(int argc, char **argv)
{
    static const struct option options[] = { { "json", no_argument, NULL, 'j' },
                                             { "help", no_argument, NULL, 'h' },
                                             { NULL, 0, NULL, 0 } };
    bool json = false;
    int option;

    while ((option = uro_usage_option(argc, argv, "h", options)) != -1) {
        if (option == 'h')
            return help();
        if (option == '?')
            return URO_USAGE_STATUS;
        json = true;
    }
    const char *path = uro_usage_file(argc, argv);
    return path == NULL ? URO_USAGE_STATUS : judge_file(path, json);
}
