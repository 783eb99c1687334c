/* SPDX-License-Identifier: BSD-3-Clause */
/* port.h - a port that wraps another port, and loses, delays and changes its frames: the option
 * impair=.
 *
 * All sent and received frames pass the fault model of lib/impair. Delayed frames are copied to a
 * queue for each direction. While a queue is full, the port accepts no more frames from the host,
 * or from the link.
 */
#pragma once

#include "engine/port.h"
#include "io/impair/trace_file.h"

#define URO_IMPAIR_PORT_SLOTS 8192u /* maximum number of delayed frames in each direction */

/* Counters of all packets, and of the packets with each effect. X(enumerator, "name") */
#define URO_IMPAIR_COUNTS_X(X)                                                                     \
    X(PACKETS, "packets")                                                                          \
    X(LOST, "lost")                                                                                \
    X(DUPLICATED, "duplicated")                                                                    \
    X(REORDERED, "reordered")                                                                      \
    X(CORRUPTED, "corrupted")                                                                      \
    X(MARKED, "marked")                                                                            \
    X(DELAYED, "delayed")

enum uro_impair_count {
#define X(id, name) URO_IMPAIR_COUNT_##id,
    URO_IMPAIR_COUNTS_X(X)
#undef X
        URO_IMPAIR_COUNTS
};

struct uro_impair_port_config {
    const struct uro_impair_plan *plan;  /* the port copies it */
    bool replays;                        /* the fates of `replay` are used instead of the plan */
    struct uro_impair_trace replay;      /* the port frees it */
    struct uro_impair_trace_file *trace; /* file to which the fates are written; the port closes
                                            it */
    uro_time (*now)(void);               /* the clock of the host */
    /* Called by receive() and link_up(). Writes a new plan and returns true if the plan must
     * change. NULL: never. */
    bool (*changed)(void *context, struct uro_impair_plan *plan);
    /* Called for each received frame that is lost. NULL: never. */
    void (*lost)(void *context, const struct uro_pkt *pkt,
                 const struct uro_impair_trace_line *line);
    void *context;
};

/* Opens a port around @inner. Closing the port closes @inner. Returns NULL when out of memory: the
 * caller then still owns @inner and the objects of @config. */
struct uro_port *uro_impair_port_open(struct uro_port *inner,
                                      const struct uro_impair_port_config *config);

/* Returns the counters of a port that uro_impair_port_open() opened. */
const uint64_t *uro_impair_port_counts(const struct uro_port *port);

/* Returns the fate of frame @index of the last uro_port_transmit() (URO_IMPAIR_TX), or of the last
 * uro_port_receive() whose frames are not released yet (URO_IMPAIR_RX). Returns NULL if the frame
 * passed unchanged. */
const struct uro_impair_trace_line *uro_impair_port_line(const struct uro_port *port,
                                                         enum uro_impair_direction direction,
                                                         uint32_t index);

/* Returns the errno of a failed write of the trace, or 0. An error is returned only once. */
int uro_impair_port_trace_error(struct uro_port *port);
