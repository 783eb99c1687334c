/* SPDX-License-Identifier: BSD-3-Clause */
/* words.h - the words of one line of a script, and the numbers and times in them. */
#pragma once

#include "script/script.h"

struct uro_words {
    struct uro_script *script;
    struct uro_script_problem *problem;
    const char *line; /* where it starts; it ends at @end, without newline and comment */
    const char *end;
    const char *at; /* what is left */
    uint32_t number;
    struct uro_script_text word; /* the one taken last */
};

/* Takes the next word, up to a blank; blanks inside quotes are part of it. False at the end. */
bool uro_words_next(struct uro_words *words);
bool uro_words_are(const struct uro_words *words, const char *text);
/* Takes the next word if it is @text. */
bool uro_words_take(struct uro_words *words, const char *text);

/* Says that the word taken last, from its octet @from on, is not what it should be. Always
 * false. */
bool uro_words_refuse(struct uro_words *words, size_t from, const char *expected);

/* All of the word from octet @from on, as what is wanted; false and refused when it is not that. */
bool uro_words_value(struct uro_words *words, size_t from, enum uro_field field,
                     struct uro_script_value *value);
bool uro_words_time(struct uro_words *words, size_t from, uro_time *time);
/* A plain number from 1 on; "3rd" is 3. */
bool uro_words_count(struct uro_words *words, size_t from, uint64_t *count);
/* Without its quotes, if it has any. */
bool uro_words_text(struct uro_words *words, size_t from, struct uro_script_text *text);
