/* SPDX-License-Identifier: BSD-3-Clause */
/* stat_text.c - `uroce stat`: prints text for people, in 80 columns. */
#define _GNU_SOURCE /* getpwuid_r, localtime_r */
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "stat.h"

#define COLUMNS    80u
#define SHORT_ROWS 16u /* rows of each kind in the short form */

/* ---- lines ------------------------------------------------------------------------ */

/* The state of add_words(), which prints words after a title. Words that do not fit begin a new
 * line. */
struct lines {
    const char *title;
    size_t column; /* present column; 0: nothing was printed yet */
};

static void add_words(struct lines *lines, const char *words)
{
    const size_t length = strlen(words);

    if (lines->column == 0)
        lines->column = (size_t)printf("  %-9s", lines->title);
    else if (lines->column + 2 + length > COLUMNS)
        lines->column = (size_t)printf(",\n  %-9s", "") - 2;
    else
        lines->column += (size_t)printf(", ");
    lines->column += (size_t)printf("%s", words);
}

static void end_lines(struct lines *lines)
{
    if (lines->column != 0)
        (void)putchar('\n');
}

/* Prints a sentence, wrapped between words, with an indent. */
static void print_wrapped(const char *text, unsigned indent)
{
    size_t column = 0;

    while (*text != '\0') {
        const size_t length = strcspn(text, " ");
        if (column == 0 || column + 1 + length > COLUMNS) {
            (void)printf("%s%*s", column == 0 ? "" : "\n", (int)indent, "");
            column = indent;
        } else {
            (void)putchar(' ');
            column++;
        }
        (void)printf("%.*s", (int)length, text);
        column += length;
        text += length;
        text += strspn(text, " ");
    }
    (void)putchar('\n');
}

/* ---- devices ------------------------------------------------------------------------ */

/* Returns whether @counter counts ordinary traffic, which is not shown as an event. */
static bool is_traffic(enum uro_counter counter)
{
    static const uint8_t ordinary[] = {
        URO_COUNT_RX_FRAMES, URO_COUNT_RX_ROCE,       URO_COUNT_TX_FRAMES,     URO_COUNT_TX_ROCE,
        URO_COUNT_RX_BYTES,  URO_COUNT_TX_BYTES,      URO_COUNT_LOOP_FRAMES,   URO_COUNT_ARP_RX,
        URO_COUNT_ARP_TX,    URO_COUNT_MEMBERSHIP_RX, URO_COUNT_MEMBERSHIP_TX, URO_COUNT_ICMP_ECHO,
        URO_COUNT_RX_WRITES, URO_COUNT_RX_READS,      URO_COUNT_RX_ATOMICS,    URO_COUNT_CM_RX,
        URO_COUNT_CM_TX,     URO_COUNT_COMPLETIONS,
    };

    for (size_t i = 0; i < sizeof ordinary; i++)
        if (ordinary[i] == counter)
            return true;
    return false;
}

static void print_events(const struct uro_counters *counters)
{
    struct lines lines = { .title = "events" };
    char words[80];

    for (unsigned i = 0; i < URO_COUNTER_COUNT; i++) {
        if (counters->value[i] == 0 || is_traffic((enum uro_counter)i))
            continue;
        (void)snprintf(words, sizeof words, "%s %" PRIu64, uro_counter_name((enum uro_counter)i),
                       counters->value[i]);
        add_words(&lines, words);
    }
    end_lines(&lines);
}

static void print_counters(const struct uro_counters *counters)
{
    for (unsigned i = 0; i < URO_COUNTER_COUNT; i++)
        (void)printf("  %-26s %12" PRIu64 "\n", uro_counter_name((enum uro_counter)i),
                     counters->value[i]);
}

