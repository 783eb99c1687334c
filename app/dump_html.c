/* SPDX-License-Identifier: BSD-3-Clause */
/* dump_html.c - `uroce dump --html`: writes a capture as one page for a browser.
 *
 * The page has one array for each column of the packets, and the text line of each packet. All
 * drawing is done by the scripts in app/page.
 */
#include "dump_html.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture/judge.h"
#include "escape.h"
#include "page.h"
#include "wire/text.h"

#define QPN_GSI 1u

/* The text lines of all packets, each with its NUL. */
struct lines {
    char *text;
    size_t used;
    size_t room;
    bool failed; /* out of memory */
};

/* The two flows of a connection. */
struct connection {
    uint32_t flow; /* the flow from side A */
    uint32_t back; /* the flow to side A; URO_CAPTURE_NONE: unknown */
};

struct page {
    const struct uro_capture *capture;
    const struct uro_judge *judge;
    struct connection *connections;
    uint32_t connection_count;
    uint32_t *connection_of; /* index of the connection of each flow */
};

static void add_line(void *context, const struct uro_pcap_read_frame *frame,
                     const struct uro_capture_packet *packet)
{
    struct lines *lines = context;

    (void)packet;
    if (lines->room - lines->used < URO_TEXT_LINE_MAX + 1) {
        const size_t room = lines->room == 0 ? 1u << 16 : lines->room * 2;
        char *moved = realloc(lines->text, room);
        lines->failed = lines->failed || moved == NULL;
        if (moved == NULL)
            return;
        lines->text = moved;
        lines->room = room;
    }
    char *line = lines->text + lines->used;
    (void)uro_text_line(frame->pkt.octets, frame->pkt.length, line);
    lines->used += strlen(line) + 1;
}

static void put_string(const char *text)
{
    uro_escape_json(stdout, text);
}

/* ---- connections --------------------------------------------------------------------------- */

/* Returns the flow of the other direction, also for flows of connection management. */
static uint32_t other_flow(const struct uro_capture *capture, uint32_t position)
{
    const struct uro_capture_flow *flow = &capture->flows[position];

    if (flow->service == URO_UD && flow->dest_qpn == QPN_GSI && flow->source != flow->dest)
        return uro_capture_find_flow(capture, flow->dest, flow->source, QPN_GSI);
    return flow->peer;
}

/* Lists the connections in the order of their first packets. Returns false when out of memory. */
static bool list_connections(struct page *page)
{
    const struct uro_capture *capture = page->capture;

    page->connections = calloc(capture->flow_count + 1u, sizeof *page->connections);
    page->connection_of = malloc((capture->flow_count + 1u) * sizeof *page->connection_of);
    if (page->connections == NULL || page->connection_of == NULL)
        return false;
    for (uint32_t i = 0; i < capture->flow_count; i++)
        page->connection_of[i] = URO_CAPTURE_NONE;
    for (uint32_t i = 0; i < capture->flow_count; i++) {
        if (page->connection_of[i] != URO_CAPTURE_NONE)
            continue;
        const uint32_t back = other_flow(capture, i);
        page->connection_of[i] = page->connection_count;
        if (back != URO_CAPTURE_NONE)
            page->connection_of[back] = page->connection_count;
        page->connections[page->connection_count++] = (struct connection){ i, back };
    }
    return true;
}

static const char *pairing_name(enum uro_capture_pairing pairing)
{
    switch (pairing) {
    case URO_PAIRED_BY_CM:
        return "cm";
    case URO_PAIRED_BY_PSN:
        return "psn";
    case URO_PAIRED_BY_ONLY:
        return "only";
    case URO_PAIRED_NOT:
        break;
    }
    return "";
}

static void put_connections(const struct page *page)
{
    static const char *const services[] = {
        [URO_RC] = "RC", [URO_UC] = "UC", [URO_UD] = "UD", [URO_XRC] = "XRC", [URO_CNP] = "CNP"
    };
    const struct uro_capture *capture = page->capture;

    (void)printf(",\n\"connections\":[");
    for (uint32_t i = 0; i < page->connection_count; i++) {
        const struct connection *connection = &page->connections[i];
        const struct uro_capture_flow *flow = &capture->flows[connection->flow];
        const bool known = connection->back != URO_CAPTURE_NONE;
        (void)printf("%s[%" PRIu32 ",%" PRId64 ",%" PRIu32 ",%" PRIu32 ",\"%s\",\"%s\"]",
                     i > 0 ? "," : "", flow->source,
                     known ? (int64_t)capture->flows[connection->back].dest_qpn : -1, flow->dest,
                     flow->dest_qpn, services[flow->service], pairing_name(flow->pairing));
    }
    (void)printf("]");
}

