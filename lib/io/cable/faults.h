/* SPDX-License-Identifier: BSD-3-Clause */
/* faults.h - the faults that a user configures for one direction of a cable.
 *
 * The faults of a frame depend only on the seed and on the number of frames sent before.
 */
#pragma once

#include "engine/port.h"

#define URO_CABLE_NAME_MAX 32u
#define URO_CABLE_CERTAIN  1000000000u /* probabilities are in billionths */

struct uro_cable_faults {
    char name[URO_CABLE_NAME_MAX]; /* name of the cable; "": not given */
    uint32_t seed;
    uint32_t loss;      /* probability that a frame is lost */
    uint32_t duplicate; /* probability that a frame arrives twice */
    uint32_t reorder;   /* probability that the next frame overtakes a frame */
    uint32_t delay_us;  /* one-way delay of every frame, us */
    bool plugged;       /* false: the link is down */
};

/* The faults of one frame. A lost frame is neither duplicated nor overtaken. */
struct uro_cable_verdict {
    bool lost, duplicated, overtaken;
};

/* Initialises @faults: no faults, plugged, no name. */
void uro_cable_faults_init(struct uro_cable_faults *faults);

/* Parses @link,
 * "cable[,name=TEXT][,loss=P][,duplicate=P][,reorder=P][,delay_us=N][,seed=N][,plugged=yes|no]",
 * into @faults; options that @link does not have keep their values. P is a decimal fraction from 0
 * to 1. Returns 0, or -1 with a message in @error. */
URO_NODISCARD int uro_cable_faults_read(struct uro_cable_faults *faults, const char *link,
                                        char error[static URO_PORT_ERROR_MAX]);

/* Returns the faults of frame number @number of the direction. */
struct uro_cable_verdict uro_cable_faults_judge(const struct uro_cable_faults *faults,
                                                uint64_t number);
