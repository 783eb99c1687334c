/* SPDX-License-Identifier: BSD-3-Clause */
/* stat_view.c - see stat_view.h. */
#define _GNU_SOURCE /* geteuid, clock_gettime */
#include "stat_view.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/utf8.h"

#define PSN_MASK 0xffffffu
/* Packets that a process may send or receive between the reading of its counters and its rows. */
#define SLACK 262144u

/* ---- surveys --------------------------------------------------------------------- */

static int compare_qps(const void *left, const void *right)
{
    const struct uro_snapshot_qp *a = left, *b = right;

    return (a->qpn > b->qpn) - (a->qpn < b->qpn);
}

static int compare_cqs(const void *left, const void *right)
{
    const struct uro_snapshot_cq *a = left, *b = right;

    return (a->number > b->number) - (a->number < b->number);
}

static int compare_keys(const void *left, const void *right)
{
    const struct uro_snapshot_key *a = left, *b = right;

    return (a->key > b->key) - (a->key < b->key);
}

static void sort_rows(struct uro_stats_rows *rows)
{
    if (rows->qps == NULL)
        return;
    qsort(rows->qps, rows->count[URO_SNAPSHOT_QPS], sizeof *rows->qps, compare_qps);
    qsort(rows->cqs, rows->count[URO_SNAPSHOT_CQS], sizeof *rows->cqs, compare_cqs);
    qsort(rows->keys, rows->count[URO_SNAPSHOT_KEYS], sizeof *rows->keys, compare_keys);
}