static void print_direction(const char *name, uint64_t packets, uint64_t bytes, double packet_rate,
                            double byte_rate)
{
    char count[URO_STAT_NUMBER_MAX], size[URO_STAT_NUMBER_MAX], rate[URO_STAT_NUMBER_MAX],
        bits[URO_STAT_NUMBER_MAX];

    (void)printf("  %-9s%5s packets, %5sB", name, uro_stat_number((double)packets, count),
                 uro_stat_number((double)bytes, size));
    if (packet_rate >= 0 && byte_rate >= 0)
        (void)printf("; now %5s packets/s, %5sbit/s", uro_stat_number(packet_rate, rate),
                     uro_stat_number(8 * byte_rate, bits));
    (void)putchar('\n');
}

static void print_gids(const struct uro_stats_page *page)
{
    struct lines lines = { .title = "gids" };
    char text[URO_GID_TEXT_MAX];

    for (uint32_t i = 0; i < page->gid_count; i++)
        add_words(&lines, uro_gid_text(&page->gids[i], text));
    end_lines(&lines);
}

/* Writes the name of a user, or the number. */
static void name_user(uid_t uid, char text[static 64])
{
    struct passwd entry, *found = NULL;
    char buffer[1024];

    if (getpwuid_r(uid, &entry, buffer, sizeof buffer, &found) == 0 && found != NULL)
        uro_stat_plain(found->pw_name, text, 64);
    else
        (void)snprintf(text, 64, "%u", (unsigned)uid);
}

static void print_device(const struct uro_stat_device *device, unsigned sections)
{
    const struct uro_stats_page *page = device->page;
    const uint64_t *value = device->counters.value;
    char name[URO_STATS_NAME_MAX], link[URO_STATS_LINK_MAX], user[64];

    uro_stat_plain(page->device, name, sizeof name);
    uro_stat_plain(page->link, link, sizeof link);
    (void)printf("%s  %s\n", name, link);
    if (device->uid != geteuid()) {
        name_user(device->uid, user);
        (void)printf("  user     %s\n", user);
    }
    if (device->alive > 0)
        (void)printf("  link     %s, MTU %u\n", atomic_load(&page->link_up) != 0 ? "up" : "down",
                     atomic_load(&page->mtu));
    else
        (void)printf("  link     no process uses the device now\n");
    print_gids(page);
    print_direction("received", value[URO_COUNT_RX_ROCE], value[URO_COUNT_RX_BYTES],
                    device->rates.rx_packets, device->rates.rx_bytes);
    print_direction("sent", value[URO_COUNT_TX_ROCE], value[URO_COUNT_TX_BYTES],
                    device->rates.tx_packets, device->rates.tx_bytes);
    if ((sections & URO_STAT_COUNTERS) != 0)
        print_counters(&device->counters);
    else
        print_events(&device->counters);
}

/* ---- objects ------------------------------------------------------------------------ */

/* Returns the number of rows to print, of @count rows. @chosen: the user asked for these rows. */
static uint32_t limit(uint32_t count, bool chosen)
{
    return chosen || count <= SHORT_ROWS ? count : SHORT_ROWS;
}

/* Prints how many rows are left out, if any. */
static void print_rest(uint32_t count, uint32_t shown, const char *what, const char *option)
{
    if (count > shown)
        (void)printf("    %" PRIu32 " more %s: use %s\n", count - shown, what, option);
}

static void print_details(const struct uro_snapshot_qp *qp)
{
    (void)printf("       PD %" PRIu32 ", CQs %" PRIu32 " and %" PRIu32 ", path MTU %" PRIu32
                 ", %" PRIu32 " sends and ",
                 qp->pd, qp->send_cq, qp->recv_cq, qp->path_mtu, qp->sends_posted - qp->sends_done);
    if (qp->has_srq)
        (void)printf("an SRQ\n");
    else
        (void)printf("%" PRIu32 " receives\n", qp->recvs_posted - qp->recvs_done);
    (void)printf("       oldest unacknowledged PSN %" PRIu32 ", next %" PRIu32
                 ", expected from the peer %" PRIu32 "\n",
                 qp->oldest_psn, qp->next_psn, qp->expected_psn);
}

