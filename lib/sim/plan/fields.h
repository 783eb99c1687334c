/* SPDX-License-Identifier: BSD-3-Clause */
/* fields.h - the tables of the plan's structs, and the functions that draw, clear, divide and print
 * all fields of a struct. */
#pragma once

#include "sim/plan/plan.h"

enum sim_fields_kind {
    SIM_FIELDS_LINK, /* struct sim_plan */
    SIM_FIELDS_CABLE,
    SIM_FIELDS_HOST,
    SIM_FIELDS_FAULTS,
    SIM_FIELDS_PAIR,
    SIM_FIELDS_END,        /* RC, XRC */
    SIM_FIELDS_UNRELIABLE, /* the end of a pair of UC or UD */
    SIM_FIELDS_SRQ,
    SIM_FIELDS_CM,
    SIM_FIELDS_ATTACKED,
    SIM_FIELDS_KINDS
};

/* Draws the fields. Fields of a part in @without are off; the other fields do not depend on
 * @without. */
void sim_fields_draw(enum sim_fields_kind kind, void *object, struct uro_rng *rng,
                     uint32_t without);
/* Switches the fields of these parts off. */
void sim_fields_clear(enum sim_fields_kind kind, void *object, uint32_t without);
/* Divides the number of objects by @count, and the work of each object by @work. Rounds up, so that
 * only 0 becomes 0. */
void sim_fields_divide(enum sim_fields_kind kind, void *object, uint32_t count, uint32_t work);
/* Appends the names and values of the fields that belong to a part and are not off. */
void sim_fields_text(enum sim_fields_kind kind, const void *object, char *text, size_t size);

/* Returns a number @low .. @high. Small numbers are more likely than large ones. */
static inline uint32_t sim_fields_skewed(struct uro_rng *rng, uint32_t low, uint32_t high)
{
    return sim_world_between(rng, low, sim_world_between(rng, low, high));
}
