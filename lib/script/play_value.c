/* SPDX-License-Identifier: BSD-3-Clause */
/* play_value.c - evaluates sums, variables and texts while a script is played. */
#include <inttypes.h>
#include <string.h>

#include "script/play_inside.h"

uint64_t uro_play_get(const struct uro_play *play, enum uro_script_name name)
{
    return play->values[name];
}

void uro_play_put(struct uro_play *play, enum uro_script_name name, uint64_t value)
{
    play->values[name] = value;
    play->known |= UINT64_C(1) << name;
}

static bool value_of_name(struct uro_play *play, uint64_t number, uint64_t *value)
{
    const struct uro_script_text *name = &play->script->names[number];

    if ((play->known >> number & 1) == 0) {
        uro_play_deviate(play, "$%.*s has no value: neither --set nor the endpoint gave one",
                         (int)name->length, name->start);
        return false;
    }
    *value = play->values[number];
    return true;
}

/* Makes the number fit the field: cuts off the upper bits of a PSN or a number like it. Returns
 * false, with a deviation, if another number does not fit. */
static bool fit(struct uro_play *play, enum uro_field field, uint64_t *number)
{
    const struct uro_field_row *row = &uro_field_rows[field];

    if (uro_field_wraps(field))
        *number &= uro_field_max(field);
    if (*number <= uro_field_max(field))
        return true;
    if (*number >> 63 != 0) /* a difference below 0 */
        uro_play_deviate(play, "%" PRId64 " does not fit %s (%u bits)", (int64_t)*number, row->name,
                         row->bits);
    else
        uro_play_deviate(play, "%" PRIu64 " does not fit %s (%u bits)", *number, row->name,
                         row->bits);
    return false;
}

bool uro_play_value(struct uro_play *play, const struct uro_script_value *value,
                    enum uro_field field, uint64_t base, uint64_t *number)
{
    *number = value->relative ? base : 0;
    for (uint8_t i = 0; i < value->count; i++) {
        const struct uro_script_term *term = &value->terms[i];
        uint64_t by = term->number;
        if (term->is_name && !value_of_name(play, term->number, &by))
            return false;
        *number = term->minus ? *number - by : *number + by;
    }
    return field == URO_FIELD_COUNT || fit(play, field, number);
}

uint64_t uro_play_base(const struct uro_play *play, const struct uro_opcode *op, bool sent)
{
    const bool ours = sent == (op->role == URO_REQUEST);

    return uro_play_get(play, ours ? URO_NAME_PSN : URO_NAME_PEERPSN);
}

bool uro_play_set(struct uro_play *play, const char *name, size_t length, uint64_t value)
{
    for (uint32_t i = 0; i < play->script->name_count; i++)
        if (play->script->names[i].length == length &&
            memcmp(play->script->names[i].start, name, length) == 0) {
            uro_play_put(play, (enum uro_script_name)i, value);
            return true;
        }
    return false;
}

static int digit(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 16;
}

/* Reads a decimal number, or a hexadecimal number after 0x. An empty text is 0. Returns false when
 * the text is not a number. */
static bool read_number(const uint8_t *pos, const uint8_t *end, uint64_t *number)
{
    const bool hex = end - pos > 2 && pos[0] == '0' && pos[1] == 'x';

    *number = 0;
    for (pos += hex ? 2 : 0; pos < end; pos++) {
        if (digit(*pos) >= (hex ? 16 : 10))
            return false;
        *number = *number * (hex ? 16 : 10) + (unsigned)digit(*pos);
    }
    return true;
}

void uro_play_learn_words(struct uro_play *play, const uint8_t *data, uint32_t length)
{
    const uint8_t *const end = data + length;
    uint64_t number;

    for (const uint8_t *pos = data; pos < end && *pos != '\0';) {
        const uint8_t *word = pos;
        while (pos < end && *pos != ' ' && *pos != '\0')
            pos++;
        const uint8_t *equals = memchr(word, '=', (size_t)(pos - word));
        if (equals != NULL && read_number(equals + 1, pos, &number))
            (void)uro_play_set(play, (const char *)word, (size_t)(equals - word), number);
        pos += pos < end && *pos == ' ';
    }
}

uint32_t uro_play_unquote(const struct uro_script_text *text, uint8_t *out, uint32_t size)
{
    const uint8_t *pos = (const uint8_t *)text->start;
    const uint8_t *const end = pos + text->length;
    uint32_t length = 0;

    while (pos < end && length < size) {
        if (end - pos >= 4 && pos[0] == '\\' && pos[1] == 'x' && digit(pos[2]) < 16 &&
            digit(pos[3]) < 16) {
            out[length++] = (uint8_t)(digit(pos[2]) << 4 | digit(pos[3]));
            pos += 4;
        } else {
            out[length++] = *pos++;
        }
    }
    return length;
}
