/* SPDX-License-Identifier: BSD-3-Clause */
/* test_engine.c - plays every script of this folder against uroce's own engine, in virtual time.
 * Writes TAP.
 *
 *     test_engine FILE.peer...
 *
 * For each rule, at least one script that names it must run the engine's line with the mark of the
 * rule (base/mark.h). The last case checks that, except for the rules in unmarked[]. Because of
 * this check, tools/conformance counts a script as a test of its rules.
 */
#include <stdio.h>

#include "base/mark.h"
#include "virtual.h"

#define SCRIPT_MAX 65536u
#define LINES_MAX  65536u

#define RULES_MAX 512u
#define RULE_MAX  48u

/* Rules whose mark no script hits. They have no mark, or the scripts test the other side, or the
 * scripts test forbidden behaviour. */
static const char *const unmarked[] = {
    "CM.HEARD",       "CM.REJ.SAID", "CM.REQ",          "CM.SERVICE",       "CM.SIDR.REQ",
    "IP.LIBERAL",     "PSN.ARITH",   "REQ.ACK.PARTIAL", "REQ.ATOMIC.ORDER", "RSP.ACK.COALESCED",
    "RSP.INVALIDATE", "RSP.RNR.IMM", "TX.MIGREQ",       "WIRE.OPCODES",     "WIRE.RESERVED",
};

static char said[LINES_MAX];

struct named_rule {
    char name[RULE_MAX];
    bool hit; /* at least one script that names the rule has hit its mark */
};

static struct named_rule named[RULES_MAX];
static uint32_t named_count;

static struct named_rule *rule_of(const char *name, size_t length)
{
    for (uint32_t i = 0; i < named_count; i++)
        if (strlen(named[i].name) == length && memcmp(named[i].name, name, length) == 0)
            return &named[i];
    URO_ASSERT(named_count < RULES_MAX && length < RULE_MAX);
    memcpy(named[named_count].name, name, length);
    return &named[named_count++];
}

/* Records which of the rules @rules the last script has hit. Spaces or commas separate the
 * rules. */
static void note_rules(const struct uro_script_text *rules)
{
    for (uint32_t at = 0; at < rules->length;) {
        size_t length = strcspn(rules->start + at, ", \r\n#");
        if (length > rules->length - at)
            length = rules->length - at;
        if (length > 0) {
            struct named_rule *rule = rule_of(rules->start + at, length);
            rule->hit |= uro_mark_hit(rule->name);
        }
        at += (uint32_t)length + 1;
    }
}

static bool is_unmarked(const char *name)
{
    for (size_t i = 0; i < URO_ARRAY_LEN(unmarked); i++)
        if (strcmp(unmarked[i], name) == 0)
            return true;
    return false;
}

/* Returns the number of rules that contradict the list above. */
static int check_rules(void)
{
    int wrong = 0;

    for (uint32_t i = 0; i < named_count; i++) {
        if (named[i].hit != is_unmarked(named[i].name))
            continue;
        (void)printf("# %s: %s\n", named[i].name,
                     named[i].hit ? "has a mark that a script hits: remove the rule from the list"
                                  : "no script that names it hits its mark");
        wrong++;
    }
    return wrong;
}

static void keep(void *user, const char *line)
{
    const size_t used = strlen(said);

    (void)user;
    (void)snprintf(said + used, sizeof said - used, "# %s\n", line);
}

/* Plays the script. Returns NULL if it passes, else the reason. */
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
        return "the script has no title, or names no rule";
    uro_mark_clear();
    struct virtual *v = virtual_open();
    const enum uro_play_result result = virtual_play(v, &script, keep, NULL);
    virtual_close(v);
    note_rules(&script.rules);
    return result == URO_PLAY_HELD ? NULL : result == URO_PLAY_DEVIATED ? "deviated" : "not ended";
}

int main(int argc, char **argv)
{
    static char text[SCRIPT_MAX];
    int failed = 0;

    (void)printf("1..%d\n", argc);
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
    const int wrong = check_rules();
    (void)printf("%sok %d - each rule is hit by a script that names it\n", wrong > 0 ? "not " : "",
                 argc);
    return failed + wrong > 0;
}
