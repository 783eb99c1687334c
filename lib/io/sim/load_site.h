/* SPDX-License-Identifier: BSD-3-Clause */
/* load_site.h - a station and all loads that use it: what the station tells goes to the one it is of.
 *
 * A load is between two stations. A station may have several: its queue pairs, keys, services and
 * groups towards different peers live together in one engine.
 */
#pragma once

#include "io/sim/load.h"

#define URO_LOAD_SITE_TIES_MAX 8u

struct uro_load_site {
    struct uro_station *station;
    uint32_t tie_count;
    struct uro_load_tie {
        struct uro_load *load;
        unsigned side; /* of the load, that this station is */
    } ties[URO_LOAD_SITE_TIES_MAX];
};

/* Takes what @station tells. */
void uro_load_site_init(struct uro_load_site *site, struct uro_station *station);
void uro_load_site_tie(struct uro_load_site *site, struct uro_load *load, unsigned side);
