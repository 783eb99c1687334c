/* SPDX-License-Identifier: BSD-3-Clause */
/* journal.c - a ring of the last lines; see journal.h for the contract. */
#include "sim/net/journal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/text.h"

#define LINES     96u
#define FRAME_MAX 10240u

struct line {
    uro_time now;
    uint32_t length; /* of a frame; 0: text */
    char where[8];
    union {
        char text[SIM_JOURNAL_LINE_MAX];
        uint8_t octets[FRAME_MAX];
    };
};

struct sim_journal {
    void (*follow)(const char *line);
    uint64_t count;
    struct line lines[LINES];
};

struct sim_journal *sim_journal_make(void)
{
    struct sim_journal *journal = calloc(1, sizeof *journal);
    URO_ASSERT(journal != NULL);
    return journal;
}

void sim_journal_free(struct sim_journal *journal)
{
    free(journal);
}

void sim_journal_follow(struct sim_journal *journal, void (*tell)(const char *line))
{
    journal->follow = tell;
}

static void tell_line(const struct line *line, void (*tell)(const char *line))
{
    char frame[URO_TEXT_LINE_MAX];
    char out[SIM_JOURNAL_LINE_MAX + 64];

    if (line->length > 0)
        uro_text_line(line->octets, line->length, frame);
    snprintf(out, sizeof out, "%6" PRIu64 ".%06" PRIu64 " ms %-3s %.*s", line->now / 1000000,
             line->now % 1000000, line->where, (int)SIM_JOURNAL_LINE_MAX,
             line->length > 0 ? frame : line->text);
    tell(out);
}

static struct line *next_line(struct sim_journal *journal, uro_time now)
{
    struct line *line = &journal->lines[journal->count++ % LINES];
    line->now = now;
    line->length = 0;
    line->where[0] = '\0';
    return line;
}

void sim_journal_note(struct sim_journal *journal, uro_time now, const char *format, ...)
{
    struct line *line = next_line(journal, now);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line->text, sizeof line->text, format, arguments);
    va_end(arguments);
    if (journal->follow != NULL)
        tell_line(line, journal->follow);
}

void sim_journal_frame(struct sim_journal *journal, uro_time now, const char *where,
                       const uint8_t *octets, uint32_t length)
{
    struct line *line = next_line(journal, now);

    line->length = length < FRAME_MAX ? length : FRAME_MAX;
    snprintf(line->where, sizeof line->where, "%s", where);
    memcpy(line->octets, octets, line->length);
    if (journal->follow != NULL)
        tell_line(line, journal->follow);
}

void sim_journal_tell(struct sim_journal *journal, void (*tell)(const char *line))
{
    uint64_t first = journal->count > LINES ? journal->count - LINES : 0;

    for (uint64_t i = first; i < journal->count; i++)
        tell_line(&journal->lines[i % LINES], tell);
}
