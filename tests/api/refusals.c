/* SPDX-License-Identifier: BSD-3-Clause */
/* refusals.c - see refusals.h. */
#include "api/refusals.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct uro_stats_refusal refusals_last, refusals_previous;

static void look(void *context, const struct uro_stats_file *file)
{
    (void)context;
    if (file->error == 0 && file->kind == URO_STATS_PROCESS && file->page->header.pid == getpid() &&
        strcmp(file->page->device, "uroce0") == 0) {
        (void)uro_stats_refusal(file->page, file->page->refusal_count, &refusals_last);
        (void)uro_stats_refusal(file->page, file->page->refusal_count - 1, &refusals_previous);
    }
}

void refusals_expect(const char *call, int error, const char *wanted)
{
    refusals_last = refusals_previous = (struct uro_stats_refusal){ 0 };
    assert_int_equal(uro_stats_read(geteuid(), look, NULL), 0);
    assert_string_equal(refusals_last.call, call);
    assert_int_equal(refusals_last.error, error);
    if (strstr(refusals_last.text, wanted) == NULL)
        fail_msg("\"%s\" does not contain \"%s\"", refusals_last.text, wanted);
}

/* Removes the files that the child process of the tests left. */
static void remove_all(const char *directory)
{
    DIR *list = opendir(directory);
    char path[512];

    for (const struct dirent *entry = list != NULL ? readdir(list) : NULL; entry != NULL;
         entry = readdir(list)) {
        (void)snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        (void)unlink(path);
    }
    if (list != NULL)
        (void)closedir(list);
    (void)rmdir(directory);
}

int refusals_run(const char *name, const struct CMUnitTest *tests, size_t count)
{
    int status = 1 << 8;
    char directory[] = "/tmp/uroce-test-refusal-XXXXXX";

    if (mkdtemp(directory) == NULL || setenv("UROCE_STATE_DIR", directory, 1) != 0)
        return 1;
    const pid_t child = fork(); /* the end of the child also ends its device */
    if (child == 0)
        exit(api_run(name, tests, count));
    (void)waitpid(child, &status, 0);
    remove_all(directory);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