static uint64_t wall_clock(void)
{
    struct timespec now = { 0 };

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void uro_stat_take(struct uro_stat_view *view, bool rows)
{
    const unsigned all = geteuid() == 0 ? URO_SURVEY_ALL_USERS : 0;

    uro_survey_free(&view->before);
    view->before = view->now;
    view->time_before = view->time;
    view->time = wall_clock(); /* the survey reads the counters first, and then waits for rows */
    uro_survey_take(&view->now, all | (rows ? URO_SURVEY_ROWS : 0));
    for (uint32_t i = 0; i < view->now.count; i++)
        sort_rows(&view->now.files[i].rows);
}

void uro_stat_free(struct uro_stat_view *view)
{
    uro_survey_free(&view->before);
    uro_survey_free(&view->now);
}

/* ---- devices --------------------------------------------------------------------- */

/* Returns whether the file passes the filter, and its counters are part of its device. */
static bool passes(const struct uro_stat_filter *filter, const struct uro_survey_file *file)
{
    return file->error == 0 && file->kind != URO_STATS_KEPT &&
           (filter->device == NULL || strcmp(filter->device, file->page->device) == 0) &&
           (filter->pid == 0 ||
            (file->kind == URO_STATS_PROCESS && filter->pid == file->page->header.pid));
}

bool uro_stat_shows(const struct uro_stat_view *view, const struct uro_survey_file *file)
{
    return passes(&view->filter, file) && file->alive;
}

bool uro_stat_unreadable(const struct uro_survey_file *file)
{
    return file->error != 0 && file->error != -ENOENT && (file->alive || file->error != -EPROTO) &&
           file->kind != URO_STATS_OTHER;
}

static bool is_same_device(const struct uro_survey_file *a, const struct uro_survey_file *b)
{
    return a->error == 0 && b->error == 0 && a->uid == b->uid && a->page->guid == b->page->guid &&
           strcmp(a->page->device, b->page->device) == 0;
}

static void add_counters(struct uro_counters *sum, const struct uro_survey_file *file)
{
    for (unsigned i = 0; i < URO_COUNTER_COUNT; i++)
        sum->value[i] += file->page->record.counters.value[i];
}

/* Returns the rate of a counter that never decreases. */
static double rate(uint64_t before, uint64_t now, double seconds)
{
    return now >= before && seconds > 0 ? (double)(now - before) / seconds : -1;
}

static struct uro_stat_rates rates_of(const struct uro_counters *before,
                                      const struct uro_counters *now, double seconds)
{
    const uint64_t *b = before->value, *n = now->value;

    return (struct uro_stat_rates){
        .rx_packets = rate(b[URO_COUNT_RX_ROCE], n[URO_COUNT_RX_ROCE], seconds),
        .tx_packets = rate(b[URO_COUNT_TX_ROCE], n[URO_COUNT_TX_ROCE], seconds),
        .rx_bytes = rate(b[URO_COUNT_RX_BYTES], n[URO_COUNT_RX_BYTES], seconds),
        .tx_bytes = rate(b[URO_COUNT_TX_BYTES], n[URO_COUNT_TX_BYTES], seconds),
    };
}

static const struct uro_stat_rates unknown = { -1, -1, -1, -1 };

static double seconds_between(const struct uro_stat_view *view)
{
    return view->time_before != 0 && view->time > view->time_before
               ? (double)(view->time - view->time_before) / 1e9
               : 0;
}

/* Returns the rates of a device, from the files of the same device in the previous survey. */
static struct uro_stat_rates device_rates(const struct uro_stat_view *view,
                                          const struct uro_stat_device *device)
{
    struct uro_counters before = { 0 };
    bool found = false;

    for (uint32_t i = 0; i < view->before.count; i++) {
        const struct uro_survey_file *file = &view->before.files[i];
        if (!passes(&view->filter, file) || !is_same_device(file, &view->now.files[device->first]))
            continue;
        add_counters(&before, file);
        found = true;
    }
    return found ? rates_of(&before, &device->counters, seconds_between(view)) : unknown;
}

bool uro_stat_next_device(const struct uro_stat_view *view, struct uro_stat_device *device)
{
    const struct uro_survey_file *files = view->now.files;
    uint32_t i = device->end;

    *device = (struct uro_stat_device){ 0 };
    while (i < view->now.count && !passes(&view->filter, &files[i]))
        i++;
    if (i == view->now.count)
        return false;
    device->first = i;
    device->page = files[i].page;
    device->uid = files[i].uid;
    for (; i < view->now.count && is_same_device(&files[i], &files[device->first]); i++) {
        if (!passes(&view->filter, &files[i]))
            continue;
        add_counters(&device->counters, &files[i]);
        if (files[i].alive && files[i].page->engine == 0)
            device->processes++;
        if (files[i].alive && device->alive++ == 0)
            device->page = files[i].page;
    }
    device->end = i;
    device->rates = device_rates(view, device);
    return true;
}

/* ---- rates of processes and queue pairs ---------------------------------------------- */

/* Returns the same process in the previous survey, or NULL. */
static const struct uro_survey_file *find_before(const struct uro_stat_view *view,
                                                 const struct uro_survey_file *file)
{
    for (uint32_t i = 0; i < view->before.count; i++) {
        const struct uro_survey_file *before = &view->before.files[i];
        if (before->error == 0 && before->uid == file->uid &&
            before->page->started == file->page->started && strcmp(before->name, file->name) == 0)
            return before;
    }
    return NULL;
}

struct uro_stat_rates uro_stat_process_rates(const struct uro_stat_view *view,
                                             const struct uro_survey_file *file)
{
    const struct uro_survey_file *before = find_before(view, file);

    return before == NULL ? unknown
                          : rates_of(&before->page->record.counters, &file->page->record.counters,
                                     seconds_between(view));
}

/* Returns the difference of two PSNs, or -1 if the process cannot have moved so many packets. A
 * queue pair that was connected again has unrelated PSNs. */
static double psn_progress(uint32_t before, uint32_t now, double most)
{
    const double progress = (now - before) & PSN_MASK;

    return progress <= most ? progress : -1;
}

struct uro_stat_rates uro_stat_qp_rates(const struct uro_stat_view *view,
                                        const struct uro_survey_file *file,
                                        const struct uro_snapshot_qp *qp)
{
    const struct uro_survey_file *earlier = find_before(view, file);
    struct uro_stat_rates rates = unknown;

    if (earlier == NULL || earlier->rows.qps == NULL || file->rows.time <= earlier->rows.time)
        return rates;
    const struct uro_snapshot_qp *before = bsearch(
        qp, earlier->rows.qps, earlier->rows.count[URO_SNAPSHOT_QPS], sizeof *qp, compare_qps);
    if (before == NULL || before->peer_qpn != qp->peer_qpn)
        return rates;
    const double seconds = (double)(file->rows.time - earlier->rows.time) / 1e9;
    const uint64_t *b = earlier->page->record.counters.value;
    const uint64_t *n = file->page->record.counters.value;
    const double most = (double)(n[URO_COUNT_TX_ROCE] - b[URO_COUNT_TX_ROCE]) +
                        (double)(n[URO_COUNT_RX_ROCE] - b[URO_COUNT_RX_ROCE]) + SLACK;
    double sent = psn_progress(before->next_psn, qp->next_psn, most);
    double received = psn_progress(before->expected_psn, qp->expected_psn, most);
    if (qp->type == URO_QPT_UD) {
        sent = qp->sends_done - before->sends_done;
        received = qp->has_srq ? -1 : (double)(qp->recvs_done - before->recvs_done);
    }
    rates.tx_packets = sent >= 0 ? sent / seconds : -1;
    rates.rx_packets = received >= 0 ? received / seconds : -1;
    return rates;
}

/* ---- text ------------------------------------------------------------------------ */

const char *uro_stat_number(double value, char text[static URO_STAT_NUMBER_MAX])
{
    static const char units[] = " kMGTPE";
    unsigned unit = 0;

    if (value < 0) {
        (void)snprintf(text, URO_STAT_NUMBER_MAX, "-");
        return text;
    }
    if (value < 9999.5) {
        (void)snprintf(text, URO_STAT_NUMBER_MAX, "%.0f", value);
        return text;
    }
    while (value >= 999.5 && unit + 2 < sizeof units) {
        value /= 1000;
        unit++;
    }
    if (value >= 1000)
        (void)snprintf(text, URO_STAT_NUMBER_MAX, "many");
    else
        (void)snprintf(text, URO_STAT_NUMBER_MAX, "%.*f%c",
                       value < 9.995   ? 2
                       : value < 99.95 ? 1
                                       : 0,
                       value, units[unit]);
    return text;
}

const char *uro_stat_time(uint64_t ns, char text[static URO_STAT_NUMBER_MAX])
{
    static const char *const units[] = { "ns", "us", "ms", "s" };
    double value = (double)ns;
    unsigned unit = 0;

    for (; value >= 999.5 && unit + 1 < URO_ARRAY_LEN(units); unit++)
        value /= 1000;
    if (ns == 0 || value >= 9999.5)
        (void)snprintf(text, URO_STAT_NUMBER_MAX, ns == 0 ? "-" : "many");
    else
        (void)snprintf(text, URO_STAT_NUMBER_MAX, "%.*f%s", unit > 0 && value < 9.95 ? 1 : 0, value,
                       units[unit]);
    return text;
}

const char *uro_stat_type(uint8_t type)
{
    static const char *const names[URO_QPT_COUNT] = { "RC", "UC", "UD", "XRCI", "XRCT" };

    return type < URO_QPT_COUNT ? names[type] : "?";
}

const char *uro_stat_reason(uint8_t fail_reason)
{
    static const char *const texts[URO_FAIL_REASON_COUNT] = {
#define X(id, text) text,
        URO_FAIL_REASONS(X)
#undef X
    };

    return fail_reason < URO_FAIL_REASON_COUNT ? texts[fail_reason] : "?";
}

const char *uro_stat_kind(uint8_t kind)
{
    static const char *const names[] = { "region", "null region", "window type 1",
                                         "window type 2" };

    return kind < URO_ARRAY_LEN(names) ? names[kind] : "?";
}

const char *uro_stat_pid(const struct uro_survey_file *file)
{
    const char *dot = strrchr(file->name, '.');

    return dot != NULL ? dot + 1 : "?";
}

void uro_stat_plain(const char *from, char *to, size_t size)
{
    (void)snprintf(to, size, "%s", from);
    (void)uro_utf8_mask(to);
}

const char *uro_stat_rows_problem(const struct uro_survey_file *file,
                                  char text[static URO_STAT_REASON_MAX])
{
    switch (file->rows_error) {
    case -ETIMEDOUT:
        (void)snprintf(text, URO_STAT_REASON_MAX,
                       "no answer, so only its counters are shown: the process is stopped, or has "
                       "progress=caller and makes no calls");
        break;
    case -ENOSPC:
        (void)snprintf(
            text, URO_STAT_REASON_MAX,
            "%s has too little space for the queue pairs of the process; free some there",
            file->directory);
        break;
    case -EINVAL:
    case -EACCES:
        (void)snprintf(text, URO_STAT_REASON_MAX,
                       "%s/%s is damaged or was replaced, so only its counters are shown",
                       file->directory, file->name);
        break;
    case -ENOENT:
    case -EPROTO:
        (void)snprintf(text, URO_STAT_REASON_MAX, "the process ended meanwhile");
        break;
    default:
        (void)snprintf(text, URO_STAT_REASON_MAX, "its queue pairs cannot be read: %s",
                       strerror(-file->rows_error));
        break;
    }
    return uro_utf8_mask(text);
}

const char *uro_stat_file_problem(const struct uro_survey_file *file,
                                  char text[static URO_STAT_REASON_MAX])
{
    char version[sizeof file->page->header.version + 1];

    if (file->error == -EPROTO) {
        uro_stat_plain(file->page->header.version, version, sizeof version);
        (void)snprintf(text, URO_STAT_REASON_MAX,
                       "pid %d uses uroce %s, another version or build; use its own `uroce stat`",
                       file->page->header.pid, version);
    } else if (file->error == -EINVAL) {
        (void)snprintf(text, URO_STAT_REASON_MAX,
                       "%s/%s is damaged; remove it if no program uses it", file->directory,
                       file->name);
    } else {
        (void)snprintf(text, URO_STAT_REASON_MAX, "%s/%s cannot be read: %s", file->directory,
                       file->name, strerror(-file->error));
    }
    return uro_utf8_mask(text);
}

const char *uro_stat_survey_problem(const struct uro_survey *survey,
                                    char text[static URO_STAT_REASON_MAX])
{
    const char *chosen = secure_getenv("UROCE_STATE_DIR");

    if (survey->error == -EACCES && chosen != NULL && chosen[0] != '\0')
        (void)snprintf(text, URO_STAT_REASON_MAX,
                       "the directory %.200s in UROCE_STATE_DIR cannot be read: this user must own "
                       "it, other users must have no rights to it, and this user must have access "
                       "to the directories above it",
                       chosen);
    else if (survey->error == -EACCES)
        (void)snprintf(text, URO_STAT_REASON_MAX,
                       "a state directory of uroce belongs to another user, or others have rights "
                       "to it: see /dev/shm/uroce-stats-%u and UROCE_STATE_DIR",
                       (unsigned)geteuid());
    else if (survey->error == -EBUSY)
        (void)snprintf(text, URO_STAT_REASON_MAX,
                       "a stopped process holds the lock of the state directory, so a process that "
                       "ends now may be missing");
    else
        (void)snprintf(text, URO_STAT_REASON_MAX, "not every process can be shown: %s",
                       strerror(-survey->error));
    return uro_utf8_mask(text);
}

const char *uro_stat_nothing(const struct uro_stat_filter *filter,
                             char text[static URO_STAT_REASON_MAX])
{
    if (filter->pid != 0)
        (void)snprintf(text, URO_STAT_REASON_MAX,
                       "no process %d%s%s runs over uroce; `uroce stat` lists all", filter->pid,
                       filter->device != NULL ? " with device " : "",
                       filter->device != NULL ? filter->device : "");
    else if (filter->device != NULL)
        (void)snprintf(text, URO_STAT_REASON_MAX,
                       "no process has used the device %s; `uroce stat` lists all", filter->device);
    else
        (void)snprintf(text, URO_STAT_REASON_MAX,
                       "no program of %s runs over uroce; start one with `uroce run PROGRAM`",
                       geteuid() == 0 ? "any user" : "this user");
    return uro_utf8_mask(text);
}
