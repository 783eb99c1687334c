/* SPDX-License-Identifier: BSD-3-Clause */
/* plan.c - see plan.h: one table of words, one function for each word. */
#include "impair/plan.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "impair/value.h"

#define REPLAY         "replay:" /* prefix of the value of impair= that names a trace */
#define WORD_MAX       256u
#define PARTS_MAX      4u
#define SHOWN_MAX      60 /* characters of a wrong word in a message */
#define SEED_DEFAULT   1u
#define QPN_MAX        0xffffffu
#define ALL_KINDS      ((1u << URO_IMPAIR_KINDS) - 1)
#define ALL_DIRECTIONS ((1u << URO_IMPAIR_DIRECTIONS) - 1)

/* The plan while it is parsed. */
struct parser {
    struct uro_impair_plan *plan;
    struct uro_impair_rule rule; /* current rule */
    uint32_t given;              /* bit i: word i of the table is in the rule */
    bool off, has_seed;
    unsigned line;
    bool has_lines; /* the text has more than one line */
    const char *wrong_word;
    const char *right; /* text that describes the correct form, or NULL */
};

static const char *const kind_names[] = {
#define X(id, name, plural) [URO_IMPAIR_##id] = name,
    URO_IMPAIR_KINDS_X(X)
#undef X
};

static const char *const kind_plurals[] = {
#define X(id, name, plural) [URO_IMPAIR_##id] = plural,
    URO_IMPAIR_KINDS_X(X)
#undef X
};

const char *uro_impair_kind_name(enum uro_impair_kind kind)
{
    return kind_names[kind];
}

bool uro_impair_window_has(const struct uro_impair_window *window, uro_time elapsed)
{
    if (window->length == 0 || elapsed < window->from)
        return false;
    const uro_time since = elapsed - window->from;
    return (window->every != 0 ? since % window->every : since) < window->length;
}

/* ---- values --------------------------------------------------------------- */

/* Splits @text at each @separator, in place. Returns the number of parts; more than PARTS_MAX means
 * too many. */
static size_t split(char *text, char separator, char *parts[static PARTS_MAX])
{
    size_t count = 0;

    for (;;) {
        char *end = strchr(text, separator);
        if (count < PARTS_MAX)
            parts[count] = text;
        count++;
        if (end == NULL)
            return count;
        *end = '\0';
        text = end + 1;
    }
}

/* Reads the value of a word. May change @value. Returns NULL, or a text that describes the correct
 * form. */
typedef const char *set_fn(struct parser *parser, char *value);

static const char *set_seed(struct parser *parser, char *value)
{
    if (!uro_impair_value_number(value, &parser->plan->seed))
        return "must be a number of at most 64 bits, in digits, such as seed:7";
    parser->has_seed = true;
    return NULL;
}

static const char *set_only(struct parser *parser, char *value)
{
    char *parts[PARTS_MAX];
    const size_t count = split(value, '+', parts);

    parser->rule.kinds = 0;
    for (size_t i = 0; i < count; i++) {
        unsigned kind = 0;
        while (i < PARTS_MAX && kind < URO_IMPAIR_KINDS &&
               strcmp(parts[i], kind_plurals[kind]) != 0)
            kind++;
        if (i == PARTS_MAX || kind >= URO_IMPAIR_OTHER)
            return "must be requests, acks, reads, datagrams, cm, cnps or repeats, or up to four "
                   "of them "
                   "joined by +";
        parser->rule.kinds |= 1u << kind;
    }
    return NULL;
}

static const char *set_qp(struct parser *parser, char *value)
{
    uint64_t number;

    if (!uro_impair_value_number(value, &number) || number > QPN_MAX)
        return "must be the number of a destination queue pair, 0 to 16777215";
    parser->rule.has_qpn = true;
    parser->rule.qpn = (uint32_t)number;
    return NULL;
}

static const char *set_loss(struct parser *parser, char *value)
{
    return uro_impair_value_probability(value, &parser->rule.loss);
}

