/* SPDX-License-Identifier: BSD-3-Clause */
/* words.c - see words.h. */
#include "script/words.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

#define SHOWN_MAX 40 /* bytes of a word shown in a message */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

bool uro_words_next(struct uro_words *words)
{
    bool quoted = false;

    while (words->pos < words->end && is_blank(*words->pos))
        words->pos++;
    const char *first = words->pos;
    for (; words->pos < words->end && (quoted || !is_blank(*words->pos)); words->pos++)
        quoted ^= *words->pos == '"';
    words->word = (struct uro_script_text){ first, (uint32_t)(words->pos - first) };
    return words->word.length > 0;
}

bool uro_words_are(const struct uro_words *words, const char *text)
{
    return words->word.length == strlen(text) &&
           memcmp(words->word.start, text, words->word.length) == 0;
}

bool uro_words_take(struct uro_words *words, const char *text)
{
    struct uro_words ahead = *words;

    if (!uro_words_next(&ahead) || !uro_words_are(&ahead, text))
        return false;
    *words = ahead;
    return true;
}

bool uro_words_refuse(struct uro_words *words, size_t from, const char *expected)
{
    struct uro_script_problem *problem = words->problem;
    const struct uro_script_text *word = &words->word;
    const int length = (int)(word->length - from);

    problem->line = words->number;
    problem->column = (uint32_t)(word->start - words->line + (ptrdiff_t)from) + 1;
    if (length == 0)
        (void)snprintf(problem->text, sizeof problem->text, "expected %s", expected);
    else
        (void)snprintf(problem->text, sizeof problem->text, "\"%.*s\": expected %s",
                       length < SHOWN_MAX ? length : SHOWN_MAX, word->start + from, expected);
    (void)uro_utf8_mask(problem->text);
    return false;
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : 16;
}

