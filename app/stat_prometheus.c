/* SPDX-License-Identifier: BSD-3-Clause */
/* stat_prometheus.c - `uroce stat --prometheus`: prints the text exposition format of Prometheus.
 *
 * All samples of a metric must be together, so each metric iterates over all devices. The counters
 * are sums over all processes of a device, also over processes that have ended, so they never
 * decrease.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "escape.h"
#include "stat.h"

/* ---- pieces ------------------------------------------------------------------------ */

static void print_header(const char *name, const char *type, const char *help)
{
    (void)printf("# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* Prints the name of a sample, and the labels that every sample has. Does not close the braces. */
static void begin_sample(const char *name, const struct uro_stats_page *page, uid_t uid)
{
    (void)printf("%s{device=", name);
    uro_escape_label(stdout, page->device);
    (void)printf(",guid=\"%016" PRIx64 "\",uid=\"%u\"", page->guid, (unsigned)uid);
}

static void end_sample(double value)
{
    (void)printf("} %.17g\n", value);
}

/* ---- devices ------------------------------------------------------------------------ */

static void print_counter(const struct uro_stat_view *view, enum uro_counter counter)
{
    struct uro_stat_device device = { 0 };
    char name[80];

    (void)snprintf(name, sizeof name, "uroce_%s_total", uro_counter_name(counter));
    print_header(name, "counter", uro_counter_text(counter));
    while (uro_stat_next_device(view, &device)) {
        begin_sample(name, device.page, device.uid);
        (void)printf("} %" PRIu64 "\n", device.counters.value[counter]);
    }
}

static void print_devices(const struct uro_stat_view *view)
{
    struct uro_stat_device device = { 0 };

    print_header("uroce_processes", "gauge", "processes that run the device");
    while (uro_stat_next_device(view, &device)) {
        begin_sample("uroce_processes", device.page, device.uid);
        end_sample(device.processes);
    }
    device = (struct uro_stat_device){ 0 };
    print_header("uroce_link_up", "gauge", "1 if the link is up");
    while (uro_stat_next_device(view, &device)) {
        begin_sample("uroce_link_up", device.page, device.uid);
        end_sample(device.alive > 0 && atomic_load(&device.page->link_up) != 0);
    }
    for (unsigned i = 0; i < URO_COUNTER_COUNT; i++)
        print_counter(view, (enum uro_counter)i);
}

/* ---- processes ---------------------------------------------------------------------- */

static double has_rows(const struct uro_survey_file *file)
{
    return file->rows_error == 0;
}

static double qp_count(const struct uro_survey_file *file)
{
    return file->rows.count[URO_SNAPSHOT_QPS];
}

static double cq_count(const struct uro_survey_file *file)
{
    return file->rows.count[URO_SNAPSHOT_CQS];
}

static double key_count(const struct uro_survey_file *file)
{
    return file->rows.count[URO_SNAPSHOT_KEYS];
}

static double waiting(const struct uro_survey_file *file)
{
    double sum = 0;

    for (uint32_t i = 0; i < file->rows.count[URO_SNAPSHOT_CQS]; i++)
        sum += file->rows.cqs[i].waiting;
    return sum;
}

static const struct process_metric {
    const char *name;
    double (*value)(const struct uro_survey_file *file);
    bool needs_rows;
    const char *help;
} process_metrics[] = {
    { "uroce_process_answers", has_rows, false, "1 if the process shows its queue pairs" },
    { "uroce_process_queue_pairs", qp_count, true, "queue pairs of the process" },
    { "uroce_process_completion_queues", cq_count, true, "completion queues of the process" },
    { "uroce_process_memory_keys", key_count, true, "memory regions and windows of the process" },
    { "uroce_process_completions_waiting", waiting, true,
      "completions that the process has not polled" },
};

/* Calls @print for each living process that passes the filter. */
static void each_process(const struct uro_stat_view *view, const void *metric,
                         void (*print)(const struct uro_survey_file *file, const void *metric))
{
    for (uint32_t i = 0; i < view->now.count; i++)
        if (uro_stat_shows(view, &view->now.files[i]))
            print(&view->now.files[i], metric);
}

static void begin_process(const char *name, const struct uro_survey_file *file)
{
    begin_sample(name, file->page, file->uid);
    (void)printf(",pid=");
    if (file->page->engine == 0) {
        uro_escape_label(stdout, uro_stat_pid(file));
    } else { /* the name of the file has a longer number */
        (void)printf("\"%d\",engine=\"%u\"", file->page->header.pid, file->page->engine);
    }
}

static void print_process(const struct uro_survey_file *file, const void *context)
{
    const struct process_metric *metric = context;

    if (metric->needs_rows && file->rows_error != 0)
        return;
    begin_process(metric->name, file);
    (void)printf(",program=");
    uro_escape_label(stdout, file->page->program);
    end_sample(metric->value(file));
}

/* ---- queue pairs -------------------------------------------------------------------- */

static double outstanding(const struct uro_snapshot_qp *qp)
{
    return qp->outstanding;
}

static double window(const struct uro_snapshot_qp *qp)
{
    return qp->window;
}

static double rtt(const struct uro_snapshot_qp *qp)
{
    return (double)qp->rtt / 1e9;
}

static double retransmits(const struct uro_snapshot_qp *qp)
{
    return (double)qp->retransmits;
}

static double rnr_naks(const struct uro_snapshot_qp *qp)
{
    return (double)qp->rnr_naks;
}

static double sends(const struct uro_snapshot_qp *qp)
{
    return qp->sends_posted - qp->sends_done;
}

static double receives(const struct uro_snapshot_qp *qp)
{
    return qp->has_srq ? 0 : qp->recvs_posted - qp->recvs_done;
}

static double state(const struct uro_snapshot_qp *qp)
{
    return qp->state;
}

static double vendor_err(const struct uro_snapshot_qp *qp)
{
    return qp->fail_reason;
}

static const struct qp_metric {
    const char *name;
    double (*value)(const struct uro_snapshot_qp *qp);
    const char *type, *help;
} qp_metrics[] = {
    { "uroce_qp_state", state, "gauge", "0 to 6: RESET, INIT, RTR, RTS, SQD, SQE, ERR" },
    { "uroce_qp_vendor_err", vendor_err, "gauge",
      "why the queue pair failed; 0: it did not, or no reason is recorded" },
    { "uroce_qp_outstanding_packets", outstanding, "gauge", "packets sent and not acknowledged" },
    { "uroce_qp_window_packets", window, "gauge", "congestion window in packets" },
    { "uroce_qp_rtt_seconds", rtt, "gauge", "round-trip time, smoothed; 0: not measured" },
    { "uroce_qp_sends_waiting", sends, "gauge", "send requests that are not completed" },
    { "uroce_qp_receives_waiting", receives, "gauge",
      "receive requests that are not completed; 0 with an SRQ" },
    { "uroce_qp_retransmits_total", retransmits, "counter",
      "times that the requester sent again from an earlier PSN" },
    { "uroce_qp_rnr_naks_received_total", rnr_naks, "counter", "RNR NAKs received" },
};

static void print_qps(const struct uro_survey_file *file, const void *context)
{
    const struct qp_metric *metric = context;

    for (uint32_t i = 0; i < file->rows.count[URO_SNAPSHOT_QPS]; i++) {
        const struct uro_snapshot_qp *qp = &file->rows.qps[i];
        begin_process(metric->name, file);
        (void)printf(",qpn=\"%" PRIu32 "\",type=\"%s\"", qp->qpn, uro_stat_type(qp->type));
        end_sample(metric->value(qp));
    }
}

void uro_stat_print_prometheus(const struct uro_stat_view *view, unsigned sections)
{
    const bool qps = sections == 0 || (sections & URO_STAT_QPS) != 0;

    print_devices(view);
    for (size_t i = 0; i < URO_ARRAY_LEN(process_metrics); i++) {
        print_header(process_metrics[i].name, "gauge", process_metrics[i].help);
        each_process(view, &process_metrics[i], print_process);
    }
    for (size_t i = 0; qps && i < URO_ARRAY_LEN(qp_metrics); i++) {
        print_header(qp_metrics[i].name, qp_metrics[i].type, qp_metrics[i].help);
        each_process(view, &qp_metrics[i], print_qps);
    }
}