static const char *set_duplicate(struct parser *parser, char *value)
{
    return uro_impair_value_probability(value, &parser->rule.duplicate);
}

static const char *set_reorder(struct parser *parser, char *value)
{
    return uro_impair_value_probability(value, &parser->rule.reorder);
}

static const char *set_ce(struct parser *parser, char *value)
{
    return uro_impair_value_probability(value, &parser->rule.mark);
}

/* Reads ENTER:LEAVE[:IN[:OUT]], the model of Gilbert and Elliott. */
static const char *set_burst(struct parser *parser, char *value)
{
    struct uro_impair_rule *rule = &parser->rule;
    uint32_t *const members[PARTS_MAX] = { &rule->enter, &rule->leave, &rule->loss_in,
                                           &rule->loss_out };
    char *parts[PARTS_MAX];
    const size_t count = split(value, ':', parts);

    rule->loss_in = URO_IMPAIR_CERTAIN;
    for (size_t i = 0; i < count && i < PARTS_MAX; i++)
        if (uro_impair_value_probability(parts[i], members[i]) != NULL)
            return "must be probabilities, such as burst:1%:25%: to begin a burst, and to end it";
    if (count < 2 || count > PARTS_MAX || rule->enter == 0 || rule->leave == 0)
        return "must have two to four probabilities, such as burst:1%:25%: to begin a burst, to "
               "end "
               "it, of a loss inside it (100%), and outside it (0%); the first two above 0";
    return NULL;
}

static const char *set_every(struct parser *parser, char *value)
{
    uint64_t number;

    if (!uro_impair_value_number(value, &number) || number < 1 || number > UINT32_MAX)
        return "must be a number from 1 to 4294967295; every:100 loses packets 100, 200, ... of a "
               "flow";
    parser->rule.every = (uint32_t)number;
    return NULL;
}

static const char *add_range(struct parser *parser, char *text)
{
    static const char *const right =
        "must be numbers of packets of a flow, from 1, and ranges, such as drop:3+7+10-12";
    struct uro_impair_plan *plan = parser->plan;
    struct uro_impair_range range;
    char *dash = strchr(text, '-');

    if (dash != NULL)
        *dash = '\0';
    if (!uro_impair_value_number(text, &range.first) || range.first == 0)
        return right;
    range.last = range.first;
    if (dash != NULL &&
        (!uro_impair_value_number(dash + 1, &range.last) || range.last < range.first))
        return right;
    if (plan->range_count == URO_IMPAIR_RANGES_MAX)
        return "is one range too many: a plan has at most 128";
    plan->ranges[plan->range_count++] = range;
    parser->rule.range_count++;
    return NULL;
}

static const char *set_drop(struct parser *parser, char *value)
{
    const char *wrong = NULL;

    parser->rule.first_range = parser->plan->range_count;
    while (wrong == NULL && value != NULL) {
        char *plus = strchr(value, '+');
        if (plus != NULL)
            *plus++ = '\0';
        wrong = add_range(parser, value);
        value = plus;
    }
    return wrong;
}

static const char *set_corrupt(struct parser *parser, char *value)
{
    char *parts[PARTS_MAX];
    const size_t count = split(value, ':', parts);

    parser->rule.resum = count == 2 && strcmp(parts[1], "resum") == 0;
    if (count > 2 || (count == 2 && !parser->rule.resum) ||
        uro_impair_value_probability(parts[0], &parser->rule.corrupt) != NULL)
        return "must be a probability such as corrupt:1%, or corrupt:1%:resum for packets whose "
               "ICRC matches the changed bytes";
    return NULL;
}

static bool find_distribution(const char *name, enum uro_impair_distribution *out)
{
    static const char *const names[] = { [URO_IMPAIR_UNIFORM] = "uniform",
                                         [URO_IMPAIR_NORMAL] = "normal",
                                         [URO_IMPAIR_EXPONENTIAL] = "exponential",
                                         [URO_IMPAIR_PARETO] = "pareto" };

    for (size_t i = 0; i < URO_ARRAY_LEN(names); i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (enum uro_impair_distribution)i;
            return true;
        }
    return false;
}