/* Takes a number, decimal or 0x. Returns false when there is no number or it is too large. */
static bool take_number(const char **pos, const char *end, uint64_t *number)
{
    const bool hex = end - *pos > 2 && (*pos)[0] == '0' && (*pos)[1] == 'x';
    const unsigned base = hex ? 16 : 10;
    const char *const first = *pos += hex ? 2 : 0;

    for (*number = 0; *pos < end && digit(**pos) < (int)base; (*pos)++) {
        const unsigned next = (unsigned)digit(**pos);
        if (*number > (UINT64_MAX - next) / base)
            return false;
        *number = *number * base + next;
    }
    return *pos > first;
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static const char *name_end(const char *pos, const char *end)
{
    while (pos < end && is_name(*pos))
        pos++;
    return pos;
}

/* Takes a number, a $name, or a word that is defined for the field. */
static bool take_term(struct uro_words *words, const char **pos, enum uro_field field,
                      struct uro_script_value *value)
{
    const char *const end = words->word.start + words->word.length;
    struct uro_script_term *term = &value->terms[value->count];

    if (*pos < end && **pos == '$') {
        const char *name = *pos + 1;
        *pos = name_end(name, end);
        int index = uro_script_name(words->script, name, (size_t)(*pos - name));
        *term = (struct uro_script_term){ .is_name = true, .number = (uint64_t)index };
        return *pos > name && index >= 0;
    }
    const char *word_end = name_end(*pos, end);
    const struct uro_field_word *word = uro_field_word(field, *pos, (size_t)(word_end - *pos));
    if (word == NULL)
        return take_number(pos, end, &term->number);
    term->number = word->send;
    if (word_end == end && value->count == 0) { /* a word alone matches its whole range */
        term->number = word->low;
        value->span = (uint64_t)(word->high - word->low);
    }
    *pos = word_end;
    return true;
}

/* Returns whether the number fits the field. uro_play_value() checks sums, variables and relative
 * numbers, whose values are not known here. */
static bool fits(const struct uro_script_value *value, enum uro_field field)
{
    return field == URO_FIELD_COUNT || value->relative || value->count > 1 ||
           value->terms[0].is_name ||
           (value->terms[0].number <= uro_field_max(field) &&
            value->span <= uro_field_max(field) - value->terms[0].number);
}

/* Takes the upper end of a range, if there is one: "..9", or after a relative number "..+9". */
static bool take_range(struct uro_words *words, size_t from, const char **pos,
                       struct uro_script_value *value)
{
    const char *const end = words->word.start + words->word.length;
    const uint64_t low = value->terms[0].number;
    uint64_t high;

    if (end - *pos < 3 || (*pos)[0] != '.' || (*pos)[1] != '.')
        return true;
    *pos += 2;
    if (value->relative && **pos == '+')
        ++*pos;
    if (value->count == 1 && !value->terms[0].is_name && !value->terms[0].minus &&
        take_number(pos, end, &high) && high >= low) {
        value->span = high - low;
        return true;
    }
    return uro_words_refuse(words, from, "a range LOW..HIGH of two numbers");
}

bool uro_words_value(struct uro_words *words, size_t from, enum uro_field field,
                     struct uro_script_value *value)
{
    const char *pos = words->word.start + from;
    const char *const end = words->word.start + words->word.length;

    *value = (struct uro_script_value){ .relative = pos < end && (*pos == '+' || *pos == '-') };
    do {
        const bool sign = pos < end && (*pos == '+' || *pos == '-');
        const bool minus = sign && *pos == '-';
        value->terms[value->count] = (struct uro_script_term){ 0 };
        pos += sign;
        if (!take_term(words, &pos, field, value))
            return uro_words_refuse(words, from, "a number, $name, or a sum of up to three");
        value->terms[value->count++].minus = minus;
    } while (value->count < URO_SCRIPT_TERMS_MAX && pos < end && (*pos == '+' || *pos == '-'));
    if (!take_range(words, from, &pos, value))
        return false;
    if (pos != end)
        return uro_words_refuse(words, (size_t)(pos - words->word.start),
                                "+ or -, a range LOW..HIGH, or the end of the number");
    if (!fits(value, field))
        return uro_words_refuse(words, from, "a number that fits the field");
    return true;
}

bool uro_words_time(struct uro_words *words, size_t from, uro_time *time)
{
    static const struct unit {
        const char *name;
        uro_time of;
    } units[] = { { "us", URO_US(1) }, { "ms", URO_MS(1) }, { "s", URO_MS(1000) } };
    const char *pos = words->word.start + from;
    const char *const end = words->word.start + words->word.length;
    uint64_t number;

    if (take_number(&pos, end, &number) && number <= 3600u * 1000u)
        for (size_t i = 0; i < URO_ARRAY_LEN(units); i++)
            if ((size_t)(end - pos) == strlen(units[i].name) &&
                memcmp(pos, units[i].name, (size_t)(end - pos)) == 0) {
                *time = number * units[i].of;
                return true;
            }
    return uro_words_refuse(words, from, "a time such as 500us, 200ms or 2s");
}

bool uro_words_count(struct uro_words *words, size_t from, uint64_t *count)
{
    static const char *const ends[] = { "", "st", "nd", "rd", "th" };
    const char *pos = words->word.start + from;
    const size_t length = words->word.length - from;

    if (take_number(&pos, words->word.start + words->word.length, count) && *count > 0 &&
        *count <= 1000000)
        for (size_t i = 0; i < URO_ARRAY_LEN(ends); i++)
            if (strlen(ends[i]) == length - (size_t)(pos - words->word.start - (ptrdiff_t)from) &&
                memcmp(pos, ends[i], strlen(ends[i])) == 0)
                return true;
    return uro_words_refuse(words, from, "a count from 1 to 1000000");
}

bool uro_words_text(struct uro_words *words, size_t from, struct uro_script_text *text)
{
    *text =
        (struct uro_script_text){ words->word.start + from, words->word.length - (uint32_t)from };
    if (text->length > 0 && text->start[0] == '"') {
        if (text->length < 2 || text->start[text->length - 1] != '"')
            return uro_words_refuse(words, from, "a text that ends with \"");
        text->start++;
        text->length -= 2;
    }
    return text->length <= URO_SCRIPT_TEXT_MAX ||
           uro_words_refuse(words, from, "a text of at most 200 bytes");
}
