/* SPDX-License-Identifier: BSD-3-Clause */
/* why.c - `uroce why`: prints why queue pairs failed and calls were refused in the processes of a
 * user, and explains a vendor_err.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "app.h"
#include "base/utf8.h"
#include "core/cq.h"
#include "stats/failure_text.h"
#include "stats/reader.h"
#include "usage.h"

#define ITEMS_MAX   1024u /* maximum failures and refusals of all processes that are kept */
#define OTHERS_MAX  1024u /* maximum number of files whose counters are kept */
#define SHORT_ITEMS 10u   /* items that are shown without an argument */

static void help(void)
{
    (void)printf(
        "Usage: uroce why [ --user UID ] [ PID | DEVICE ]\n"
        "       uroce why 0xNN\n"
        "\n"
        "Prints why queue pairs failed and calls were refused, newest first, in processes that\n"
        "run and in the last 16 ended processes that had a failure or a refused call. For one\n"
        "process or device it also prints the last packets of each failed queue pair.\n"
        "\n"
        "  0xNN             explain this vendor_err of a completion\n"
        "  -u, --user UID   processes of this user, for root\n"
        "  -h, --help       print this help\n"
        "\n"
        "Exit status: 0 shown, 1 nothing can be shown, 2 wrong option.\n");
}

/* ---- collecting ----------------------------------------------------------------------- */

struct item {
    uint64_t time; /* wall clock, ns */
    int pid;
    bool alive, is_refusal;
    char program[URO_STATS_NAME_MAX], device[URO_STATS_NAME_MAX];
    union {
        struct uro_failure failure;
        struct uro_stats_refusal refusal;
    };
};

/* The counters of received packets that explain why a peer gets no answer. */
static const enum uro_counter drop_counters[] = { URO_COUNT_DROP_QPN, URO_COUNT_DROP_ADDRESS,
                                                  URO_COUNT_DROP_STATE, URO_COUNT_DROP_PKEY,
                                                  URO_COUNT_RX_FAR };

struct other {
    int pid;
    bool alive;
    char program[URO_STATS_NAME_MAX];
    uint32_t gid_count;
    struct uro_gid gids[URO_STATS_GIDS];
    uint64_t values[URO_ARRAY_LEN(drop_counters)];
};

/* At most ITEMS_MAX items, the newest. */
struct items {
    struct item *list;
    uint32_t count, left_out;
};

struct search {
    int pid;            /* 0: every process */
    const char *device; /* NULL: every device */
    struct items shown; /* of the process or the device */
    struct items ends;  /* failures of other processes and devices: ends of connections */
    struct other *others;
    uint32_t other_count;
    uint32_t processes; /* number of files of processes that match */
    uint32_t unreadable;
};

/* Returns the slot for an item with the time @time. Returns NULL if the slots are full and no kept
 * item is older. */
static struct item *slot_for(struct items *items, uint64_t time)
{
    struct item *oldest = &items->list[0];

    if (items->count < ITEMS_MAX)
        return &items->list[items->count++];
    items->left_out++;
    for (uint32_t i = 1; i < ITEMS_MAX; i++)
        if (items->list[i].time < oldest->time)
            oldest = &items->list[i];
    return oldest->time < time ? oldest : NULL;
}

static struct item *add_item(struct items *items, const struct uro_stats_file *file, uint64_t time,
                             bool is_refusal)
{
    struct item *item = slot_for(items, time);

    if (item == NULL)
        return NULL;
    item->time = time;
    item->pid = file->page->header.pid;
    item->alive = file->alive && file->kind == URO_STATS_PROCESS;
    item->is_refusal = is_refusal;
    memcpy(item->program, file->page->program, sizeof item->program);
    memcpy(item->device, file->page->device, sizeof item->device);
    return item;
}

static void add_failures(struct items *items, const struct uro_stats_file *file)
{
    const struct uro_record *record = &file->page->record;
    struct uro_failure failure;

    for (uint32_t i = 0; i < URO_RECORD_FAILURES; i++) {
        if (!uro_record_get(record, record->failures[i].number, &failure))
            continue;
        if (failure.packet_count > URO_FAILURE_PACKETS)
            failure.packet_count = URO_FAILURE_PACKETS;
        struct item *item = add_item(items, file, failure.time + file->page->clock_offset, false);
        if (item != NULL)
            item->failure = failure;
    }
}

