/* SPDX-License-Identifier: BSD-3-Clause */
/* value.c - see value.h. */
#include "impair/value.h"

#include <string.h>

#define BILLION   UINT64_C(1000000000)
#define WHOLE_MAX BILLION /* small enough that no product below overflows */
#define RATE_MIN  UINT64_C(1000)
#define RATE_MAX  (800 * BILLION)
#define BYTES_MAX BILLION

/* A decimal fraction: whole + billionths / BILLION. */
struct decimal {
    uint64_t whole, billionths;
};

/* Reads digits with at most one point. Digits after the ninth decimal place do not count. Returns
 * the first character behind them, or NULL if there is no number or it is too large. */
static const char *read_decimal(const char *text, struct decimal *out)
{
    uint64_t unit = BILLION;
    bool digits = false;

    *out = (struct decimal){ 0 };
    for (; *text >= '0' && *text <= '9'; text++, digits = true) {
        out->whole = out->whole * 10 + (uint64_t)(*text - '0');
        if (out->whole > WHOLE_MAX)
            return NULL;
    }
    if (*text == '.')
        for (text++; *text >= '0' && *text <= '9'; text++, digits = true) {
            unit /= 10;
            out->billionths += unit * (uint64_t)(*text - '0');
        }
    return digits ? text : NULL;
}

/* Returns @value in units of @unit, which is at most BILLION. */
static uint64_t scaled(const struct decimal *value, uint64_t unit)
{
    return value->whole * unit + value->billionths * unit / BILLION;
}

const char *uro_impair_value_probability(const char *text, uint32_t *billionths)
{
    static const char *const right = "must be a probability from 0% to 100%, such as 0.5%";
    struct decimal value;
    const char *end = read_decimal(text, &value);

    if (end == NULL || value.whole > 100)
        return right;
    const uint64_t unit = *end == '%' ? BILLION / 100 : BILLION;
    end += *end == '%';
    const uint64_t found = scaled(&value, unit);
    if (*end != '\0' || found > URO_IMPAIR_CERTAIN)
        return right;
    *billionths = (uint32_t)found;
    return NULL;
}

static const struct unit {
    const char *name;
    uint64_t factor;
} times[] = { { "ns", 1 },           { "us", 1000 },        { "\xc2\xb5s", 1000 },
              { "\xce\xbcs", 1000 }, { "ms", 1000 * 1000 }, { "s", BILLION } },
  sizes[] = { { "", 1 },       { "B", 1 },
              { "kB", 1000 },  { "MB", 1000 * 1000 },
              { "KiB", 1024 }, { "MiB", 1024 * 1024 } },
  rates[] = { { "bit", 1 }, { "kbit", 1000 }, { "Mbit", 1000 * 1000 }, { "Gbit", BILLION } };

/* Reads a number with a unit. Returns false if there is no number, or no unit of the table. */
static bool read_with_unit(const char *text, const struct unit *units, size_t count, uint64_t *out)
{
    struct decimal value;
    const char *end = read_decimal(text, &value);

    for (size_t i = 0; end != NULL && i < count; i++)
        if (strcmp(end, units[i].name) == 0) {
            *out = scaled(&value, units[i].factor);
            return true;
        }
    return false;
}

const char *uro_impair_value_time(const char *text, uro_time max, uro_time *ns)
{
    uint64_t found;

    if (!read_with_unit(text, times, URO_ARRAY_LEN(times), &found))
        return "must be a time with its unit, ns, us, ms or s, such as 50us";
    if (found > max)
        return max == URO_IMPAIR_DELAY_MAX ? "must be at most 10s"
                                           : "must be at most a day, 86400s";
    *ns = found;
    return NULL;
}

const char *uro_impair_value_bytes(const char *text, uint64_t *bytes)
{
    uint64_t found;

    if (!read_with_unit(text, sizes, URO_ARRAY_LEN(sizes), &found) || found == 0 ||
        found > BYTES_MAX)
        return "must be a number of bytes from 1 to 1000MB, such as 64kB";
    *bytes = found;
    return NULL;
}

const char *uro_impair_value_rate(const char *text, uint64_t *bits)
{
    uint64_t found;

    if (!read_with_unit(text, rates, URO_ARRAY_LEN(rates), &found) || found < RATE_MIN ||
        found > RATE_MAX)
        return "must be a rate from 1kbit to 800Gbit a second, such as 10Gbit";
    *bits = found;
    return NULL;
}

bool uro_impair_value_number(const char *text, uint64_t *number)
{
    uint64_t found = 0;

    if (*text == '\0')
        return false;
    for (; *text >= '0' && *text <= '9'; text++) {
        const uint64_t digit = (uint64_t)(*text - '0');
        if (found > (UINT64_MAX - digit) / 10)
            return false;
        found = found * 10 + digit;
    }
    *number = found;
    return *text == '\0';
}