static void put_addresses(const struct uro_capture *capture)
{
    char text[URO_GID_TEXT_MAX];

    (void)printf(",\n\"addresses\":[");
    for (uint32_t i = 0; i < capture->address_count; i++) {
        const struct uro_capture_address *address = &capture->addresses[i];
        (void)printf("%s\"%s", i > 0 ? "," : "", uro_gid_text(&address->gid, text));
        if (address->vlan != 0)
            (void)printf(" vlan %u", address->vlan);
        (void)printf("\"");
    }
    (void)printf("]");
}

/* ---- columns of the packets ----------------------------------------------------------------- */

/* Values of column "direction". */
enum { A_TO_B, B_TO_A };

/* Bits of column "mark", in addition to the bits of track.h. */
#define MARK_BAD        (1u << 9)  /* a receiver drops the packet */
#define MARK_CONGESTION (1u << 10) /* the packet has the ECN codepoint CE */

typedef int64_t column(const struct page *page, uint32_t position);

static const struct uro_capture_packet *packet_at(const struct page *page, uint32_t position)
{
    return &page->capture->packets[position];
}

static int64_t column_time(const struct page *page, uint32_t i)
{
    return (int64_t)(packet_at(page, i)->time - packet_at(page, i > 0 ? i - 1 : 0)->time);
}

static int64_t column_number(const struct page *page, uint32_t i)
{
    return packet_at(page, i)->frame;
}

static int64_t column_connection(const struct page *page, uint32_t i)
{
    const uint32_t flow = packet_at(page, i)->flow;

    return flow == URO_CAPTURE_NONE ? -1 : (int64_t)page->connection_of[flow];
}

static int64_t column_direction(const struct page *page, uint32_t i)
{
    const int64_t connection = column_connection(page, i);

    if (connection < 0)
        return A_TO_B;
    return page->connections[connection].flow == packet_at(page, i)->flow ? A_TO_B : B_TO_A;
}

static int64_t column_opcode(const struct page *page, uint32_t i)
{
    const struct uro_capture_packet *packet = packet_at(page, i);

    return packet->kind == URO_CAPTURE_ROCE ? packet->opcode : -1;
}

static int64_t column_psn(const struct page *page, uint32_t i)
{
    return packet_at(page, i)->psn;
}

static int64_t column_payload(const struct page *page, uint32_t i)
{
    return packet_at(page, i)->payload;
}

static int64_t column_mark(const struct page *page, uint32_t i)
{
    const struct uro_capture_packet *packet = packet_at(page, i);

    return page->judge->track->marks[i] | (packet->kind == URO_CAPTURE_BAD ? MARK_BAD : 0) |
           (packet->congestion ? MARK_CONGESTION : 0);
}

static int64_t column_related(const struct page *page, uint32_t i)
{
    const uint32_t related = page->judge->track->related[i];

    return related == URO_CAPTURE_NONE ? 0 : (int64_t)related + 1;
}

static void put_column(const struct page *page, const char *name, column *value)
{
    (void)printf(",\n\"%s\":[", name);
    for (uint32_t i = 0; i < page->capture->count; i++)
        (void)printf(i > 0 ? ",%" PRId64 : "%" PRId64, value(page, i));
    (void)printf("]");
}

/* ---- the rest ------------------------------------------------------------------------------- */

static void put_opcodes(void)
{
    bool first = true;

    (void)printf(",\n\"opcodes\":{");
    for (unsigned i = 0; i < 256; i++) {
        const struct uro_opcode *op = &uro_opcodes[i];
        if (op->name == NULL)
            continue;
        (void)printf("%s\"%u\":[\"%s\",%d]", first ? "" : ",", i, op->name,
                     op->operation == URO_NOTIFY ? 2 : op->role == URO_RESPONSE);
        first = false;
    }
    (void)printf("}");
}