static void add_refusals(struct items *items, const struct uro_stats_file *file)
{
    struct uro_stats_refusal refusal;

    for (uint32_t i = 0; i < URO_STATS_REFUSALS; i++) {
        if (!uro_stats_refusal(file->page, file->page->refusals[i].number, &refusal))
            continue;
        struct item *item = add_item(items, file, refusal.time, true);
        if (item != NULL)
            memcpy(&item->refusal, &refusal, sizeof refusal);
    }
}

static void add_other(struct search *search, const struct uro_stats_file *file)
{
    if (search->other_count == OTHERS_MAX)
        return;
    struct other *other = &search->others[search->other_count++];
    other->pid = file->page->header.pid;
    other->alive = file->alive && file->kind == URO_STATS_PROCESS;
    memcpy(other->program, file->page->program, sizeof other->program);
    other->gid_count = file->page->gid_count;
    memcpy(other->gids, file->page->gids, sizeof other->gids);
    for (size_t i = 0; i < URO_ARRAY_LEN(drop_counters); i++)
        other->values[i] = file->page->record.counters.value[drop_counters[i]];
}

static void see_unreadable(struct search *search, const struct uro_stats_file *file)
{
    const struct uro_stats_header *header = &file->page->header;
    char name[NAME_MAX + 1]; /* the user whose file it is chose the name */

    (void)snprintf(name, sizeof name, "%s", file->name);
    if (file->error == -EPROTO && (search->pid == 0 || search->pid == header->pid))
        (void)fprintf(stderr,
                      "uroce why: process %d uses uroce %s, but this is another build of uroce, "
                      "version %s; call the uroce that started the process\n",
                      header->pid, header->version, URO_VERSION);
    else if (file->error != -EPROTO && search->pid == 0)
        (void)fprintf(stderr,
                      "uroce why: %s/%s cannot be read: %s; remove it if it is not in use\n",
                      file->directory, uro_utf8_mask(name),
                      file->error == -EINVAL ? "not a file of uroce" : strerror(-file->error));
    search->unreadable++;
}

static void see_file(void *context, const struct uro_stats_file *file)
{
    struct search *search = context;

    if (file->kind != URO_STATS_PROCESS && file->kind != URO_STATS_KEPT)
        return;
    if (file->error != 0) {
        see_unreadable(search, file);
        return;
    }
    add_other(search, file);
    if ((search->pid != 0 && search->pid != file->page->header.pid) ||
        (search->device != NULL && strcmp(search->device, file->page->device) != 0)) {
        add_failures(&search->ends, file);
        return;
    }
    search->processes++;
    add_failures(&search->shown, file);
    add_refusals(&search->shown, file);
}

/* ---- printing -------------------------------------------------------------------------- */

static void print_time(uint64_t time)
{
    const time_t seconds = (time_t)(time / 1000000000u);
    struct tm parts;
    char text[32] = "?";

    if (localtime_r(&seconds, &parts) != NULL)
        (void)strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
    (void)printf("%s.%03u", text, (unsigned)(time / 1000000u % 1000u));
}

static void print_packets(const struct uro_failure *failure)
{
    char text[URO_FAILURE_TEXT_MAX], before[URO_DURATION_TEXT_MAX];

    if (failure->packet_count == 0)
        return;
    (void)printf("    last packets of the queue pair, with the time before the failure:\n");
    for (uint32_t i = 0; i < failure->packet_count; i++) {
        const struct uro_record_packet *packet = &failure->packets[i];
        const uint64_t ago = packet->time <= failure->time ? failure->time - packet->time : 0;
        (void)printf("    %10s  %-8s  %s\n", uro_failure_duration(ago, before),
                     uro_record_packet_sender(packet) != 0 ? "sent" : "received",
                     uro_failure_packet_text(packet, text));
    }
}

/* Prints the drop counters of the user's processes on this machine that have or had the peer's
 * address. */
static void print_peer(const struct search *search, const struct uro_failure *failure)
{
    for (uint32_t i = 0; i < search->other_count; i++) {
        const struct other *other = &search->others[i];
        bool is_peer = false;
        for (uint32_t gid = 0; gid < other->gid_count; gid++)
            is_peer |= uro_gid_equal(&other->gids[gid], &failure->peer);
        for (size_t k = 0; is_peer && k < URO_ARRAY_LEN(drop_counters); k++)
            if (other->values[k] != 0)
                (void)printf("    peer     process %d (%s%s) counted %" PRIu64 " packets: %s "
                             "(%s)\n",
                             other->pid, other->program, other->alive ? "" : ", ended",
                             other->values[k], uro_counter_text(drop_counters[k]),
                             uro_counter_name(drop_counters[k]));
    }
}

