/* SPDX-License-Identifier: BSD-3-Clause */
/* faults.h - the faults that a user configures for one direction of a cable.
 *
 * The faults of a frame depend only on these options and on the number of frames sent before.
 */
#pragma once

#include "engine/port.h"
#include "impair/fate.h"

#define URO_CABLE_NAME_MAX 32u
#define URO_CABLE_CERTAIN  URO_IMPAIR_CERTAIN /* probabilities are in billionths */

struct uro_cable_faults {
    char name[URO_CABLE_NAME_MAX]; /* name of the cable; "": not given */
    uint32_t seed;
    uint32_t loss;      /* probability that a frame is lost */
    uint32_t duplicate; /* probability that a frame arrives twice */
    uint32_t reorder;   /* probability that the next frame overtakes this frame */
    uint32_t delay_us;  /* one-way delay of every frame, us */
    bool plugged;       /* false: the link is down */
};

/* Initializes @faults: no faults, plugged, no name. */
void uro_cable_faults_init(struct uro_cable_faults *faults);

/* Parses @link,
 * "cable[,name=TEXT][,loss=P][,duplicate=P][,reorder=P][,delay_us=N][,seed=N][,plugged=yes|no]",
 * into @faults. Options that @link does not have keep their values. P is a decimal fraction from 0
 * to 1. Returns 0, or -1 with a message in @error. */
URO_NODISCARD int uro_cable_faults_read(struct uro_cable_faults *faults, const char *link,
                                        char error[static URO_PORT_ERROR_MAX]);

/* Writes @faults as a plan with one rule to @plan. */
void uro_cable_faults_plan(const struct uro_cable_faults *faults, struct uro_impair_plan *plan);

/* Initializes the flow of all frames of a direction. A seed gives the same fates in all versions of
 * uroce. */
void uro_cable_faults_flow(const struct uro_impair_plan *plan, struct uro_impair_flow *flow);
