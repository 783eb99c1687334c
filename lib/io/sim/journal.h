/* SPDX-License-Identifier: BSD-3-Clause */
/* journal.h - what happened last in a simulation, told when it fails. */
#pragma once

#include "base/time.h"

#define URO_JOURNAL_LINE_MAX 480u

struct uro_journal;

struct uro_journal *uro_journal_make(void);
void uro_journal_free(struct uro_journal *journal);

/* Also tells every line at once: `uroce sim --trace`. */
void uro_journal_follow(struct uro_journal *journal, void (*tell)(const char *line));

/* A line of an application, or of the oracle. */
void uro_journal_note(struct uro_journal *journal, uro_time now, const char *format, ...)
    URO_PRINTF(3);

/* A frame: kept as octets, described only when told. @where says which way, e.g. "A>". */
void uro_journal_frame(struct uro_journal *journal, uro_time now, const char *where,
                       const uint8_t *octets, uint32_t length);

/* Tells the kept lines, oldest first. */
void uro_journal_tell(struct uro_journal *journal, void (*tell)(const char *line));
