/* SPDX-License-Identifier: BSD-3-Clause */
/* faults.c - see faults.h. */
#include "io/cable/faults.h"

#include <stddef.h>
#include <string.h>

#include "impair/hash.h"
#include "io/cable/port.h"
#include "io/common/link_options.h"

#define DELAY_US_MAX 10000000u

void uro_cable_faults_init(struct uro_cable_faults *faults)
{
    *faults = (struct uro_cable_faults){ .seed = 1, .plugged = true };
}

/* Parses "1", "0.05" or ".05"; ignores digits after the ninth decimal place. */
static bool read_probability(const char *value, void *member)
{
    uint32_t *out = member;
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

#define PROBABILITY(field)                                                                         \
    URO_OPTION_OTHER, .read = read_probability, .expects = "a probability such as 0.01",           \
                      .member = offsetof(struct uro_cable_faults, field)

static const struct uro_link_option options[] = {
    { "name", "name of the cable; both ends have the same", URO_OPTION_TEXT, .min = 1,
      .max = URO_CABLE_NAME_MAX - 1, .member = offsetof(struct uro_cable_faults, name) },
    { "loss", "probability that a frame is lost", PROBABILITY(loss) },
    { "duplicate", "probability that a frame arrives twice", PROBABILITY(duplicate) },
    { "reorder", "probability that the next frame overtakes a frame", PROBABILITY(reorder) },
    { "delay_us", "one-way delay of each frame", URO_OPTION_NUMBER, .max = DELAY_US_MAX,
      .unit = "microseconds", .member = offsetof(struct uro_cable_faults, delay_us) },
    { "seed", "seed of the faults", URO_OPTION_NUMBER, .max = UINT32_MAX,
      .member = offsetof(struct uro_cable_faults, seed) },
    { "plugged", "no: the link is down", URO_OPTION_YES_NO,
      .member = offsetof(struct uro_cable_faults, plugged) },
};

const struct uro_port_driver uro_cable_driver = {
    .prefix = "cable",
    .text = "a cable between two devices of one process",
    .default_mtu = URO_PORT_MTU_MEMORY,
    .option_count = URO_ARRAY_LEN(options),
    .options = options,
    .open = uro_cable_port_open,
};

int uro_cable_faults_read(struct uro_cable_faults *faults, const char *link,
                          char error[static URO_PORT_ERROR_MAX])
{
    return uro_link_options_read(&uro_cable_driver, link, faults, NULL, error);
}

void uro_cable_faults_plan(const struct uro_cable_faults *faults, struct uro_impair_plan *plan)
{
    uro_impair_plan_init(plan);
    plan->seed = faults->seed;
    plan->rule_count = 1;
    plan->rules[0] = (struct uro_impair_rule){ .loss = faults->loss,
                                               .duplicate = faults->duplicate,
                                               .reorder = faults->reorder,
                                               .delay = URO_US(faults->delay_us) };
}

void uro_cable_faults_flow(const struct uro_impair_plan *plan, struct uro_impair_flow *flow)
{
    *flow = (struct uro_impair_flow){ .key = uro_impair_mix(plan->seed), .rules = 1 };
}
