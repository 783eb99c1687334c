/* SPDX-License-Identifier: BSD-3-Clause */
/* faults.c - see faults.h. */
#include "io/cable/faults.h"

#include <stdlib.h>
#include <string.h>

#include "io/plugin/words.h"

#define DRIVER       "cable"
#define DELAY_US_MAX 10000000u

void uro_cable_faults_init(struct uro_cable_faults *faults)
{
    *faults = (struct uro_cable_faults){ .seed = 1, .plugged = true };
}

/* Parses "1", "0.05" or ".05"; ignores digits after the ninth decimal place. */
static bool read_probability(const char *value, uint32_t *out)
{
    uint32_t whole = 0, fraction = 0, unit = URO_CABLE_CERTAIN;
    bool digits = false;

    for (; *value >= '0' && *value <= '9' && whole <= 1; value++, digits = true)
        whole = whole * 10 + (uint32_t)(*value - '0');
    if (*value == '.')
        for (value++; *value >= '0' && *value <= '9'; value++, digits = true) {
            unit /= 10;
            fraction += unit * (uint32_t)(*value - '0');
        }
    if (!digits || *value != '\0' || whole > 1 || (whole == 1 && fraction > 0))
        return false;
    *out = whole == 1 ? URO_CABLE_CERTAIN : fraction;
    return true;
}

static bool read_name(const char *value, void *into)
{
    struct uro_cable_faults *faults = into;
    const size_t length = strlen(value);

    if (length == 0 || length >= sizeof faults->name)
        return false;
    memcpy(faults->name, value, length + 1);
    return true;
}

static bool read_loss(const char *value, void *into)
{
    return read_probability(value, &((struct uro_cable_faults *)into)->loss);
}

static bool read_duplicate(const char *value, void *into)
{
    return read_probability(value, &((struct uro_cable_faults *)into)->duplicate);
}

static bool read_reorder(const char *value, void *into)
{
    return read_probability(value, &((struct uro_cable_faults *)into)->reorder);
}

static bool read_delay(const char *value, void *into)
{
    return uro_words_number(value, 0, DELAY_US_MAX, 1,
                            &((struct uro_cable_faults *)into)->delay_us);
}

static bool read_seed(const char *value, void *into)
{
    uint32_t seed;

    if (!uro_words_number(value, 0, UINT32_MAX, 1, &seed))
        return false;
    ((struct uro_cable_faults *)into)->seed = seed;
    return true;
}

static bool read_plugged(const char *value, void *into)
{
    return uro_words_either(value, "yes", "no", &((struct uro_cable_faults *)into)->plugged);
}

static const struct uro_word known[] = {
    { "name", "1 to 31 characters", read_name, false },
    { "loss", "a probability such as 0.01", read_loss, false },
    { "duplicate", "a probability such as 0.01", read_duplicate, false },
    { "reorder", "a probability such as 0.01", read_reorder, false },
    { "delay_us", "a number of microseconds from 0 to 10000000", read_delay, false },
    { "seed", "a number of at most 32 bits", read_seed, false },
    { "plugged", "yes or no", read_plugged, false },
};

int uro_cable_faults_read(struct uro_cable_faults *faults, const char *words,
                          char error[static URO_PORT_ERROR_MAX])
{
    return uro_words_read(DRIVER, words, known, URO_ARRAY_LEN(known), faults, error);
}

/* Mixes the bits of @value: the finalizer of MurmurHash3. */
static uint64_t mix(uint64_t value)
{
    value ^= value >> 33;
    value *= UINT64_C(0xff51afd7ed558ccd);
    value ^= value >> 33;
    value *= UINT64_C(0xc4ceb9fe1a85ec53);
    return value ^ value >> 33;
}

enum { LOSS = 1, DUPLICATE, REORDER };

static bool happens(const struct uro_cable_faults *faults, uint64_t number, uint64_t what,
                    uint32_t probability)
{
    return mix(mix(mix(faults->seed) + what) + number) % URO_CABLE_CERTAIN < probability;
}

struct uro_cable_verdict uro_cable_faults_judge(const struct uro_cable_faults *faults,
                                                uint64_t number)
{
    const bool lost = happens(faults, number, LOSS, faults->loss);

    return (struct uro_cable_verdict){
        .lost = lost,
        .duplicated = !lost && happens(faults, number, DUPLICATE, faults->duplicate),
        .overtaken = !lost && happens(faults, number, REORDER, faults->reorder),
    };
}
