/* SPDX-License-Identifier: BSD-3-Clause */
/* chaos.c - see chaos.h. */
#define _GNU_SOURCE /* asprintf, sigabbrev_np */
#include "chaos.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/defs.h"
#include "command.h"
#include "output.h"

#define TIMEOUT_LEAST 30u /* time limit of a run with faults: this many seconds, ... */
#define SLOWER        20u /* ... plus this multiple of the time without faults */
#define LINE_SHOWN    60
#define STATUS_SIGNAL 128 /* a shell adds this to the number of the signal that ended a command */

static const struct plan {
    const char *name;
    const char *keys; /* keys that are added to the device */
} plans[] = {
    { "1 % of the packets lost", "impair=loss:1%,seed:1" },
    { "losses in bursts", "impair=burst:0.2%:25%,seed:1" },
    { "every 100th request lost", "impair=only:requests,every:100" },
    { "every 100th ACK lost", "impair=only:acks,every:100" },
    { "a fifth of the CM messages lost", "impair=only:cm,loss:20%,seed:1" },
    { "duplicates and reordering", "impair=duplicate:5%,reorder:5%,seed:1" },
    { "1 % of the packets corrupted", "impair=corrupt:1%,seed:1" },
    { "a slow peer: 1 ms later", "impair=delay:1ms+-500us,seed:1" },
    { "a link of 200 Mb/s", "impair=rate:200Mbit,queue:1MB" },
    { "2 % of the packets marked CE", "impair=ce:2%,seed:1" },
    { "port down for 0.2 s each second", "impair=flap:300ms+200ms:1s" },
    { "no packets for 2 s", "impair=down:300ms+2s" },
    { "no packets after 0.3 s", "impair=down:300ms+1000s" },
    { "no receive for every 3rd message", "fail=rnr:*3" },
    { "killed at the 10th post",
      "fail=ibv_post_send:10:SIGKILL,ibv_wr_complete:10:SIGKILL,ibv_post_recv:10:SIGKILL" },
    { "CQ overflows at the 5th poll",
      "fail=ibv_poll_cq:5:IBV_EVENT_CQ_ERR,ibv_start_poll:5:IBV_EVENT_CQ_ERR" },
    { "ibv_reg_mr fails: ENOMEM", "fail=ibv_reg_mr:1+:ENOMEM" },
    { "ibv_create_qp fails: ENOMEM", "fail=ibv_create_qp:1+:ENOMEM" },
    { "the 5th post fails: ENOMEM",
      "fail=ibv_post_send:5:ENOMEM,ibv_wr_complete:5:ENOMEM,ibv_post_recv:5:ENOMEM" },
    { "GID change at the 5th post",
      "fail=ibv_post_send:5:IBV_EVENT_GID_CHANGE,ibv_wr_complete:5:IBV_EVENT_GID_CHANGE,"
      "ibv_post_recv:5:IBV_EVENT_GID_CHANGE" },
};

/* ---- the devices ------------------------------------------------------------------ */

/* Returns the length of the description of the first device in @devices. */
static size_t first_length(const char *devices)
{
    return strcspn(devices, " \t\n");
}

static bool has_key(const char *devices, const char *key)
{
    const char *at = strstr(devices, key);

    return at != NULL && (size_t)(at - devices) < first_length(devices);
}

/* Returns the devices with @keys added to the first one, or NULL when out of memory. */
static char *with_keys(const char *devices, const char *keys)
{
    const size_t first = first_length(devices);
    char *made = NULL;

    if (asprintf(&made, "%.*s;%s%s", (int)first, devices, keys, devices + first) < 0)
        return NULL;
    return made;
}

/* Returns why these devices cannot get faults, or NULL. */
static const char *refusal(const char *devices)
{
    if (devices == NULL)
        return "--chaos changes the description of the first --device; it cannot change a file of "
               "--config";
    if (has_key(devices, ";impair=") || has_key(devices, ";fail="))
        return "--chaos writes impair= and fail= of the first device itself; leave them out";
    return NULL;
}

/* ---- runs --------------------------------------------------------------------------- */

/* Copies the last line of the output that is not empty to @line. */
static void last_line(FILE *output, char *line, size_t size)
{
    char each[512];

    line[0] = '\0';
    rewind(output);
    while (fgets(each, sizeof each, output) != NULL) {
        each[strcspn(each, "\r\n")] = '\0';
        if (each[0] != '\0')
            (void)snprintf(line, size, "%.*s", (int)size - 1, each);
    }
    for (char *at = line; *at != '\0'; at++)
        if (*at < ' ' || *at > '~')
            *at = ' ';
}

