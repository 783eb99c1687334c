/* SPDX-License-Identifier: BSD-3-Clause */
/* plan.h - the configured faults of a link: rules, each for some directions and packets.
 *
 * A plan is text. docs/IMPAIR.md is the reference for users.
 *
 *     plan  = rule { "/" rule }       in a file, a line is a rule, too; "#" begins a comment
 *     rule  = word { "," word }       in a file, spaces also separate words
 *     word  = "tx" | "rx" | NAME ":" VALUE
 *
 * "off" is a plan without rules.
 */
#pragma once

#include "base/time.h"

#define URO_IMPAIR_RULES_MAX  16u
#define URO_IMPAIR_RANGES_MAX 128u  /* ranges of drop: in all rules together */
#define URO_IMPAIR_TEXT_MAX   4096u /* bytes of a plan, with its NUL */
#define URO_IMPAIR_ERROR_MAX  224u
#define URO_IMPAIR_CERTAIN    1000000000u /* probabilities are in billionths */
/* Only the longest timeouts of a queue pair are longer. */
#define URO_IMPAIR_DELAY_MAX URO_MS(10000)
#define URO_IMPAIR_TIME_MAX  URO_MS(86400000)

enum uro_impair_direction { URO_IMPAIR_TX, URO_IMPAIR_RX, URO_IMPAIR_DIRECTIONS };

/* X(enumerator, "name in a trace", "name after only:") */
#define URO_IMPAIR_KINDS_X(X)                                                                      \
    X(REQUEST, "request", "requests")    /* RC, UC and XRC, to a responder; a new PSN */           \
    X(ACK, "ack", "acks")                /* ACK, NAK, RNR NAK, and the response of an atomic */    \
    X(READ, "read", "reads")             /* READ response */                                       \
    X(DATAGRAM, "datagram", "datagrams") /* UD, except to QP1 */                                   \
    X(CM, "cm", "cm")                    /* to QP1 */                                              \
    X(CNP, "cnp", "cnps")                                                                          \
    X(REPEAT, "repeat", "repeats") /* REQUEST, ACK or READ whose PSN is not new */                 \
    X(OTHER, "other", "other")     /* ARP, ND, ICMP: only delayed, limited in rate, partitioned */

enum uro_impair_kind {
#define X(id, name, plural) URO_IMPAIR_##id,
    URO_IMPAIR_KINDS_X(X)
#undef X
        URO_IMPAIR_KINDS
};

enum uro_impair_distribution {
    URO_IMPAIR_UNIFORM,     /* delay - jitter to delay + jitter */
    URO_IMPAIR_NORMAL,      /* standard deviation: jitter */
    URO_IMPAIR_EXPONENTIAL, /* delay plus a random time whose mean is the jitter */
    URO_IMPAIR_PARETO,      /* delay plus a random time with a Pareto distribution of shape 2 */
};

/* A span of time, repeated. `length` 0: none; `every` 0: once. */
struct uro_impair_window {
    uro_time from, length, every; /* ns since the plan began */
};

struct uro_impair_rule {
    unsigned directions; /* bit set of enum uro_impair_direction */
    unsigned kinds;      /* bit set of enum uro_impair_kind */
    bool has_qpn;
    uint32_t qpn; /* destination QP of the packets; valid with has_qpn */

    uint32_t loss; /* probabilities */
    uint32_t duplicate;
    uint32_t reorder;
    uint32_t mark; /* probability of a CE mark */
    uint32_t corrupt;
    bool resum; /* a corrupted packet has the right ICRC */
    /* The probability that a burst begins or ends with a packet; `enter` 0: no bursts. */
    uint32_t enter, leave;
    /* Probabilities of a loss in a burst and outside of bursts. */
    uint32_t loss_in, loss_out;
    uint32_t every; /* each packet whose number is a multiple of this is lost; 0: none */
    uint32_t first_range, range_count; /* lost packets, in uro_impair_plan.ranges */

    uro_time delay, jitter;
    enum uro_impair_distribution distribution;
    uint64_t rate;        /* bits per second; 0: no limit */
    uint64_t queue_bytes; /* bytes that may wait for the rate; 0: no limit */
    uint64_t mark_bytes;  /* waiting bytes above which a packet is marked CE; 0: no mark */

    struct uro_impair_window down; /* packets are lost */
    struct uro_impair_window flap; /* packets are lost, and the link is reported as down */
};

struct uro_impair_range {
    uint64_t first, last; /* numbers of packets of a flow, from 1 */
};

struct uro_impair_plan {
    uint64_t seed; /* 1 by default */
    uint32_t rule_count;
    uint32_t range_count;
    struct uro_impair_rule rules[URO_IMPAIR_RULES_MAX];
    struct uro_impair_range ranges[URO_IMPAIR_RANGES_MAX];
};

/* Parses @text. Returns 0, or -EINVAL; @error then has the word of the mistake and the correct
 * form. If @text has several lines, @error has the line, too. */
URO_NODISCARD int uro_impair_plan_parse(struct uro_impair_plan *plan, const char *text,
                                        char error[static URO_IMPAIR_ERROR_MAX]);

/* Initializes a plan without rules. */
void uro_impair_plan_init(struct uro_impair_plan *plan);

/* Checks the value of impair=, which is a plan, @FILE, a path or replay:FILE, without reading a
 * file. Returns NULL, or the problem, which may be in @text. */
const char *uro_impair_plan_check(const char *value, char text[static URO_IMPAIR_ERROR_MAX]);

/* Returns the path if the value of impair= names a file with a plan, else NULL. */
const char *uro_impair_plan_file(const char *value);

/* Returns the path if the value of impair= is replay:FILE, else NULL. */
const char *uro_impair_plan_replay(const char *value);

/* Returns the name of a kind in a trace: "request". */
const char *uro_impair_kind_name(enum uro_impair_kind kind);

/* Returns whether the time @elapsed since the plan began is in the window. */
bool uro_impair_window_has(const struct uro_impair_window *window, uro_time elapsed);
