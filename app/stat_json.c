/* SPDX-License-Identifier: BSD-3-Clause */
/* stat_json.c - `uroce stat --json`: prints a line for each survey. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "escape.h"
#include "stat.h"

/* ---- JSON ------------------------------------------------------------------------- */

static void print_string(const char *text)
{
    uro_escape_json(stdout, text);
}

static void print_name(const char *name)
{
    print_string(name);
    (void)putchar(':');
}

static void print_text_field(const char *name, const char *text)
{
    print_name(name);
    print_string(text);
    (void)putchar(',');
}

static void print_field(const char *name, uint64_t value)
{
    print_name(name);
    (void)printf("%" PRIu64 ",", value);
}

static void print_bool(const char *name, bool value)
{
    print_name(name);
    (void)printf("%s,", value ? "true" : "false");
}

/* Prints a rate, or null if the rate is unknown (negative). */
static void print_rate(const char *name, double value)
{
    print_name(name);
    if (value >= 0)
        (void)printf("%.1f,", value);
    else
        (void)printf("null,");
}

static void print_counters(const struct uro_counters *counters)
{
    print_name("counters");
    for (unsigned i = 0; i < URO_COUNTER_COUNT; i++) {
        (void)putchar(i == 0 ? '{' : ',');
        print_name(uro_counter_name((enum uro_counter)i));
        (void)printf("%" PRIu64, counters->value[i]);
    }
    (void)putchar('}');
}

static void print_qp(const struct uro_stat_view *view, const struct uro_survey_file *file,
                     const struct uro_snapshot_qp *qp)
{
    const struct uro_stat_rates rates = uro_stat_qp_rates(view, file, qp);
    char peer[URO_GID_TEXT_MAX];

    (void)putchar('{');
    print_field("qpn", qp->qpn);
    print_text_field("type", uro_stat_type(qp->type));
    print_text_field("state", uro_qp_state_name(qp->state));
    if (qp->path_mtu != 0) {
        print_field("peer_qpn", qp->peer_qpn);
        print_text_field("peer_gid", uro_gid_text(&qp->peer, peer));
        print_field("path_mtu", qp->path_mtu);
    }
    print_field("pd", qp->pd);
    print_field("send_cq", qp->send_cq);
    print_field("recv_cq", qp->recv_cq);
    print_field("oldest_unacknowledged_psn", qp->oldest_psn);
    print_field("next_psn", qp->next_psn);
    print_field("expected_psn", qp->expected_psn);
    print_field("msn", qp->msn);
    print_field("outstanding_packets", qp->outstanding);
    print_field("window_packets", qp->window);
    print_field("sends_not_completed", qp->sends_posted - qp->sends_done);
    print_bool("srq", qp->has_srq != 0);
    if (!qp->has_srq)
        print_field("receives_not_completed", qp->recvs_posted - qp->recvs_done);
    if (qp->rtt != 0)
        print_field("rtt_ns", qp->rtt);
    print_field("retransmits", qp->retransmits);
    print_field("rnr_naks_received", qp->rnr_naks);
    print_rate("tx_packets_per_second", rates.tx_packets);
    print_rate("rx_packets_per_second", rates.rx_packets);
    print_field("vendor_err", qp->fail_reason);
    print_name("last_reason");
    if (qp->fail_reason != URO_FAIL_NONE)
        print_string(uro_stat_reason(qp->fail_reason));
    else
        (void)printf("null");
    (void)putchar('}');
}

static void print_cq(const struct uro_snapshot_cq *cq)
{
    (void)putchar('{');
    print_field("number", cq->number);
    print_field("capacity", cq->capacity);
    print_field("waiting", cq->waiting);
    print_bool("armed", cq->armed != URO_CQ_NOT_ARMED);
    print_name("overrun");
    (void)printf("%s}", cq->overrun ? "true" : "false");
}

static void print_key(const struct uro_snapshot_key *key)
{
    (void)putchar('{');
    print_field("key", key->key);
    print_text_field("kind", uro_stat_kind(key->kind));
    print_field("address", key->address);
    print_field("length", key->length);
    print_field("pd", key->pd);
    print_field("access", key->access);
    print_name("bound");
    (void)printf("%s}", key->bound ? "true" : "false");
}

static bool chosen(unsigned sections, unsigned section)
{
    const unsigned objects = sections & (URO_STAT_QPS | URO_STAT_CQS | URO_STAT_MRS);

    return objects == 0 || (objects & section) != 0;
}