static int signal_of(int status)
{
    if (WIFSIGNALED(status))
        return WTERMSIG(status);
    return WIFEXITED(status) && WEXITSTATUS(status) > STATUS_SIGNAL
               ? WEXITSTATUS(status) - STATUS_SIGNAL
               : 0;
}

/* Writes the result of the run in one or two words. Returns whether the command is at fault. */
static bool judge(const struct plan *plan, const struct uro_command_end *end, char word[static 24])
{
    const int number = signal_of(end->status);
    const char *name = number > 0 ? sigabbrev_np(number) : NULL;

    if (end->slow) {
        (void)snprintf(word, 24, "hung");
        return true;
    }
    if (number == SIGKILL && strstr(plan->keys, "SIGKILL") != NULL) {
        (void)snprintf(word, 24, "killed");
        return false;
    }
    if (name != NULL) {
        (void)snprintf(word, 24, "crashed: SIG%s", name);
        return true;
    }
    if (WEXITSTATUS(end->status) == 0)
        (void)snprintf(word, 24, "passed");
    else
        (void)snprintf(word, 24, "reported: %d", WEXITSTATUS(end->status));
    return false;
}

/* Runs the command once. Returns false after a message when it cannot be run. */
static bool run_once(char *const *words, const char *devices, unsigned timeout_s,
                     struct uro_command_end *end, char *line, size_t size)
{
    FILE *output = tmpfile();

    if (devices == NULL || output == NULL) {
        (void)fprintf(stderr, "uroce run: --chaos: %s\n",
                      devices == NULL ? "out of memory" : "no temporary file can be written");
        if (output != NULL)
            (void)fclose(output);
        return false;
    }
    const struct uro_command command = { .words = words,
                                         .variable = "UROCE_DEVICES",
                                         .value = devices,
                                         .timeout_s = timeout_s,
                                         .output = fileno(output) };
    *end = uro_command_run(&command);
    last_line(output, line, size);
    (void)fclose(output);
    if (end->error == 0)
        return true;
    (void)fprintf(stderr, "uroce run: --chaos: cannot run %s: %s\n", words[0],
                  strerror(end->error));
    return false;
}

/* Runs the command without faults. Returns the time limit of the other runs in seconds, or 0 after
 * a message. */
static unsigned run_without_faults(char *const *words, const char *devices, unsigned timeout_s)
{
    struct uro_command_end end;
    char line[512];

    if (!run_once(words, devices, timeout_s, &end, line, sizeof line))
        return 0;
    if (end.slow || !WIFEXITED(end.status) || WEXITSTATUS(end.status) != 0) {
        (void)fprintf(stderr,
                      "uroce run: --chaos: the command already %s without faults, so faults would "
                      "show nothing; its last line: %s\n",
                      end.slow ? "takes too long" : "fails", line);
        return 0;
    }
    const unsigned chosen = TIMEOUT_LEAST + SLOWER * (unsigned)end.seconds;
    const unsigned limit = timeout_s != 0 ? timeout_s : chosen;
    (void)printf("%-34s  %-16s  %6.1f s\n", "no faults", "passed", end.seconds);
    (void)uro_output_flush();
    return limit;
}

int uro_chaos(char *const *words, unsigned timeout_s)
{
    const char *given = getenv("UROCE_DEVICES");
    const char *wrong = refusal(given);
    unsigned faults = 0;

    if (wrong != NULL) {
        (void)fprintf(stderr, "uroce run: %s\n", wrong);
        return 2;
    }
    char *devices = strdup(given);
    const unsigned limit = run_without_faults(words, devices, timeout_s);
    for (size_t i = 0; limit > 0 && i < URO_ARRAY_LEN(plans); i++) {
        struct uro_command_end end;
        char line[512], word[24];
        char *faulty = with_keys(devices, plans[i].keys);
        const bool ran = run_once(words, faulty, limit, &end, line, sizeof line);
        free(faulty);
        if (!ran) {
            free(devices);
            return 2;
        }
        faults += judge(&plans[i], &end, word);
        (void)printf("%-34s  %-16s  %6.1f s  %.*s\n", plans[i].name, word, end.seconds, LINE_SHOWN,
                     line);
        (void)uro_output_flush();
    }
    free(devices);
    if (limit == 0)
        return 2;
    (void)printf("%u of %zu plans made the command hang or crash\n", faults, URO_ARRAY_LEN(plans));
    return faults > 0;
}
