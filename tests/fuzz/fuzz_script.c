/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_script.c - parses any text as a script of `uroce peer`. Every part of a valid script must be
 * inside the text. The first error of a wrong script must have a line, a column and a message.
 */
#include <stdlib.h>
#include <string.h>

#include "script/script.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Aborts unless @condition. Unlike assert(), it works in every build. */
static void demand(bool condition)
{
    if (!condition)
        abort();
}

static void inside(const struct uro_script_text *text, const char *from, size_t size)
{
    demand(text->length == 0 || (text->start >= from && text->start + text->length <= from + size));
}

static void look_at_step(const struct uro_script *script, const struct uro_script_step *step,
                         const char *text, size_t size)
{
    inside(&step->text, text, size);
    demand(step->line > 0);
    demand(step->field_count == 0 || step->field_first + step->field_count <= script->field_count);
    if (step->kind == URO_STEP_END)
        demand(script->steps[step->number].kind == URO_STEP_REPEAT);
    if (step->kind == URO_STEP_SET)
        demand(step->number >= URO_NAME_OWN_COUNT && step->number < script->name_count);
}

static void look_at_field(const struct uro_script *script, const struct uro_script_field *field,
                          const char *text, size_t size)
{
    demand(field->field < URO_FIELD_COUNT && field->value.count <= URO_SCRIPT_TERMS_MAX);
    inside(&field->text, text, size);
    for (uint8_t i = 0; i < field->value.count; i++)
        demand(!field->value.terms[i].is_name || field->value.terms[i].number < script->name_count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct uro_script script;
    struct uro_script_problem problem = { 0 };
    char *text =
        malloc(size > 0 ? size : 1); /* exact size, so that the sanitizer finds reads beyond it */

    demand(text != NULL);
    memcpy(text, data, size);
    if (uro_script_read(&script, text, size, &problem)) {
        for (uint32_t i = 0; i < script.step_count; i++)
            look_at_step(&script, &script.steps[i], text, size);
        for (uint32_t i = 0; i < script.field_count; i++)
            look_at_field(&script, &script.fields[i], text, size);
    } else {
        demand(problem.line > 0 && problem.column > 0 && problem.text[0] != '\0');
        demand(memchr(problem.text, '\0', sizeof problem.text) != NULL);
    }
    free(text);
    return 0;
}