static void print_qp(const struct uro_stat_view *view, const struct uro_survey_file *file,
                     const struct uro_snapshot_qp *qp, bool details)
{
    const struct uro_stat_rates rates = uro_stat_qp_rates(view, file, qp);
    char peer[URO_GID_TEXT_MAX] = "-", qpn[8] = "-", flight[24], tx[URO_STAT_NUMBER_MAX],
         rx[URO_STAT_NUMBER_MAX], rtt[URO_STAT_NUMBER_MAX], repeated[URO_STAT_NUMBER_MAX],
         rnr[URO_STAT_NUMBER_MAX];

    if (qp->path_mtu != 0) {
        uro_gid_text(&qp->peer, peer);
        (void)snprintf(qpn, sizeof qpn, "%06" PRIx32, qp->peer_qpn & 0xffffff);
    }
    (void)snprintf(flight, sizeof flight, "%" PRIu32 "/%" PRIu32, qp->outstanding, qp->window);
    (void)printf("%06" PRIx32 " %-4s %-5s %-6s %-15s %5s %5s %9s %5s %5s %4s\n", qp->qpn,
                 uro_stat_type(qp->type), uro_qp_state_name(qp->state), qpn,
                 strlen(peer) <= 15 ? peer : "(IPv6)", uro_stat_number(rates.tx_packets, tx),
                 uro_stat_number(rates.rx_packets, rx), flight, uro_stat_time(qp->rtt, rtt),
                 uro_stat_number((double)qp->retransmits, repeated),
                 uro_stat_number((double)qp->rnr_naks, rnr));
    if (strlen(peer) > 15)
        (void)printf("       peer %s\n", peer);
    if (details)
        print_details(qp);
    if (qp->fail_reason != URO_FAIL_NONE)
        (void)printf("       %s\n", uro_stat_reason(qp->fail_reason));
}

static void print_qps(const struct uro_stat_view *view, const struct uro_survey_file *file,
                      bool chosen)
{
    const uint32_t count = file->rows.count[URO_SNAPSHOT_QPS];
    const uint32_t shown = limit(count, chosen);

    if (count == 0)
        return;
    (void)printf("%-6s %-4s %-5s %-6s %-15s %5s %5s %9s %5s %5s %4s\n", "QPN", "TYPE", "STATE",
                 "PEER", "ADDRESS", "TX/s", "RX/s", "SENT/WIN", "RTT", "RETRY", "RNR");
    for (uint32_t i = 0; i < shown; i++)
        print_qp(view, file, &file->rows.qps[i], chosen);
    print_rest(count, shown, "queue pairs", "--qps");
}

static void print_cqs(const struct uro_survey_file *file, bool chosen)
{
    const uint32_t count = file->rows.count[URO_SNAPSHOT_CQS];
    const uint32_t shown = limit(count, chosen);

    if (count == 0)
        return;
    (void)printf("%-6s %8s %8s\n", "CQ", "CAPACITY", "WAITING");
    for (uint32_t i = 0; i < shown; i++) {
        const struct uro_snapshot_cq *cq = &file->rows.cqs[i];
        (void)printf("%-6" PRIu32 " %8" PRIu32 " %8" PRIu32 "%s%s\n", cq->number, cq->capacity,
                     cq->waiting, cq->overrun ? "  overflowed: its queue pairs failed" : "",
                     cq->armed != URO_CQ_NOT_ARMED ? "  armed" : "");
    }
    print_rest(count, shown, "CQs", "--cqs");
}

static void write_access(uint32_t access, char text[static 64])
{
    static const struct {
        uint32_t bit;
        const char *name;
    } names[] = {
        { URO_ACCESS_LOCAL_WRITE, "local write" },
        { URO_ACCESS_REMOTE_WRITE, "write" },
        { URO_ACCESS_REMOTE_READ, "read" },
        { URO_ACCESS_REMOTE_ATOMIC, "atomic" },
        { URO_ACCESS_MW_BIND, "bind" },
    };
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < URO_ARRAY_LEN(names) && used < 48; i++)
        if ((access & names[i].bit) != 0)
            used += (size_t)snprintf(text + used, 64 - used, "%s%s", used > 0 ? ", " : "",
                                     names[i].name);
}

