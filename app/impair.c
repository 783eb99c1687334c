/* SPDX-License-Identifier: BSD-3-Clause */
/* impair.c - `uroce impair`: shows or changes the plan of impair= in running processes. */
#define _GNU_SOURCE /* O_CLOEXEC, O_NOFOLLOW */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "app.h"
#include "base/utf8.h"
#include "impair/plan.h"
#include "io/impair/port.h"
#include "stats/directory.h"
#include "stats/impair_page.h"
#include "stats/reader.h"
#include "usage.h"

#define FILES_MAX     1024u
#define APPLIED_TRIES 500u /* maximum number of naps until a process uses the new plan */
#define NAP_NS        10000000L

static void help(void)
{
    (void)printf(
        "Usage: uroce impair [ --pid PID ] DEVICE [ show | off | PLAN | @FILE ]\n"
        "\n"
        "Shows or changes the faults of a device in the processes that run it. The device must\n"
        "have been started with impair=, for example impair=off. docs/IMPAIR.md explains plans.\n"
        "\n"
        "  show             print the plan and how many packets it affected; the default\n"
        "  off              remove all faults\n"
        "  PLAN             replace the plan, such as loss:0.5%%,delay:50us+-10us\n"
        "  @FILE            replace the plan by the plan in a file\n"
        "  -p, --pid PID    only in this process\n"
        "  -h, --help       print this help\n"
        "\n"
        "Exit status: 0 shown or changed, 1 no such process, 2 wrong option or plan.\n");
}

/* A file of a process that runs the device. */
struct found {
    char directory[URO_STATS_PATH_MAX];
    char name[256];
    char program[URO_STATS_NAME_MAX], device[URO_STATS_NAME_MAX];
    int pid;
};

struct search {
    const char *device;
    int pid; /* 0: every process */
    struct found *files;
    uint32_t count;
};

static void see_file(void *context, const struct uro_stats_file *file)
{
    struct search *search = context;

    if (file->kind != URO_STATS_PROCESS || file->error != 0 || !file->alive ||
        strcmp(file->page->device, search->device) != 0 ||
        (search->pid != 0 && search->pid != file->page->header.pid) || search->count == FILES_MAX)
        return;
    struct found *found = &search->files[search->count++];
    (void)snprintf(found->directory, sizeof found->directory, "%s", file->directory);
    (void)snprintf(found->name, sizeof found->name, "%s", file->name);
    memcpy(found->program, file->page->program, sizeof found->program);
    memcpy(found->device, file->page->device, sizeof found->device);
    found->pid = file->page->header.pid;
}

/* Maps the page of a process. Returns NULL with errno. */
static struct uro_stats_page *map(const struct found *found)
{
    char path[URO_STATS_PATH_MAX + sizeof found->name];

