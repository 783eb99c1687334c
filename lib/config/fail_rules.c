/* SPDX-License-Identifier: BSD-3-Clause */
/* fail_rules.c - see fail_rules.h. */
#define _GNU_SOURCE /* strerrorname_np, sigabbrev_np */
#include "config/fail_rules.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ERRNO_MAX 200
#define WORD_MAX  40u

enum object { OBJECT_DEVICE, OBJECT_QP, OBJECT_CQ, OBJECT_RECEIVE };

static const struct call {
    const char *name;
    enum object object;
} calls[URO_INJECT_CALLS] = {
#define X(id, text, kind) [URO_INJECT_CALL_##id] = { .name = text, .object = OBJECT_##kind },
    URO_INJECT_CALLS_X(X)
#undef X
};

static const struct event {
    const char *name;
    enum uro_inject_event event;
    enum object object;
    const char *needs; /* verbs that can raise the event */
} events[] = {
    { "IBV_EVENT_CQ_ERR", URO_INJECT_EVENT_CQ_ERR, OBJECT_CQ,
      "a verb with a CQ: ibv_poll_cq, ibv_start_poll, ibv_req_notify_cq or ibv_resize_cq" },
    { "IBV_EVENT_QP_FATAL", URO_INJECT_EVENT_QP_FATAL, OBJECT_QP,
      "a verb with a QP, such as ibv_post_send" },
    { "IBV_EVENT_GID_CHANGE", URO_INJECT_EVENT_GID_CHANGE, OBJECT_DEVICE, "a verb" },
};

const char *uro_inject_name(enum uro_inject_call call)
{
    return calls[call].name;
}

/* ---- parsing ---------------------------------------------------------------------- */

/* Copies the text up to one of the characters @ends, or up to its end. Returns a pointer to that
 * character or end. Cuts off a word that is too long. */
static const char *take_word(const char *text, const char *ends, char word[static WORD_MAX])
{
    const size_t length = strcspn(text, ends);

    (void)snprintf(word, WORD_MAX, "%.*s", (int)length, text);
    return text + length;
}

static bool find_call(struct uro_inject_rule *rule, const char *name)
{
    for (unsigned i = 0; i < URO_INJECT_CALLS; i++)
        if (strcmp(calls[i].name, name) == 0) {
            rule->call = (enum uro_inject_call)i;
            return true;
        }
    return false;
}

/* Reads "3", "3+" or "*3". */
static bool read_which(struct uro_inject_rule *rule, const char *text)
{
    const bool repeats = text[0] == '*';
    const char *digits = text + repeats;
    char *end;
    const unsigned long number = strtoul(digits, &end, 10);

    if (digits[0] < '0' || digits[0] > '9' || number < 1 || number > URO_INJECT_COUNT_MAX)
        return false;
    rule->first = (uint32_t)number;
    rule->every = repeats ? (uint32_t)number : 0;
    if (!repeats && *end == '+') {
        rule->every = 1;
        end++;
    }
    return *end == '\0';
}

static bool find_error(struct uro_inject_rule *rule, const char *name)
{
    for (int i = 1; i < ERRNO_MAX; i++) {
        const char *known = strerrorname_np(i);
        if (known != NULL && strcmp(known, name) == 0) {
            rule->kind = URO_INJECT_KIND_ERROR;
            rule->number = i;
            return true;
        }
    }
    return false;
}

static bool find_signal(struct uro_inject_rule *rule, const char *name)
{
    for (int i = 1; strncmp(name, "SIG", 3) == 0 && i < NSIG; i++) {
        const char *known = sigabbrev_np(i);
        if (known != NULL && strcmp(known, name + 3) == 0) {
            rule->kind = URO_INJECT_KIND_SIGNAL;
            rule->number = i;
            return true;
        }
    }
    return false;
}

static bool find_event(struct uro_inject_rule *rule, const char *name, const char **needs)
{
    for (size_t i = 0; i < URO_ARRAY_LEN(events); i++) {
        if (strcmp(events[i].name, name) != 0)
            continue;
        rule->kind = URO_INJECT_KIND_EVENT;
        rule->number = (int)events[i].event;
        if (events[i].object != OBJECT_DEVICE && events[i].object != calls[rule->call].object)
            *needs = events[i].needs;
        return true;
    }
    return false;
}

/* Reads the effect of a rule. Returns NULL, or the error message in @error. */
static const char *read_what(struct uro_inject_rule *rule, const char *what,
                             char error[static URO_INJECT_ERROR_MAX])
{
    const char *needs = NULL;

    if (find_error(rule, what) || find_signal(rule, what))
        return NULL;
    if (!find_event(rule, what, &needs)) {
        (void)snprintf(error, URO_INJECT_ERROR_MAX,
                       "\"%s\" must be an error such as ENOMEM, a signal such as SIGKILL, "
                       "IBV_EVENT_CQ_ERR, IBV_EVENT_QP_FATAL or IBV_EVENT_GID_CHANGE",
                       what);
        return error;
    }
    if (needs == NULL)
        return NULL;
    (void)snprintf(error, URO_INJECT_ERROR_MAX, "%s: %s needs %s", uro_inject_name(rule->call),
                   what, needs);
    return error;
}

/* Reads one rule. Returns NULL, or the error message, for which @error has room. */
static const char *read_rule(struct uro_inject_rule *rule, const char **text,
                             char error[static URO_INJECT_ERROR_MAX])
{
    char name[WORD_MAX], which[WORD_MAX], what[WORD_MAX] = "";
    const char *at = take_word(*text, ":,", name);
    const bool has_which = *at == ':';

    at = has_which ? take_word(at + 1, ":,", which) : at;
    const bool has_what = *at == ':';
    at = has_what ? take_word(at + 1, ",", what) : at;
    *text = at;
    if (!find_call(rule, name)) {
        (void)snprintf(error, URO_INJECT_ERROR_MAX,
                       "no verb \"%s\" can fail on purpose; a rule is VERB:N:ERROR, such as "
                       "ibv_reg_mr:3:ENOMEM",
                       name);
        return error;
    }
    if (!has_which || !read_which(rule, which)) {
        (void)snprintf(error, URO_INJECT_ERROR_MAX,
                       "%s: which call? 3 is the third, 3+ the third and all later ones, *3 every "
                       "third; %s:3:ENOMEM",
                       name, name);
        return error;
    }
    if (rule->call == URO_INJECT_CALL_RNR) {
        rule->kind = URO_INJECT_KIND_RNR;
        return has_what ? "rnr: takes no error; write rnr:N" : NULL;
    }
    return read_what(rule, has_what ? what : "ENOMEM", error);
}

const char *uro_inject_parse(struct uro_inject_plan *plan, const char *value,
                             char error[static URO_INJECT_ERROR_MAX])
{
    const char *at = value;

    plan->count = 0;
    for (;; at++) {
        if (plan->count == URO_INJECT_RULES_MAX)
            return "has more than 16 rules";
        struct uro_inject_rule *rule = &plan->rules[plan->count];
        *rule = (struct uro_inject_rule){ 0 };
        const char *wrong = read_rule(rule, &at, error);
        if (wrong != NULL)
            return wrong;
        plan->count++;
        if (*at == '\0')
            return NULL;
    }
}