static void print_rows(const struct uro_stat_view *view, const struct uro_survey_file *file,
                       unsigned sections)
{
    const struct uro_stats_rows *rows = &file->rows;

    print_bool("incomplete", rows->incomplete);
    if (chosen(sections, URO_STAT_QPS)) {
        (void)printf("\"queue_pairs\":[");
        for (uint32_t i = 0; i < rows->count[URO_SNAPSHOT_QPS]; i++) {
            (void)printf("%s", i > 0 ? "," : "");
            print_qp(view, file, &rows->qps[i]);
        }
        (void)printf("],");
    }
    if (chosen(sections, URO_STAT_CQS)) {
        (void)printf("\"completion_queues\":[");
        for (uint32_t i = 0; i < rows->count[URO_SNAPSHOT_CQS]; i++) {
            (void)printf("%s", i > 0 ? "," : "");
            print_cq(&rows->cqs[i]);
        }
        (void)printf("],");
    }
    if (chosen(sections, URO_STAT_MRS)) {
        (void)printf("\"memory_keys\":[");
        for (uint32_t i = 0; i < rows->count[URO_SNAPSHOT_KEYS]; i++) {
            (void)printf("%s", i > 0 ? "," : "");
            print_key(&rows->keys[i]);
        }
        (void)printf("],");
    }
}

static void print_process(const struct uro_stat_view *view, const struct uro_survey_file *file,
                          unsigned sections)
{
    char problem[URO_STAT_REASON_MAX];

    (void)putchar('{');
    print_name("pid");
    (void)printf("%d,", file->page->header.pid);
    print_field("engine", file->page->engine);
    print_text_field("program", file->page->program);
    print_field("started_ns", file->page->started);
    if (file->rows_error == 0)
        print_rows(view, file, sections);
    else
        print_text_field("problem", uro_stat_rows_problem(file, problem));
    print_counters(&file->page->record.counters);
    (void)putchar('}');
}

static void print_device(const struct uro_stat_view *view, const struct uro_stat_device *device,
                         unsigned sections)
{
    const struct uro_stats_page *page = device->page;
    char gid[URO_GID_TEXT_MAX], guid[24];
    const char *comma = "";

    (void)putchar('{');
    print_text_field("name", page->device);
    (void)snprintf(guid, sizeof guid, "%016" PRIx64, page->guid);
    print_text_field("guid", guid);
    print_field("uid", device->uid);
    print_text_field("link", page->link);
    print_bool("link_up", device->alive > 0 && atomic_load(&page->link_up) != 0);
    print_field("mtu", atomic_load(&page->mtu));
    (void)printf("\"gids\":[");
    for (uint32_t i = 0; i < page->gid_count; i++) {
        (void)printf("%s", i > 0 ? "," : "");
        print_string(uro_gid_text(&page->gids[i], gid));
    }
    (void)printf("],");
    print_rate("rx_packets_per_second", device->rates.rx_packets);
    print_rate("tx_packets_per_second", device->rates.tx_packets);
    print_rate("rx_bytes_per_second", device->rates.rx_bytes);
    print_rate("tx_bytes_per_second", device->rates.tx_bytes);
    print_counters(&device->counters);
    (void)printf(",\"processes\":[");
    for (uint32_t i = device->first; i < device->end; i++) {
        if (!uro_stat_shows(view, &view->now.files[i]))
            continue;
        (void)printf("%s", comma);
        comma = ",";
        print_process(view, &view->now.files[i], sections);
    }
    (void)printf("]}");
}

void uro_stat_print_json(const struct uro_stat_view *view, unsigned sections)
{
    struct uro_stat_device device = { 0 };
    char problem[URO_STAT_REASON_MAX];
    const char *comma = "";

    (void)putchar('{');
    print_text_field("version", URO_VERSION);
    print_field("time_ns", view->time);
    (void)printf("\"devices\":[");
    for (bool first = true; uro_stat_next_device(view, &device); first = false) {
        (void)printf("%s", first ? "" : ",");
        print_device(view, &device, sections);
    }
    (void)printf("],\"problems\":[");
    if (view->now.error != 0) {
        print_string(uro_stat_survey_problem(&view->now, problem));
        comma = ",";
    }
    for (uint32_t i = 0; i < view->now.count; i++)
        if (uro_stat_unreadable(&view->now.files[i])) {
            (void)printf("%s", comma);
            comma = ",";
            print_string(uro_stat_file_problem(&view->now.files[i], problem));
        }
    (void)printf("]}\n");
}