    (void)snprintf(path, sizeof path, "%s/%s", found->directory, found->name);
    const int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return NULL;
    void *page =
        mmap(NULL, sizeof(struct uro_stats_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    return page != MAP_FAILED ? page : NULL;
}

/* Prints the plan and the counters of a process. */
static int show(const struct found *found, const struct uro_stats_page *page)
{
    static const char *const names[] = {
#define X(id, name) name,
        URO_IMPAIR_COUNTS_X(X)
#undef X
    };
    char text[URO_STATS_IMPAIR_MAX];
    unsigned seen;

    for (unsigned i = 0; !uro_stats_impair_read(&page->impair, &seen, text); i++)
        if (i == APPLIED_TRIES * 1000)
            (void)snprintf(text, sizeof text, "changes all the time");
    text[strcspn(text, "\n")] = '\0'; /* the first line of a file */
    (void)printf("%s  process %d (%s)  %s\n", found->device, found->pid, found->program,
                 uro_utf8_mask(text));
    for (size_t i = 0; i < URO_ARRAY_LEN(names); i++)
        (void)printf("%s%s %" PRIu64, i == 0 ? "  " : ", ", names[i],
                     (uint64_t)page->impair.counts[i]);
    (void)printf("\n");
    return 0;
}

/* Changes the plan of a process, and waits until the process uses it. */
static int change(const struct found *found, struct uro_stats_page *page, const char *text)
{
    const struct timespec nap = { .tv_nsec = NAP_NS };
    const unsigned written = uro_stats_impair_write(&page->impair, text);

    for (unsigned i = 0; i < APPLIED_TRIES; i++) {
        /* Another change may have followed, so the number may be higher. */
        if ((int)(atomic_load(&page->impair.applied) - written) >= 0)
            return 0;
        (void)nanosleep(&nap, NULL);
    }
    (void)fprintf(stderr,
                  "uroce impair: process %d (%s) has the plan, but has not used it for 5 s; it may "
                  "be stopped or have ended\n",
                  found->pid, found->program);
    return 1;
}

/* Shows the plan of one process, or changes it if @text is not NULL. */
static int show_or_change(const struct found *found, const char *text)
{
    struct uro_stats_page *page = map(found);
    int status = 1;

    if (page == NULL) {
        (void)fprintf(stderr, "uroce impair: %s/%s: %s; the process may have ended\n",
                      found->directory, found->name, strerror(errno));
        return 1;
    }
    if (atomic_load(&page->impair.sequence) == 0)
        (void)fprintf(stderr,
                      "uroce impair: process %d (%s) runs %s without impair=; start it with "
                      "impair=off to change its faults later\n",
                      found->pid, found->program, found->device);
    else
        status = text == NULL ? show(found, page) : change(found, page, text);
    (void)munmap(page, sizeof *page);
    return status;
}

/* Reads the file of a plan. Returns false after a message. */
static bool read_file(const char *path, char text[static URO_IMPAIR_TEXT_MAX])
{
    FILE *file = fopen(path, "re");

    if (file == NULL) {
        (void)fprintf(stderr, "uroce impair: %s: %s\n", path, strerror(errno));
        return false;
    }
    const size_t used = fread(text, 1, URO_IMPAIR_TEXT_MAX, file);
    const bool failed = ferror(file) != 0;
    (void)fclose(file);
    if (failed || used == URO_IMPAIR_TEXT_MAX) {
        (void)fprintf(stderr, "uroce impair: %s: %s\n", path,
                      failed ? "cannot be read" : "is longer than 4095 characters");
        return false;
    }
    text[used] = '\0';
    return true;
}

/* Reads and checks a plan. Returns false after a message. */
static bool read_plan(const char *word, char text[static URO_IMPAIR_TEXT_MAX])
{
    struct uro_impair_plan plan;
    char error[URO_IMPAIR_ERROR_MAX];

    if (word[0] == '@') {
        if (!read_file(word + 1, text))
            return false;
    } else if (snprintf(text, URO_IMPAIR_TEXT_MAX, "%s", word) >= (int)URO_IMPAIR_TEXT_MAX) {
        (void)fprintf(stderr, "uroce impair: the plan is longer than 4095 characters\n");
        return false;
    }
    if (uro_impair_plan_parse(&plan, text, error) == 0)
        return true;
    (void)fprintf(stderr, "uroce impair: %s%s%s\n", word[0] == '@' ? word + 1 : "",
                  word[0] == '@' ? ": " : "", error);
    return false;
}

/* Shows the plans of all processes of the device, or changes them if @text is not NULL. */
static int show_or_change_all(const char *device, int pid, const char *text)
{
    struct search search = { .device = device,
                             .pid = pid,
                             .files = calloc(FILES_MAX, sizeof *search.files) };
    int status = 0;

    if (search.files == NULL) {
        (void)fprintf(stderr, "uroce impair: out of memory\n");
        return 1;
    }
    (void)!uro_stats_read(geteuid(), see_file, &search);
    for (uint32_t i = 0; i < search.count; i++)
        status |= show_or_change(&search.files[i], text);
    if (search.count == 0) {
        (void)fprintf(stderr,
                      "uroce impair: no %s of this user runs a device \"%s\"; `uroce stat` lists "
                      "the running devices\n",
                      pid != 0 ? "such process" : "process", device);
        status = 1;
    }
    free(search.files);
    return status;
}

int uro_app_impair(int argc, char **argv)
{
    static const struct option options[] = { { "pid", required_argument, NULL, 'p' },
                                             { "help", no_argument, NULL, 'h' },
                                             { NULL, 0, NULL, 0 } };
    static char text[URO_IMPAIR_TEXT_MAX];
    int option, pid = 0;

    while ((option = uro_usage_option(argc, argv, "+p:h", options)) != -1) {
        if (option == 'h') {
            help();
            return 0;
        }
        if (option != 'p' || !uro_usage_pid(argv[0], "--pid ", optarg, &pid))
            return URO_USAGE_STATUS;
    }
    if (argc == optind)
        return uro_usage_error(argv[0], "no DEVICE is given");
    if (argc - optind > 2)
        return uro_usage_error(argv[0], "\"%s\": only one plan can be given", argv[optind + 2]);
    const char *device = argv[optind], *word = argv[optind + 1];
    if (word == NULL || strcmp(word, "show") == 0)
        return show_or_change_all(device, pid, NULL);
    return read_plan(word, text) ? show_or_change_all(device, pid, text) : 2;
}
