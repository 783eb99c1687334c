/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_impair.c - parses any text as a plan of faults, and as the lines of a trace. An accepted
 * plan must have only values that the model can use. A printed line must have the same meaning when
 * it is parsed. */
#include <stdlib.h>
#include <string.h>

#include "impair/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PACKETS 200u

/* Aborts unless @condition. Unlike assert(), it works in every build. */
static void demand(bool condition)
{
    if (!condition)
        abort();
}

static bool is_probability(uint32_t value)
{
    return value <= URO_IMPAIR_CERTAIN;
}

static void check_rule(const struct uro_impair_plan *plan, const struct uro_impair_rule *rule)
{
    demand(is_probability(rule->loss) && is_probability(rule->duplicate) &&
           is_probability(rule->reorder) && is_probability(rule->corrupt) &&
           is_probability(rule->mark) && is_probability(rule->enter) &&
           is_probability(rule->leave) && is_probability(rule->loss_in) &&
           is_probability(rule->loss_out));
    demand(rule->delay <= URO_IMPAIR_DELAY_MAX && rule->jitter <= URO_IMPAIR_DELAY_MAX);
    demand(rule->directions != 0 && rule->kinds != 0);
    demand(rule->first_range + rule->range_count <= plan->range_count);
}

/* Draws fates of every kind of packet. */
static void use(const struct uro_impair_plan *plan)
{
    struct uro_impair_links links = { 0 };
    struct uro_impair_fate fate;

    for (unsigned kind = 0; kind < URO_IMPAIR_KINDS; kind++) {
        struct uro_impair_flow flow = { .kind = (enum uro_impair_kind)kind };
        uro_impair_flow_plan(&flow, plan);
        for (uint32_t i = 0; i < PACKETS; i++) {
            uro_impair_fate_draw(plan, &flow, &fate);
            uro_impair_fate_pass(plan, &links, &flow, 1500, URO_MS(i), &fate);
            demand(!fate.lost || (fate.delay == 0 && !fate.duplicated));
        }
    }
}

static void check_plan(const char *text)
{
    struct uro_impair_plan plan;
    char error[URO_IMPAIR_ERROR_MAX] = "";

    if (uro_impair_plan_parse(&plan, text, error) != 0) {
        demand(error[0] != '\0' && strchr(error, '\n') == NULL);
        return;
    }
    demand(plan.rule_count <= URO_IMPAIR_RULES_MAX && plan.range_count <= URO_IMPAIR_RANGES_MAX);
    for (uint32_t i = 0; i < plan.rule_count; i++)
        check_rule(&plan, &plan.rules[i]);
    use(&plan);
}

static void check_trace(char *text)
{
    struct uro_impair_trace_header header;
    struct uro_impair_trace_line line, again;
    char printed[URO_IMPAIR_TRACE_LINE], twice[URO_IMPAIR_TRACE_LINE];
    char *rest = text, *next;

    while ((next = strsep(&rest, "\n")) != NULL) {
        (void)uro_impair_trace_parse_header(&header, next);
        if (uro_impair_trace_parse(&line, next) != NULL)
            continue;
        (void)uro_impair_trace_print(&line, printed);
        demand(printed[strlen(printed) - 1] == '\n');
        printed[strlen(printed) - 1] = '\0';
        demand(uro_impair_trace_parse(&again, printed) == NULL);
        (void)uro_impair_trace_print(&again, twice);
        twice[strlen(twice) - 1] = '\0';
        demand(strcmp(printed, twice) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[URO_IMPAIR_TEXT_MAX + 1];

    if (size >= sizeof text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    check_plan(text);
    check_trace(text);
    return 0;
}
