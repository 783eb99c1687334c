/* SPDX-License-Identifier: BSD-3-Clause */
/* pcap.c - see pcap.h. */
#include "host/report/pcap.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "host/device.h"
#include "host/fork.h"
#include "io/impair/port.h"
#include "io/pcap/pcap_write.h"
#include "stats/failure_text.h"

#define ENDING       ".pcapng"
#define SENTENCE_MAX (URO_FAILURE_TEXT_MAX + 64u)

/* ---- the file -------------------------------------------------------------------- */

/* Writes the name of the file of this process. A forked child must not truncate the file of its
 * parent, so the name of its file has the process ID, before the ending of a pcapng file. */
static void own_path(const char *path, char *own, size_t size)
{
    const size_t length = strlen(path), ending = sizeof ENDING - 1;
    const bool ng = length >= ending && strcmp(path + length - ending, ENDING) == 0;

    if (uro_fork_generation() <= 1)
        (void)snprintf(own, size, "%s", path);
    else
        (void)snprintf(own, size, "%.*s.%d%s", (int)(length - (ng ? ending : 0)), path,
                       (int)getpid(), ng ? ENDING : "");
}

int uro_pcap_open(struct uro_device *device)
{
    const char *path = device->config.pcap;
    char own[sizeof device->config.pcap + 16];

    if (path[0] == '\0')
        return 0;
    own_path(path, own, sizeof own);
    int error = uro_pcap_write_open(own, device->config.name,
                                    uro_host_wall_clock() - uro_device_now(), &device->capture);
    if (error != 0)
        (void)snprintf(device->problem, sizeof device->problem, "pcap=%.120s: %s", path,
                       strerror(-error));
    return error;
}

/* Reports an error of the file, which the writer returns only once. The capture continues without
 * the frames that could not be written. */
static void report(const struct uro_device *device, int error)
{
    if (error != 0)
        fprintf(stderr,
                "uroce: %s: cannot write a frame to pcap=%s: %s; the capture is not complete\n",
                device->config.name, device->config.pcap, strerror(-error));
}

void uro_pcap_flush(struct uro_device *device)
{
    if (device->capture != NULL)
        report(device, uro_pcap_write_flush(device->capture));
}

void uro_pcap_abandon(struct uro_device *device)
{
    uro_pcap_write_abandon(device->capture);
    device->capture = NULL;
}

void uro_pcap_close(struct uro_device *device)
{
    if (device->capture == NULL)
        return;
    uint64_t lost = uro_pcap_write_lost(device->capture);
    if (lost != 0)
        fprintf(stderr,
                "uroce: %s: the capture pcap=%s lacks %llu frames, which could not be written\n",
                device->config.name, device->config.pcap, (unsigned long long)lost);
    uro_pcap_write_close(device->capture);
    device->capture = NULL;
}

/* ---- frames and their fates ------------------------------------------------------ */

/* Writes the fate of a frame as in a trace: "impair: tx request 0 17 lose". Returns @text, or NULL
 * without @line. */
static const char *fate_text(const struct uro_impair_trace_line *line,
                             char text[static URO_IMPAIR_TRACE_LINE + 8])
{
    char printed[URO_IMPAIR_TRACE_LINE];

    if (line == NULL)
        return NULL;
    (void)uro_impair_trace_print(line, printed);
    printed[strcspn(printed, "\n")] = '\0';
    (void)snprintf(text, URO_IMPAIR_TRACE_LINE + 8, "impair: %s", printed);
    return text;
}

/* Adds a sentence about a frame with a fate, for programs that show no comments. A frame that is
 * only late or marked needs no sentence. */
static int add_sentence(const struct uro_device *device, const struct uro_impair_trace_line *line,
                        const char *fate, uro_time now)
{
    char text[SENTENCE_MAX];
    const struct uro_impair_fate *effects = line != NULL ? &line->fate : NULL;

    if (effects == NULL ||
        !(effects->lost || effects->duplicated || effects->overtaken || effects->corrupted))
        return 0;
    (void)snprintf(text, sizeof text, "the frame above: %s", fate);
    return uro_pcap_write_text(device->capture, text, now);
}

static const struct uro_impair_trace_line *line_of(const struct uro_device *device,
                                                   enum uro_impair_direction direction,
                                                   uint32_t index)
{
    if (!device->impaired || !uro_pcap_write_is_pcapng(device->capture))
        return NULL;
    return uro_impair_port_line(device->port, direction, index);
}