/* Finds "+-" or the sign in UTF-8, and cuts the text there. Returns the rest, or NULL. */
static char *split_jitter(char *text)
{
    static const char *const signs[] = { "+-", "\xc2\xb1" };

    for (size_t i = 0; i < URO_ARRAY_LEN(signs); i++) {
        char *sign = strstr(text, signs[i]);
        if (sign != NULL) {
            *sign = '\0';
            return sign + strlen(signs[i]);
        }
    }
    return NULL;
}

static const char *set_delay(struct parser *parser, char *value)
{
    struct uro_impair_rule *rule = &parser->rule;
    char *parts[PARTS_MAX];
    const size_t count = split(value, ':', parts);
    char *jitter = split_jitter(parts[0]);

    if (count > 2 || (count == 2 && !find_distribution(parts[1], &rule->distribution)))
        return "must be a time, then a jitter, then uniform, normal, exponential or pareto, such "
               "as "
               "delay:50us+-10us:normal";
    const char *wrong = uro_impair_value_time(parts[0], URO_IMPAIR_DELAY_MAX, &rule->delay);
    if (wrong == NULL && jitter != NULL)
        wrong = uro_impair_value_time(jitter, URO_IMPAIR_DELAY_MAX, &rule->jitter);
    if (wrong == NULL && rule->distribution == URO_IMPAIR_UNIFORM && rule->jitter > rule->delay)
        return "must have a jitter that is at most the delay, such as delay:50us+-10us";
    return wrong;
}

static const char *set_rate(struct parser *parser, char *value)
{
    return uro_impair_value_rate(value, &parser->rule.rate);
}

static const char *set_queue(struct parser *parser, char *value)
{
    return uro_impair_value_bytes(value, &parser->rule.queue_bytes);
}

static const char *set_mark(struct parser *parser, char *value)
{
    return uro_impair_value_bytes(value, &parser->rule.mark_bytes);
}

/* Reads FROM+LENGTH[:EVERY]. */
static const char *read_window(char *value, struct uro_impair_window *window)
{
    char *parts[PARTS_MAX];
    const size_t count = split(value, ':', parts);
    char *plus = strchr(parts[0], '+');

    if (plus != NULL)
        *plus++ = '\0';
    if (plus == NULL || count > 2 ||
        uro_impair_value_time(parts[0], URO_IMPAIR_TIME_MAX, &window->from) != NULL ||
        uro_impair_value_time(plus, URO_IMPAIR_TIME_MAX, &window->length) != NULL ||
        (count == 2 &&
         uro_impair_value_time(parts[1], URO_IMPAIR_TIME_MAX, &window->every) != NULL))
        return "must be a start and a length, and perhaps an interval, such as 1s+200ms:5s, each "
               "at "
               "most 86400s";
    if (window->length == 0 || (window->every != 0 && window->every < window->length))
        return "must have a length above 0 that is at most the interval, such as 1s+200ms:5s";
    return NULL;
}

static const char *set_down(struct parser *parser, char *value)
{
    return read_window(value, &parser->rule.down);
}

static const char *set_flap(struct parser *parser, char *value)
{
    return read_window(value, &parser->rule.flap);
}

/* ---- words ---------------------------------------------------------------- */

static const struct word {
    const char *name;
    set_fn *set;
} words[] = {
    { "only", set_only },           { "qp", set_qp },           { "loss", set_loss },
    { "burst", set_burst },         { "every", set_every },     { "drop", set_drop },
    { "duplicate", set_duplicate }, { "corrupt", set_corrupt }, { "delay", set_delay },
    { "reorder", set_reorder },     { "rate", set_rate },       { "queue", set_queue },
    { "mark", set_mark },           { "ce", set_ce },           { "down", set_down },
    { "flap", set_flap },           { "seed", set_seed },
};
static_assert(URO_ARRAY_LEN(words) <= 32, "parser.given has a bit for each word");