static void print_keys(const struct uro_survey_file *file, bool chosen)
{
    const uint32_t count = file->rows.count[URO_SNAPSHOT_KEYS];
    const uint32_t shown = limit(count, chosen);
    char size[URO_STAT_NUMBER_MAX], access[64];

    if (count == 0)
        return;
    (void)printf("%-8s %-18s %6s %-4s %s\n", "KEY", "ADDRESS", "BYTES", "PD", "KIND AND RIGHTS");
    for (uint32_t i = 0; i < shown; i++) {
        const struct uro_snapshot_key *key = &file->rows.keys[i];
        write_access(key->access, access);
        (void)printf("%08" PRIx32 " 0x%016" PRIx64 " %6s %-4" PRIu32 " %s%s%s\n", key->key,
                     key->address, uro_stat_number((double)key->length, size), key->pd,
                     uro_stat_kind(key->kind), access[0] != '\0' ? ": " : "", access);
    }
    print_rest(count, shown, "keys", "--mrs");
}

static const char *plural(uint32_t count)
{
    return count == 1 ? "" : "s";
}

static void print_process(const struct uro_stat_view *view, const struct uro_survey_file *file,
                          unsigned sections)
{
    const unsigned objects = sections & (URO_STAT_QPS | URO_STAT_CQS | URO_STAT_MRS);
    const time_t started = (time_t)(file->page->started / 1000000000u);
    char program[URO_STATS_NAME_MAX], since[32] = "?", problem[URO_STAT_REASON_MAX];
    const uint32_t *count = file->rows.count;
    struct tm broken;

    uro_stat_plain(file->page->program, program, sizeof program);
    if (localtime_r(&started, &broken) != NULL)
        (void)strftime(since, sizeof since, "%F %T", &broken);
    (void)printf("  pid %d", file->page->header.pid);
    if (file->page->engine > 0)
        (void)printf(" engine %u", file->page->engine);
    (void)printf("  %s, since %s", program, since);
    if (file->rows_error != 0) {
        (void)putchar('\n');
        print_wrapped(uro_stat_rows_problem(file, problem), 4);
        return;
    }
    (void)printf("\n    %" PRIu32 " queue pair%s, %" PRIu32 " CQ%s, %" PRIu32 " memory key%s%s\n",
                 count[0], plural(count[0]), count[1], plural(count[1]), count[2], plural(count[2]),
                 file->rows.incomplete ? "; there are more" : "");
    if (objects == 0 || (objects & URO_STAT_QPS) != 0)
        print_qps(view, file, objects != 0);
    if (objects == 0 || (objects & URO_STAT_CQS) != 0)
        print_cqs(file, objects != 0);
    if (objects == 0 || (objects & URO_STAT_MRS) != 0)
        print_keys(file, objects != 0);
}

/* Prints at most @max devices: with @in_use the devices that a process uses, else the other
 * devices. Returns the number of devices of this kind. */
static uint32_t print_devices(const struct uro_stat_view *view, unsigned sections, bool in_use,
                              uint32_t max)
{
    struct uro_stat_device device = { 0 };
    uint32_t count = 0;

    while (uro_stat_next_device(view, &device)) {
        if ((device.alive > 0) != in_use || count++ >= max)
            continue;
        if (count > 1)
            (void)putchar('\n');
        print_device(&device, sections);
        for (uint32_t i = device.first; i < device.end; i++)
            if (uro_stat_shows(view, &view->now.files[i]))
                print_process(view, &view->now.files[i], sections);
    }
    return count;
}

void uro_stat_print_text(const struct uro_stat_view *view, unsigned sections)
{
    const uint32_t used = print_devices(view, sections, true, UINT32_MAX);
    const uint32_t max = view->filter.device != NULL || used == 0 ? SHORT_ROWS : 0;

    if (used > 0 && max > 0)
        (void)putchar('\n');
    const uint32_t unused = print_devices(view, sections, false, max);
    if (unused > max)
        (void)printf("\n%" PRIu32 " more device%s without a process now; `uroce stat DEVICE` shows "
                     "one\n",
                     unused - max, plural(unused - max));
}
