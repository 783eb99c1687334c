/* SPDX-License-Identifier: BSD-3-Clause */
/* faults.h - what a cable does to the frames of one direction, as the user describes it.
 *
 * The verdict on a frame depends on the seed and on the number of frames sent before, on nothing else.
 */
#pragma once

#include "engine/port.h"

#define URO_CABLE_NAME_MAX 32u
#define URO_CABLE_CERTAIN  1000000000u /* probabilities are in billionths */

struct uro_cable_faults {
    char name[URO_CABLE_NAME_MAX]; /* of the cable; "": not given */
    uint64_t seed;
    uint32_t loss;      /* probability that a frame is lost */
    uint32_t duplicate; /* ... that it arrives twice */
    uint32_t reorder;   /* ... that the next frame overtakes it */
    uint32_t delay_us;  /* one way, of every frame */
    bool plugged;       /* false: the link is down */
};

/* What happens to one frame. A lost one is neither duplicated nor overtaken. */
struct uro_cable_verdict {
    bool lost, duplicated, overtaken;
};

/* No faults, plugged, no name. */
void uro_cable_faults_init(struct uro_cable_faults *faults);

/* Reads @words, "cable[,name=TEXT][,loss=P][,duplicate=P][,reorder=P][,delay_us=N][,seed=N][,plugged=yes|no]", over what
 * @faults has. P is a decimal fraction from 0 to 1. Returns 0, or -1 with a sentence in @error. */
URO_NODISCARD int uro_cable_faults_read(struct uro_cable_faults *faults, const char *words,
                                        char error[static URO_PORT_ERROR_MAX]);

/* The verdict on the frame number @number of the direction. */
struct uro_cable_verdict uro_cable_faults_judge(const struct uro_cable_faults *faults,
                                                uint64_t number);
