/* SPDX-License-Identifier: BSD-3-Clause */
/* words.h - splits a line of a script into words, and reads their numbers and times. */
#pragma once

#include "script/script.h"

struct uro_words {
    struct uro_script *script;
    struct uro_script_problem *problem;
    const char *line; /* start of the line; @end is its end, without newline and comment */
    const char *end;
    const char *pos; /* start of the rest of the line */
    uint32_t number;
    struct uro_script_text word; /* the last word taken */
};

/* Takes the next word, up to a space. A quoted part may contain spaces. Returns false at the end of
 * the line. */
bool uro_words_next(struct uro_words *words);
bool uro_words_are(const struct uro_words *words, const char *text);
/* Takes the next word if it is @text. Returns whether the word was taken. */
bool uro_words_take(struct uro_words *words, const char *text);

/* Reports that the last word is wrong from its byte @from on. Always returns false. */
bool uro_words_refuse(struct uro_words *words, size_t from, const char *expected);

/* Reads the word from byte @from on as a value or a time. Reports an error and returns false when
 * the word is something else. */
bool uro_words_value(struct uro_words *words, size_t from, enum uro_field field,
                     struct uro_script_value *value);
bool uro_words_time(struct uro_words *words, size_t from, uro_time *time);
/* Reads a plain number of at least 1; "3rd" is 3. */
bool uro_words_count(struct uro_words *words, size_t from, uint64_t *count);
/* Reads a text, and removes its quotes if it has any. */
bool uro_words_text(struct uro_words *words, size_t from, struct uro_script_text *text);