static const char unknown[] =
    "is not a word of a plan; the words are tx, rx, only:, qp:, loss:, burst:, every:, drop:, "
    "duplicate:, corrupt:, delay:, reorder:, rate:, queue:, mark:, ce:, down:, flap:, seed:";

/* Selects one direction. */
static const char *set_direction(struct parser *parser, unsigned direction)
{
    if (parser->rule.directions != ALL_DIRECTIONS)
        return "is a second direction in one rule; leave both out for both, or write two rules";
    parser->rule.directions = 1u << direction;
    return NULL;
}

/* Reads a word, which is a copy. Returns NULL, or a text that describes the correct form. */
static const char *read_word(struct parser *parser, char *word)
{
    char *colon = strchr(word, ':');

    if (strcmp(word, "tx") == 0)
        return set_direction(parser, URO_IMPAIR_TX);
    if (strcmp(word, "rx") == 0)
        return set_direction(parser, URO_IMPAIR_RX);
    if (strcmp(word, "off") == 0) {
        parser->off = true;
        return NULL;
    }
    if (colon == NULL)
        return unknown;
    *colon = '\0';
    for (size_t i = 0; i < URO_ARRAY_LEN(words); i++) {
        if (strcmp(word, words[i].name) != 0)
            continue;
        const bool is_seed = words[i].set == set_seed;
        if (is_seed ? parser->has_seed : (parser->given >> i & 1) != 0)
            return is_seed ? "is a second seed; a plan has one"
                           : "is given twice in one rule; write another rule behind a /";
        parser->given |= is_seed ? 0 : UINT32_C(1) << i;
        return words[i].set(parser, colon + 1);
    }
    return unknown;
}

static bool is_given(const struct parser *parser, set_fn *set)
{
    for (size_t i = 0; i < URO_ARRAY_LEN(words); i++)
        if (words[i].set == set)
            return (parser->given >> i & 1) != 0;
    return false;
}

static void begin_rule(struct parser *parser)
{
    parser->given = 0;
    parser->rule = (struct uro_impair_rule){ .directions = ALL_DIRECTIONS, .kinds = ALL_KINDS };
}

/* Ends a rule. Returns NULL, or a text that describes the correct form. */
static const char *end_rule(struct parser *parser)
{
    struct uro_impair_plan *plan = parser->plan;
    const bool selects_only =
        (parser->given & ~((UINT32_C(1) << 0) | (UINT32_C(1) << 1))) == 0; /* only, qp */

    static_assert(sizeof words / sizeof words[0] > 2, "only and qp are the first words");
    if (parser->given == 0 && parser->rule.directions == ALL_DIRECTIONS)
        return NULL; /* an empty line, or only a seed */
    if (selects_only)
        return "selects packets, but has no fault; add one such as loss:1%";
    if ((is_given(parser, set_queue) || is_given(parser, set_mark)) && parser->rule.rate == 0)
        return "has queue: or mark: without rate:; add the rate, such as rate:10Gbit";
    if (plan->rule_count == URO_IMPAIR_RULES_MAX)
        return "is one rule too many: a plan has at most 16";
    plan->rules[plan->rule_count++] = parser->rule;
    return NULL;
}

/* ---- the text ------------------------------------------------------------- */

static int refuse(const struct parser *parser, const char *word, size_t length, const char *right,
                  char error[static URO_IMPAIR_ERROR_MAX])
{
    const int shown = length < SHOWN_MAX ? (int)length : SHOWN_MAX;

    if (parser->has_lines)
        (void)snprintf(error, URO_IMPAIR_ERROR_MAX, "line %u, \"%.*s\": %s", parser->line, shown,
                       word, right);
    else
        (void)snprintf(error, URO_IMPAIR_ERROR_MAX, "\"%.*s\": %s", shown, word, right);
    (void)uro_utf8_mask(error);
    return -EINVAL;
}

