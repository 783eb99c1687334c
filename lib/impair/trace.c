/* SPDX-License-Identifier: BSD-3-Clause */
/* trace.c - see trace.h. */
#include "impair/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAGIC "uroce-trace "

static const char *const effect_texts[] = {
#define X(id, text) [URO_IMPAIR_EFFECT_##id] = text,
    URO_IMPAIR_EFFECTS_X(X)
#undef X
};

/* ---- effects -------------------------------------------------------------- */

bool uro_impair_fate_has(const struct uro_impair_fate *fate, enum uro_impair_effect effect)
{
    switch (effect) {
    case URO_IMPAIR_EFFECT_LOSE:
        return fate->lost;
    case URO_IMPAIR_EFFECT_DUP:
        return fate->duplicated;
    case URO_IMPAIR_EFFECT_LATE:
        return fate->overtaken;
    case URO_IMPAIR_EFFECT_MARK:
        return fate->marked;
    case URO_IMPAIR_EFFECT_CORRUPT:
        return fate->corrupted && !fate->resummed;
    case URO_IMPAIR_EFFECT_RESUM:
        return fate->corrupted && fate->resummed;
    case URO_IMPAIR_EFFECT_DELAY:
        return fate->delay != 0;
    case URO_IMPAIR_EFFECTS:
        break;
    }
    return false;
}

static uint64_t value_of(const struct uro_impair_fate *fate, enum uro_impair_effect effect)
{
    return effect == URO_IMPAIR_EFFECT_DELAY ? fate->delay : fate->damage;
}

static void add_effect(struct uro_impair_fate *fate, enum uro_impair_effect effect, uint64_t value)
{
    switch (effect) {
    case URO_IMPAIR_EFFECT_LOSE:
        fate->lost = true;
        break;
    case URO_IMPAIR_EFFECT_DUP:
        fate->duplicated = true;
        break;
    case URO_IMPAIR_EFFECT_LATE:
        fate->overtaken = true;
        break;
    case URO_IMPAIR_EFFECT_MARK:
        fate->marked = true;
        break;
    case URO_IMPAIR_EFFECT_CORRUPT:
    case URO_IMPAIR_EFFECT_RESUM:
        fate->corrupted = true;
        fate->resummed = effect == URO_IMPAIR_EFFECT_RESUM;
        fate->damage = value;
        break;
    case URO_IMPAIR_EFFECT_DELAY:
        fate->delay = value;
        break;
    case URO_IMPAIR_EFFECTS:
        break;
    }
}

struct uro_impair_fate uro_impair_fate_only(const struct uro_impair_fate *fate,
                                            enum uro_impair_effect effect)
{
    struct uro_impair_fate only = { 0 };

    if (uro_impair_fate_has(fate, effect))
        add_effect(&only, effect, value_of(fate, effect));
    return only;
}

void uro_impair_fate_merge(struct uro_impair_fate *fate, const struct uro_impair_fate *more)
{
    for (unsigned i = 0; i < URO_IMPAIR_EFFECTS; i++)
        if (uro_impair_fate_has(more, (enum uro_impair_effect)i))
            add_effect(fate, (enum uro_impair_effect)i, value_of(more, (enum uro_impair_effect)i));
}

/* ---- text ----------------------------------------------------------------- */

static void print_name(char *out, const char *name)
{
    size_t i = 0;

    for (; name[i] != '\0' && i + 1 < URO_IMPAIR_NAME_MAX; i++)
        out[i] = (char)(name[i] > ' ' && name[i] < 127 ? name[i] : '_');
    out[i] = '\0';
}

char *uro_impair_trace_print_header(const struct uro_impair_trace_header *header,
                                    char out[static URO_IMPAIR_TRACE_LINE])
{
    char program[URO_IMPAIR_NAME_MAX], device[URO_IMPAIR_NAME_MAX];

    print_name(program, header->program);
    print_name(device, header->device);
    (void)snprintf(out, URO_IMPAIR_TRACE_LINE, MAGIC "%u program=%s device=%s\n", header->version,
                   program, device);
    return out;
}