/* Returns the failure of the other end of the connection, or NULL if it is not among the items. */
static const struct item *find_other_end(const struct items *items,
                                         const struct uro_failure *failure)
{
    for (uint32_t i = 0; i < items->count; i++) {
        const struct item *item = &items->list[i];
        if (!item->is_refusal && item->failure.qpn == failure->peer_qpn &&
            item->failure.peer_qpn == failure->qpn &&
            uro_gid_equal(&item->failure.address, &failure->peer))
            return item;
    }
    return NULL;
}

/* Prints the failure of the other end of the connection, if a process of the user recorded it. */
static void print_other_end(const struct search *search, const struct uro_failure *failure)
{
    char text[URO_FAILURE_TEXT_MAX];
    const struct item *item = find_other_end(&search->shown, failure);

    if (item == NULL)
        item = find_other_end(&search->ends, failure);
    if (item != NULL)
        (void)printf("    peer     process %d (%s): %s\n", item->pid, item->program,
                     uro_failure_text(&item->failure, text));
}

static void print_failure(const struct search *search, const struct uro_failure *failure,
                          bool whole)
{
    const struct uro_failure_reason *reason = uro_failure_reason(failure->reason);
    char text[URO_FAILURE_TEXT_MAX], own[URO_GID_TEXT_MAX], peer[URO_GID_TEXT_MAX];

    (void)printf("  QP 0x%x %s: %s\n", failure->qpn, failure->waits ? "waits" : "failed",
                 uro_failure_text(failure, text));
    (void)printf("    do       %s\n", uro_failure_mend(failure));
    (void)printf("    reason   vendor_err 0x%x: %s\n", failure->reason,
                 reason != NULL ? reason->text : "unknown");
    print_other_end(search, failure);
    if (failure->reason == URO_FAIL_NO_ANSWER)
        print_peer(search, failure);
    if (!whole)
        return;
    (void)printf("    path     %s to %s, QP 0x%x, path MTU %u\n",
                 uro_gid_text(&failure->address, own), uro_gid_text(&failure->peer, peer),
                 failure->peer_qpn, failure->path_mtu);
    if (failure->known & URO_KNOWN_REQUEST)
        (void)printf("    request  wr_id 0x%" PRIx64 ", %u bytes, status %u\n", failure->wr_id,
                     failure->length, failure->status);
    (void)printf("    PSN      oldest unacknowledged %u, next %u, expected from the peer %u\n",
                 failure->oldest_psn, failure->next_psn, failure->expected_psn);
    (void)printf("    set      timeout %u, retry_cnt %u, rnr_retry %u, max_rd_atomic %u, "
                 "max_dest_rd_atomic %u, qp_access_flags 0x%x\n",
                 failure->timeout, failure->retry_count, failure->rnr_retry, failure->max_rd_atomic,
                 failure->max_dest_rd_atomic, failure->rights);
    print_packets(failure);
}

static void print_refusal(const struct uro_stats_refusal *refusal)
{
    if (refusal->error == 0) /* an event or a signal of fail=: the call itself succeeds */
        (void)printf("  %s: %s\n", refusal->call, refusal->text);
    else
        (void)printf("  %s %s (%s): %s\n", refusal->call,
                     refusal->error == ETIMEDOUT || refusal->error == ECONNREFUSED ? "failed"
                                                                                   : "refused",
                     strerror(refusal->error), refusal->text);
    if (refusal->repeats > 0)
        (void)printf("    repeated %u times\n", refusal->repeats);
}

static int newer_first(const void *a, const void *b)
{
    const uint64_t left = ((const struct item *)a)->time, right = ((const struct item *)b)->time;

    return left < right ? 1 : left > right ? -1 : 0;
}

static void print_items(const struct search *search)
{
    const bool whole = search->pid != 0 || search->device != NULL;
    const struct items *items = &search->shown;
    const uint32_t shown = whole || items->count < SHORT_ITEMS ? items->count : SHORT_ITEMS;

    qsort(items->list, items->count, sizeof *items->list, newer_first);
    for (uint32_t i = 0; i < shown; i++) {
        const struct item *item = &items->list[i];
        print_time(item->time);
        (void)printf("  %s  process %d (%s%s)\n", item->device, item->pid, item->program,
                     item->alive ? "" : ", ended");
        if (item->is_refusal)
            print_refusal(&item->refusal);
        else
            print_failure(search, &item->failure, whole);
    }
    if (items->count + items->left_out > shown)
        (void)printf("%u older items are not shown; name a process or a device\n",
                     items->count + items->left_out - shown);
    else if (shown > 0 && !whole)
        (void)printf("`uroce why PID` also shows the packets.\n");
}

/* ---- the command ------------------------------------------------------------------------ */

