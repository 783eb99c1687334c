/* SPDX-License-Identifier: BSD-3-Clause */
/* journal.h - what happened last in a simulation, told when it fails. */
#pragma once

#include "base/time.h"

#define SIM_JOURNAL_LINE_MAX 480u

struct sim_journal;

struct sim_journal *sim_journal_make(void);
void sim_journal_free(struct sim_journal *journal);

/* Also tells every line at once: `uroce sim --trace`. */
void sim_journal_follow(struct sim_journal *journal, void (*tell)(const char *line));

/* A line of an application, or of the oracle. */
void sim_journal_note(struct sim_journal *journal, uro_time now, const char *format, ...)
    URO_PRINTF(3);

/* A frame: kept as octets, described only when told. @where says which way, e.g. "A>". */
void sim_journal_frame(struct sim_journal *journal, uro_time now, const char *where,
                       const uint8_t *octets, uint32_t length);

/* Tells the kept lines, oldest first. */
void sim_journal_tell(struct sim_journal *journal, void (*tell)(const char *line));
