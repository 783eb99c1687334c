/* SPDX-License-Identifier: BSD-3-Clause */
/* trace.h - the fates of the packets of a run as text, to replay them.
 *
 *     uroce-trace 1 program=ib_write_bw device=uroce0
 *     tx request 0 17 lose
 *     rx ack 0 3 dup delay=51234
 *
 * The first line names the version of the format, the program and the device. Each other line has a
 * direction, a kind, the number of the flow, the number of the packet in its flow from 1, and
 * effects. Packets without effect have no line. "#" begins a comment.
 */
#pragma once

#include "impair/fate.h"

#define URO_IMPAIR_TRACE_VERSION 1u
#define URO_IMPAIR_TRACE_LINE    160u /* bytes of the longest line, with newline and NUL */
#define URO_IMPAIR_NAME_MAX      32u

/* The effects of a fate, in the order of a line. X(enumerator, "text") */
#define URO_IMPAIR_EFFECTS_X(X)                                                                    \
    X(LOSE, "lose")                                                                                \
    X(DUP, "dup")                                                                                  \
    X(LATE, "late") /* overtaken by the next packet */                                             \
    X(MARK, "mark")                                                                                \
    X(CORRUPT, "corrupt=") /* followed by the number that chooses the bits, hexadecimal */         \
    X(RESUM, "resum=")                                                                             \
    X(DELAY, "delay=") /* ns */

enum uro_impair_effect {
#define X(id, text) URO_IMPAIR_EFFECT_##id,
    URO_IMPAIR_EFFECTS_X(X)
#undef X
        URO_IMPAIR_EFFECTS
};

struct uro_impair_trace_header {
    unsigned version;
    char program[URO_IMPAIR_NAME_MAX]; /* name of the program, as in /proc/PID/comm */
    char device[URO_IMPAIR_NAME_MAX];
};

struct uro_impair_trace_line {
    enum uro_impair_direction direction;
    enum uro_impair_kind kind;
    uint32_t number; /* of the flow */
    uint64_t packet; /* number in its flow, from 1 */
    struct uro_impair_fate fate;
};

/* Writes the first line, with a newline. In names, characters that are blank or not ASCII become _.
 * Returns @out. */
char *uro_impair_trace_print_header(const struct uro_impair_trace_header *header,
                                    char out[static URO_IMPAIR_TRACE_LINE]);
/* Writes a line, with a newline. Returns @out. */
char *uro_impair_trace_print(const struct uro_impair_trace_line *line,
                             char out[static URO_IMPAIR_TRACE_LINE]);

/* Parses the first line of a trace. Returns NULL, or a text that describes the mistake. For a trace
 * of another version, it still sets header->version. */
const char *uro_impair_trace_parse_header(struct uro_impair_trace_header *header, const char *text);
/* Parses a line that is not a comment. Returns NULL, or a text that describes the mistake. */
const char *uro_impair_trace_parse(struct uro_impair_trace_line *line, const char *text);

/* Compares by direction, kind, flow and packet, for qsort(). */
int uro_impair_trace_compare(const void *a, const void *b);

/* Adds the effects of @more to @fate. The values of these effects replace those of @fate. */
void uro_impair_fate_merge(struct uro_impair_fate *fate, const struct uro_impair_fate *more);
/* Returns whether the fate has the effect. */
bool uro_impair_fate_has(const struct uro_impair_fate *fate, enum uro_impair_effect effect);
/* Returns the part of @fate with only that effect. */
struct uro_impair_fate uro_impair_fate_only(const struct uro_impair_fate *fate,
                                            enum uro_impair_effect effect);

/* Joins the lines of the same packet. @lines are sorted. Returns how many lines are left. */
size_t uro_impair_trace_merge(struct uro_impair_trace_line *lines, size_t count);

/* Finds the fate of the next packet of @flow in a trace, and counts the packet. @lines are sorted
 * and merged. */
void uro_impair_trace_replay(const struct uro_impair_trace_line *lines, size_t count,
                             struct uro_impair_flow *flow, struct uro_impair_fate *fate);