char *uro_impair_trace_print(const struct uro_impair_trace_line *line,
                             char out[static URO_IMPAIR_TRACE_LINE])
{
    int used = snprintf(out, URO_IMPAIR_TRACE_LINE, "%s %s %" PRIu32 " %" PRIu64,
                        line->direction == URO_IMPAIR_TX ? "tx" : "rx",
                        uro_impair_kind_name(line->kind), line->number, line->packet);

    for (unsigned i = 0; i < URO_IMPAIR_EFFECTS; i++) {
        const enum uro_impair_effect effect = (enum uro_impair_effect)i;
        if (!uro_impair_fate_has(&line->fate, effect))
            continue;
        const size_t left = URO_IMPAIR_TRACE_LINE - (size_t)used;
        const uint64_t value = value_of(&line->fate, effect);
        if (effect == URO_IMPAIR_EFFECT_DELAY)
            used += snprintf(out + used, left, " %s%" PRIu64, effect_texts[i], value);
        else if (effect_texts[i][strlen(effect_texts[i]) - 1] == '=')
            used += snprintf(out + used, left, " %s%" PRIx64, effect_texts[i], value);
        else
            used += snprintf(out + used, left, " %s", effect_texts[i]);
    }
    (void)snprintf(out + used, URO_IMPAIR_TRACE_LINE - (size_t)used, "\n");
    return out;
}

/* Reads a number up to a space or the end. Returns the end, or NULL. */
static const char *read_number(const char *text, unsigned base, uint64_t *number)
{
    const char *at = text;

    for (*number = 0;; at++) {
        const uint64_t digit = *at >= '0' && *at <= '9'                 ? (uint64_t)(*at - '0')
                               : base == 16 && *at >= 'a' && *at <= 'f' ? (uint64_t)(*at - 'a') + 10
                                                                        : base;
        if (digit == base)
            break;
        if (*number > (UINT64_MAX - digit) / base)
            return NULL;
        *number = *number * base + digit;
    }
    return at > text && (*at == ' ' || *at == '\0') ? at : NULL;
}

/* Returns the text after @word and a space, or NULL if @text begins with another word. */
static const char *skip_word(const char *text, const char *word)
{
    const size_t length = strlen(word);

    if (strncmp(text, word, length) != 0 || (text[length] != ' ' && text[length] != '\0'))
        return NULL;
    return text + length + (text[length] == ' ');
}

static const char *read_kind(const char *text, enum uro_impair_kind *kind)
{
    for (unsigned i = 0; i < URO_IMPAIR_KINDS; i++) {
        const char *rest = skip_word(text, uro_impair_kind_name((enum uro_impair_kind)i));
        if (rest != NULL) {
            *kind = (enum uro_impair_kind)i;
            return rest;
        }
    }
    return NULL;
}

static const char *read_effect(const char *text, struct uro_impair_fate *fate)
{
    for (unsigned i = 0; i < URO_IMPAIR_EFFECTS; i++) {
        const size_t length = strlen(effect_texts[i]);
        const bool has_value = effect_texts[i][length - 1] == '=';
        const char *rest = has_value ? NULL : skip_word(text, effect_texts[i]);
        uint64_t value = 0;
        if (has_value && strncmp(text, effect_texts[i], length) == 0) {
            rest = read_number(text + length, i == URO_IMPAIR_EFFECT_DELAY ? 10 : 16, &value);
            rest = rest != NULL && *rest == ' ' ? rest + 1 : rest;
        }
        if (rest == NULL)
            continue;
        add_effect(fate, (enum uro_impair_effect)i, value);
        return rest;
    }
    return NULL;
}

const char *uro_impair_trace_parse(struct uro_impair_trace_line *line, const char *text)
{
    uint64_t number;
    const char *rest = skip_word(text, "tx");

    *line = (struct uro_impair_trace_line){ .direction = URO_IMPAIR_TX };
    if (rest == NULL) {
        line->direction = URO_IMPAIR_RX;
        rest = skip_word(text, "rx");
    }
    if (rest == NULL)
        return "must begin with tx or rx";
    rest = read_kind(rest, &line->kind);
    if (rest == NULL)
        return "must have the kind of a packet behind tx or rx, such as request or ack";
    rest = read_number(rest, 10, &number);
    if (rest == NULL || *rest != ' ' || number > UINT32_MAX)
        return "must have the number of a flow behind the kind, from 0";
    line->number = (uint32_t)number;
    rest = read_number(rest + 1, 10, &line->packet);
    if (rest == NULL || *rest != ' ' || line->packet == 0)
        return "must have the number of a packet behind that of the flow, from 1, and effects";
    for (rest++; rest != NULL && *rest != '\0';)
        rest = read_effect(rest, &line->fate);
    if (rest == NULL || uro_impair_fate_is_plain(&line->fate))
        return "must end with effects: lose, dup, late, mark, corrupt=HEX, resum=HEX, delay=NS";
    if (line->fate.delay > URO_IMPAIR_DELAY_MAX * URO_IMPAIR_RULES_MAX)
        return "has a delay of more than 160 s";
    return NULL;
}