static void put_findings(const struct uro_judge *judge)
{
    (void)printf(",\n\"findings\":[");
    for (uint32_t i = 0; i < judge->count; i++) {
        const struct uro_judge_finding *finding = &judge->findings[i];
        (void)printf("%s[%" PRIu32 ",\"%s\",", i > 0 ? ",\n" : "", finding->packet,
                     uro_judge_rules[finding->check].id);
        put_string(finding->seen);
        (void)printf(",");
        put_string(uro_judge_rules[finding->check].wants);
        (void)printf(",%" PRId64 ",%" PRIu32 "]",
                     finding->other == URO_CAPTURE_NONE ? -1 : (int64_t)finding->other,
                     finding->more);
    }
    (void)printf("]");
}

static void put_lines(const struct lines *lines)
{
    (void)printf(",\n\"lines\":[");
    for (size_t at = 0; at < lines->used; at += strlen(lines->text + at) + 1) {
        (void)printf("%s", at > 0 ? ",\n" : "");
        put_string(lines->text + at);
    }
    (void)printf("]");
}

/* Writes the data as JSON in a script element. Each string that is not a constant of uroce goes
 * through put_string(), so that none can end the element. */
static void put_data(const struct page *page, const char *path, const struct lines *lines)
{
    const struct uro_capture *capture = page->capture;
    const char *slash = strrchr(path, '/');

    (void)printf("<script id=\"data\" type=\"application/json\">{\"file\":");
    put_string(slash != NULL ? slash + 1 : path);
    (void)printf(",\"version\":\"%s\",\"start\":\"%" PRIu64 "\",\"roce\":%" PRIu32
                 ",\"frames\":%" PRIu32 ",\"complete\":%s,\"problem\":",
                 URO_VERSION, capture->count > 0 ? capture->packets[0].time : 0,
                 capture->roce_count, capture->frame_count,
                 page->judge->complete ? "true" : "false");
    put_string(capture->problem);
    put_addresses(capture);
    put_connections(page);
    put_opcodes();
    put_findings(page->judge);
    put_column(page, "time", column_time);
    if (capture->split_count > 0) /* otherwise the packets are numbered from 1 */
        put_column(page, "number", column_number);
    put_column(page, "connection", column_connection);
    put_column(page, "direction", column_direction);
    put_column(page, "opcode", column_opcode);
    put_column(page, "psn", column_psn);
    put_column(page, "payload", column_payload);
    put_column(page, "mark", column_mark);
    put_column(page, "related", column_related);
    put_lines(lines);
    (void)printf("}</script>\n");
}

/* Writes the page. Returns false when out of memory. */
static bool put_page(const struct uro_capture *capture, const char *path, const struct lines *lines)
{
    struct uro_judge *judge = uro_judge_run(capture);
    struct page page = { .capture = capture, .judge = judge };
    const bool good = judge != NULL && list_connections(&page);

    if (good) {
        (void)fwrite(uro_page_before, 1, uro_page_before_length, stdout);
        put_data(&page, path, lines);
        (void)fwrite(uro_page_after, 1, uro_page_after_length, stdout);
    }
    free(page.connections);
    free(page.connection_of);
    uro_judge_free(judge);
    return good;
}

int uro_dump_html(const char *path)
{
    char error[URO_PCAP_ERROR_MAX];
    struct lines lines = { .text = NULL };

    if (isatty(STDOUT_FILENO)) {
        (void)fprintf(stderr, "uroce dump: the page is for a browser, and standard output is a "
                              "terminal. Use uroce dump --html FILE > PAGE.html\n");
        return 2;
    }
    struct uro_capture *capture = uro_capture_load(path, add_line, &lines, error);
    if (capture == NULL) {
        (void)fprintf(stderr, "uroce dump: %s\n", error);
        free(lines.text);
        return 2;
    }
    const bool good = !lines.failed && put_page(capture, path, &lines);
    if (!good)
        (void)fprintf(stderr, "uroce dump: %s: out of memory; split the capture with editcap -c\n",
                      path);
    if (capture->damaged)
        (void)fprintf(stderr, "uroce dump: %s: %s\n", path, capture->problem);
    const int status = !good || capture->damaged ? 2 : 0;
    uro_capture_free(capture);
    free(lines.text);
    return status;
}
