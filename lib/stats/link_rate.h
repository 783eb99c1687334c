/* SPDX-License-Identifier: BSD-3-Clause */
/* link_rate.h - the speeds that a port can have: pairs of a link width and a lane speed. */
#pragma once

#include "base/defs.h"

struct uro_link_rate {
    uint32_t speed;     /* Mb/s */
    uint8_t width_code; /* ibv_port_attr.active_width */
    uint8_t speed_code; /* ibv_port_attr.active_speed */
    const char *text;   /* the file `rate` in /sys: "100 Gb/sec (4X EDR)" */
};

/* Returns the fastest rate that is not above @speed, in Mb/s. If there is none, returns the slowest
 * rate, 2.5 Gb/s. */
const struct uro_link_rate *uro_link_rate_of(uint32_t speed);

/* Parses Gb/s as a user writes it, such as "100" or "2.5". Returns NULL if no rate has exactly this
 * speed. */
const struct uro_link_rate *uro_link_rate_parse(const char *text);