static int explain(const char *text)
{
    char *end;
    const unsigned long number = strtoul(text + 2, &end, 16);
    const struct uro_failure_reason *reason =
        number <= UINT32_MAX ? uro_failure_reason((uint32_t)number) : NULL;

    if (*end != '\0' || end == text + 2 || reason == NULL) {
        (void)fprintf(stderr,
                      "uroce why: %s is not a vendor_err of uroce: name one from 0x0 to 0x%x\n",
                      text, URO_FAIL_REASON_COUNT - 1);
        return 1;
    }
    (void)printf("vendor_err 0x%lx (%lu): %s\n", number, number, reason->text);
    (void)printf("  usual causes  %s\n", reason->causes);
    if (reason->mend[0] != '\0')
        (void)printf("  what to do    %s\n", reason->mend);
    return 0;
}

static int report_error(uid_t uid, int error)
{
    if (error == -ENOENT)
        (void)fprintf(
            stderr,
            "uroce why: no process of user %u has run a device of uroce since the machine "
            "started%s\n",
            (unsigned)uid, uid == geteuid() ? "; see --user for other users" : "");
    else
        (void)fprintf(stderr,
                      "uroce why: the state of the processes of user %u cannot be read: %s; only "
                      "the user and root may read it\n",
                      (unsigned)uid, strerror(-error));
    return 1;
}

/* Explains that there is nothing to show. */
static int report_nothing(const struct search *search)
{
    if (search->processes > 0 || (search->pid == 0 && search->device == NULL)) {
        (void)printf("No queue pair has failed, and no call was refused.\n");
        return search->unreadable > 0;
    }
    if (search->device != NULL)
        (void)fprintf(stderr, "uroce why: no process that is recorded runs a device \"%s\"\n",
                      search->device);
    else if (search->unreadable == 0)
        (void)fprintf(
            stderr,
            "uroce why: process %d is not recorded: it runs no device, or ended without a "
            "failure, or 16 other processes with failures ended later; `uroce why 0x%x` explains a "
            "vendor_err\n",
            search->pid, (unsigned)search->pid);
    return 1;
}

static int search_and_print(uid_t uid, int pid, const char *device)
{
    struct search search = { .pid = pid,
                             .device = device,
                             .shown.list = calloc(ITEMS_MAX, sizeof *search.shown.list),
                             .ends.list = calloc(ITEMS_MAX, sizeof *search.ends.list),
                             .others = calloc(OTHERS_MAX, sizeof *search.others) };
    int status = 0;

    if (search.shown.list == NULL || search.ends.list == NULL || search.others == NULL) {
        (void)fprintf(stderr, "uroce why: out of memory\n");
        status = 1;
    } else {
        const int error = uro_stats_read(uid, see_file, &search);
        if (error != 0)
            status = report_error(uid, error);
        else if (search.shown.count == 0)
            status = report_nothing(&search);
        else
            print_items(&search);
    }
    free(search.shown.list);
    free(search.ends.list);
    free(search.others);
    return status;
}

/* Reads a user number. */
static bool read_uid(const char *text, uid_t *uid)
{
    char *end;

    errno = 0;
    const unsigned long number = strtoul(text, &end, 10);
    *uid = (uid_t)number;
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && number < UINT32_MAX;
}

int uro_app_why(int argc, char **argv)
{
    static const struct option options[] = { { "user", required_argument, NULL, 'u' },
                                             { "help", no_argument, NULL, 'h' },
                                             { NULL, 0, NULL, 0 } };
    uid_t uid = geteuid();
    int option, pid;

    while ((option = uro_usage_option(argc, argv, "u:h", options)) != -1) {
        if (option == 'h') {
            help();
            return 0;
        }
        if (option == '?')
            return URO_USAGE_STATUS;
        if (!read_uid(optarg, &uid)) {
            (void)fprintf(stderr, "uroce why: --user must be the number of a user, as `id -u` "
                                  "prints it\n");
            return URO_USAGE_STATUS;
        }
    }
    const char *what = argv[optind];
    if (what != NULL && argv[optind + 1] != NULL)
        return uro_usage_error(argv[0], "\"%s\": only one process or device can be named",
                               argv[optind + 1]);
    if (what != NULL && what[0] == '0' && what[1] == 'x')
        return explain(what);
    if (what != NULL && what[strspn(what, "0123456789")] == '\0')
        return uro_usage_pid(argv[0], "", what, &pid) ? search_and_print(uid, pid, NULL)
                                                      : URO_USAGE_STATUS;
    return search_and_print(uid, 0, what);
}