/* Parses the rule of @length characters. */
static int read_rule(struct parser *parser, const char *rule, size_t length,
                     char error[static URO_IMPAIR_ERROR_MAX])
{
    const char *end = rule + length;
    char word[WORD_MAX];

    begin_rule(parser);
    for (const char *at = rule; at < end;) {
        const size_t skipped = strspn(at, ", \t\r");
        at += skipped < (size_t)(end - at) ? skipped : (size_t)(end - at);
        size_t used = strcspn(at, ", \t\r");
        used = used < (size_t)(end - at) ? used : (size_t)(end - at);
        if (used == 0)
            break;
        if (used >= sizeof word)
            return refuse(parser, at, used, "is too long; a word has at most 255 characters",
                          error);
        memcpy(word, at, used);
        word[used] = '\0';
        const char *right = read_word(parser, word);
        if (right != NULL)
            return refuse(parser, at, used, right, error);
        at += used;
    }
    const char *right = end_rule(parser);
    return right == NULL ? 0 : refuse(parser, rule, length, right, error);
}

/* Parses one line, without its comment. */
static int read_line(struct parser *parser, const char *line, size_t length,
                     char error[static URO_IMPAIR_ERROR_MAX])
{
    int result = 0;

    for (size_t at = 0; result == 0 && at <= length;) {
        size_t used = strcspn(line + at, "/\n#");
        used = used < length - at ? used : length - at;
        result = read_rule(parser, line + at, used, error);
        at += used + 1;
    }
    return result;
}

void uro_impair_plan_init(struct uro_impair_plan *plan)
{
    *plan = (struct uro_impair_plan){ .seed = SEED_DEFAULT };
}

int uro_impair_plan_parse(struct uro_impair_plan *plan, const char *text,
                          char error[static URO_IMPAIR_ERROR_MAX])
{
    struct parser parser = { .plan = plan, .has_lines = strchr(text, '\n') != NULL };
    int result = 0;

    uro_impair_plan_init(plan);
    if (strlen(text) >= URO_IMPAIR_TEXT_MAX)
        return refuse(&parser, "", 0, "is too long; a plan has at most 4095 characters", error);
    for (const char *line = text; result == 0 && *line != '\0';) {
        parser.line++;
        result = read_line(&parser, line, strcspn(line, "\n#"), error);
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    if (result != 0)
        return result;
    if (plan->rule_count == 0 && !parser.off && !parser.has_seed)
        return refuse(&parser, "", 0, "is empty; write off for a link without faults", error);
    if (plan->rule_count > 0 && parser.off)
        return refuse(&parser, "off", 3, "cannot stand beside other words; leave it out", error);
    return 0;
}

/* ---- the value of impair= ------------------------------------------------- */

const char *uro_impair_plan_file(const char *value)
{
    if (value[0] == '@')
        return value + 1;
    return value[0] == '/' || strncmp(value, "./", 2) == 0 || strncmp(value, "../", 3) == 0 ? value
                                                                                            : NULL;
}

const char *uro_impair_plan_replay(const char *value)
{
    return strncmp(value, REPLAY, strlen(REPLAY)) == 0 ? value + strlen(REPLAY) : NULL;
}

const char *uro_impair_plan_check(const char *value, char text[static URO_IMPAIR_ERROR_MAX])
{
    struct uro_impair_plan plan;

    if (uro_impair_plan_replay(value) != NULL)
        return uro_impair_plan_replay(value)[0] != '\0' ? NULL
                                                        : "names no trace; write replay:FILE";
    if (uro_impair_plan_file(value) != NULL)
        return uro_impair_plan_file(value)[0] != '\0' ? NULL : "names no file; write @FILE";
    return uro_impair_plan_parse(&plan, value, text) != 0 ? text : NULL;
}
