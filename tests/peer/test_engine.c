/* SPDX-License-Identifier: BSD-3-Clause */
/* test_engine.c - every script of this folder against uroce's own engine, in virtual time; writes TAP.
 *
 *     test_engine FILE.peer...
 */
#include <stdio.h>

#include "virtual.h"

#define SCRIPT_MAX 65536u
#define LINES_MAX  65536u

static char said[LINES_MAX];

static void keep(void *user, const char *line)
{
    const size_t used = strlen(said);

    (void)user;
    (void)snprintf(said + used, sizeof said - used, "# %s\n", line);
}

/* NULL when the script holds, else why not. */
static const char *play(const char *text, size_t length)
{
    static struct uro_script script;
    static char why[320];
    struct uro_script_problem problem;

    if (!uro_script_read(&script, text, length, &problem)) {
        (void)snprintf(why, sizeof why, "%u:%u: %s", problem.line, problem.column, problem.text);
        return why;
    }
    if (script.title.length == 0 || script.rules.length == 0)
        return "it has no title, or names no rule";
    struct virtual *v = virtual_open();
    const enum uro_play_result result = virtual_play(v, &script, keep, NULL);
    virtual_close(v);
    return result == URO_PLAY_HELD ? NULL : result == URO_PLAY_DEVIATED ? "deviated" : "not ended";
}

int main(int argc, char **argv)
{
    static char text[SCRIPT_MAX];
    int failed = 0;

    (void)printf("1..%d\n", argc - 1);
    for (int i = 1; i < argc; i++) {
        const char *name = strrchr(argv[i], '/') != NULL ? strrchr(argv[i], '/') + 1 : argv[i];
        FILE *file = fopen(argv[i], "r");
        if (file == NULL) {
            (void)printf("Bail out! %s cannot be read\n", argv[i]);
            return 1;
        }
        const size_t length = fread(text, 1, sizeof text, file);
        (void)fclose(file);
        said[0] = '\0';
        const char *why = play(text, length);
        (void)printf("%sok %d - %s\n", why != NULL ? "not " : "", i, name);
        if (why != NULL)
            (void)printf("# %s\n%s", why, said);
        failed += why != NULL;
    }
    return failed > 0;
}