void uro_pcap_received(struct uro_device *device, const struct uro_pkt *pkts, uint32_t count,
                       uro_time now)
{
    char text[URO_IMPAIR_TRACE_LINE + 8];

    for (uint32_t i = 0; device->capture != NULL && i < count; i++) {
        const struct uro_impair_trace_line *line = line_of(device, URO_IMPAIR_RX, i);
        const char *fate = fate_text(line, text);
        uro_pcap_write_comment(device->capture, fate);
        report(device, uro_pcap_write_pkt(device->capture, &pkts[i], now));
        report(device, add_sentence(device, line, fate, now));
    }
}

void uro_pcap_looped(struct uro_device *device, const struct uro_pkt *pkts, uint32_t count,
                     uro_time now)
{
    for (uint32_t i = 0; device->capture != NULL && i < count; i++)
        report(device, uro_pcap_write_pkt(device->capture, &pkts[i], now));
}

void uro_pcap_sent(struct uro_device *device, uint32_t count, uro_time now)
{
    char text[URO_IMPAIR_TRACE_LINE + 8];

    for (uint32_t i = 0; device->capture != NULL && i < count; i++) {
        const struct uro_impair_trace_line *line = line_of(device, URO_IMPAIR_TX, i);
        const char *fate = fate_text(line, text);
        uro_pcap_write_comment(device->capture, fate);
        report(device, uro_pcap_write_tx(device->capture, &device->tx[i], now));
        report(device, add_sentence(device, line, fate, now));
    }
}

void uro_pcap_lost(void *context, const struct uro_pkt *pkt,
                   const struct uro_impair_trace_line *line)
{
    struct uro_device *device = context;
    char text[URO_IMPAIR_TRACE_LINE + 8];

    if (device->capture == NULL || !uro_pcap_write_is_pcapng(device->capture))
        return;
    const uro_time now = uro_device_now();
    const char *fate = fate_text(line, text);
    uro_pcap_write_comment(device->capture, fate);
    report(device, uro_pcap_write_lost_pkt(device->capture, pkt, now));
    report(device, add_sentence(device, line, fate, now));
}

/* ---- queue pairs ----------------------------------------------------------------- */

static const char *reason_text(uint32_t reason)
{
    const struct uro_failure_reason *found = uro_failure_reason(reason);

    return found != NULL ? found->text : "no reason recorded";
}

static void add_state(void *context, uint32_t qpn, enum uro_qp_state from, enum uro_qp_state to,
                      enum uro_fail_reason reason)
{
    struct uro_device *device = context;
    char text[SENTENCE_MAX];
    const bool failed = (to == URO_QPS_ERR || to == URO_QPS_SQE) && reason != URO_FAIL_NONE;

    if (device->capture == NULL)
        return;
    (void)snprintf(text, sizeof text, "QP 0x%06" PRIx32 ": %s to %s%s%s", qpn,
                   uro_qp_state_name(from), uro_qp_state_name(to), failed ? ": " : "",
                   failed ? reason_text(reason) : "");
    report(device, uro_pcap_write_text(device->capture, text, uro_device_now()));
}

static void add_failed(void *context, const struct uro_cqe *cqe)
{
    struct uro_device *device = context;
    char text[SENTENCE_MAX];

    if (device->capture == NULL)
        return;
    (void)snprintf(text, sizeof text,
                   "QP 0x%06" PRIx32 ": completion with status %u, vendor_err %" PRIu32
                   ", wr_id 0x%" PRIx64 ": %s",
                   cqe->qpn, cqe->status, cqe->vendor_error, cqe->wr_id,
                   reason_text(cqe->vendor_error));
    report(device, uro_pcap_write_text(device->capture, text, uro_device_now()));
}

void uro_pcap_observe(struct uro_device *device)
{
    if (device->capture == NULL || !uro_pcap_write_is_pcapng(device->capture))
        return;
    device->observer =
        (struct uro_observer){ .state = add_state, .failed = add_failed, .context = device };
    uro_engine_observe(device->engine, &device->observer);
}

void uro_pcap_failure(struct uro_device *device, const struct uro_failure *failure)
{
    char text[SENTENCE_MAX], what[URO_FAILURE_TEXT_MAX];

    if (device->capture == NULL)
        return;
    (void)snprintf(text, sizeof text, "QP 0x%06" PRIx32 ": %s", failure->qpn,
                   uro_failure_text(failure, what));
    report(device, uro_pcap_write_text(device->capture, text, uro_device_now()));
}