/* Reads "@name=VALUE" to @out. Returns the text behind it, or NULL. */
static const char *read_name(const char *text, const char *name, char *out)
{
    const size_t length = strlen(name);

    if (strncmp(text, name, length) != 0)
        return NULL;
    const size_t used = strcspn(text + length, " ");
    if (used >= URO_IMPAIR_NAME_MAX)
        return NULL;
    memcpy(out, text + length, used);
    out[used] = '\0';
    return text + length + used + (text[length + used] == ' ');
}

const char *uro_impair_trace_parse_header(struct uro_impair_trace_header *header, const char *text)
{
    uint64_t version;

    *header = (struct uro_impair_trace_header){ 0 };
    const char *rest = strncmp(text, MAGIC, strlen(MAGIC)) == 0 ? text + strlen(MAGIC) : NULL;
    if (rest != NULL)
        rest = read_number(rest, 10, &version);
    if (rest == NULL || version == 0 || version > UINT32_MAX)
        return "is not a trace: its first line must begin with \"uroce-trace 1\"; trace=FILE "
               "writes such files";
    header->version = (unsigned)version;
    if (version != URO_IMPAIR_TRACE_VERSION)
        return "is a trace of another version of uroce, which this version cannot read; "
               "record it again";
    rest = read_name(rest + (*rest == ' '), "program=", header->program);
    if (rest != NULL)
        rest = read_name(rest, "device=", header->device);
    return rest != NULL ? NULL : "has no program= and device= in its first line; record it again";
}

/* ---- lists of lines ------------------------------------------------------- */

static int compare(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int compare_flow(const struct uro_impair_trace_line *line,
                        enum uro_impair_direction direction, enum uro_impair_kind kind,
                        uint32_t number)
{
    int result = compare(line->direction, direction);

    if (result == 0)
        result = compare(line->kind, kind);
    return result != 0 ? result : compare(line->number, number);
}

int uro_impair_trace_compare(const void *a, const void *b)
{
    const struct uro_impair_trace_line *left = a, *right = b;
    const int result = compare_flow(left, right->direction, right->kind, right->number);

    return result != 0 ? result : compare(left->packet, right->packet);
}

size_t uro_impair_trace_merge(struct uro_impair_trace_line *lines, size_t count)
{
    size_t used = 0;

    for (size_t i = 0; i < count; i++)
        if (used > 0 && uro_impair_trace_compare(&lines[used - 1], &lines[i]) == 0)
            uro_impair_fate_merge(&lines[used - 1].fate, &lines[i].fate);
        else
            lines[used++] = lines[i];
    return used;
}

/* Returns the first line that is not before the flow. */
static uint32_t find_flow(const struct uro_impair_trace_line *lines, size_t count,
                          const struct uro_impair_flow *flow)
{
    size_t low = 0, high = count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (compare_flow(&lines[middle], flow->direction, flow->kind, flow->number) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return (uint32_t)low;
}

void uro_impair_trace_replay(const struct uro_impair_trace_line *lines, size_t count,
                             struct uro_impair_flow *flow, struct uro_impair_fate *fate)
{
    *fate = (struct uro_impair_fate){ 0 };
    flow->count++;
    if (flow->replay_at == UINT32_MAX)
        flow->replay_at = find_flow(lines, count, flow);
    for (; flow->replay_at < count; flow->replay_at++) {
        const struct uro_impair_trace_line *line = &lines[flow->replay_at];
        if (compare_flow(line, flow->direction, flow->kind, flow->number) != 0 ||
            line->packet > flow->count)
            return;
        if (line->packet < flow->count)
            continue; /* this line is for a packet before the trace was in use */
        *fate = line->fate;
        if (fate->lost)
            *fate = (struct uro_impair_fate){ .lost = true };
        return;
    }
}
