/* SPDX-License-Identifier: BSD-3-Clause */
/* script.c - parses a script, in which each line is a step. docs/PEER.md describes the language. */
#include "script/script.h"

#include <string.h>

#include "script/words.h"

#define NO_STEP UINT32_MAX

struct reader {
    struct uro_words words;
    struct uro_script *script;
    struct uro_script_step *step;
    uint32_t repeat; /* step of the open repeat, or NO_STEP */
};

static const char *const own_names[URO_NAME_OWN_COUNT] = {
    [URO_NAME_PORT] = "port",         [URO_NAME_I] = "i",
    [URO_NAME_QPN] = "qpn",           [URO_NAME_MYQPN] = "myqpn",
    [URO_NAME_PSN] = "psn",           [URO_NAME_PEERPSN] = "peerpsn",
    [URO_NAME_LOCAL_ID] = "local_id", [URO_NAME_REMOTE_ID] = "remote_id",
    [URO_NAME_ITS] = "its",
};

int uro_script_name(struct uro_script *script, const char *name, size_t length)
{
    for (uint32_t i = 0; i < script->name_count; i++)
        if (script->names[i].length == length && memcmp(script->names[i].start, name, length) == 0)
            return (int)i;
    if (script->name_count == URO_SCRIPT_NAMES_MAX)
        return -1;
    script->names[script->name_count] = (struct uro_script_text){ name, (uint32_t)length };
    return (int)script->name_count++;
}

bool uro_script_address(const struct uro_script_text *text, struct uro_gid *gid)
{
    char copy[URO_GID_TEXT_MAX];

    if (text->length >= sizeof copy)
        return false;
    memcpy(copy, text->start, text->length);
    copy[text->length] = '\0';
    return uro_gid_parse(copy, gid);
}

/* ---- subjects and fields --------------------------------------------------------------------- */

static bool is_one(const struct uro_script_subject *subject)
{
    unsigned count = 0;

    for (unsigned i = 0; i < URO_OPCODE_WORDS; i++)
        count += (unsigned)__builtin_popcountll(subject->opcodes[i]);
    return count == 1;
}

static bool read_subject(struct reader *r, bool send, struct uro_script_subject *subject)
{
    struct uro_words *words = &r->words;

    if (!uro_words_next(words))
        return uro_words_refuse(words, 0,
                                "the name of a packet, such as SEND_ONLY, or of a message");
    const struct uro_script_text name = words->word;
    *subject = (struct uro_script_subject){ .kind = URO_SUBJECT_PACKET, .name = name };
    int message = uro_field_message(name.start, name.length);
    if (message >= 0) {
        subject->kind = URO_SUBJECT_MESSAGE;
        subject->message = (enum uro_cm_kind)message;
        return true;
    }
    if (send && uro_words_are(words, "RAW")) {
        subject->kind = URO_SUBJECT_RAW;
        return true;
    }
    if (!uro_field_opcodes(name.start, name.length, subject->opcodes))
        return uro_words_refuse(words, 0,
                                "a packet such as SEND_ONLY, READ_REQUEST or "
                                "UC_WRITE_FIRST, or a message such as REQ");
    if (send && !is_one(subject))
        return uro_words_refuse(words, 0, "one packet, not several");
    while ((subject->opcodes[subject->opcode / 64] >> subject->opcode % 64 & 1) == 0)
        subject->opcode++;
    return true;
}

/* Returns whether the packet has the field. A missing field cannot be sent and never matches. */
static bool has_field(const struct uro_script_subject *subject, enum uro_field field)
{
    const unsigned ext = uro_field_rows[field].ext;

    if (subject->kind == URO_SUBJECT_RAW)
        return field >= URO_FIELD_BYTES;
    if (field == URO_FIELD_BYTES)
        return false;
    return subject->kind == URO_SUBJECT_MESSAGE || !is_one(subject) || ext == 0 ||
           (uro_opcodes[subject->opcode].ext & ext) != 0;
}

static bool is_text_of(struct uro_words *words, size_t from, const struct uro_script_field *field)
{
    struct uro_gid gid;

    switch ((unsigned)field->field) {
    case URO_FIELD_FROM:
    case URO_FIELD_TO:
    case URO_FIELD_LOCAL_GID:
    case URO_FIELD_REMOTE_GID:
        return uro_script_address(&field->text, &gid) ||
               uro_words_refuse(words, from, "an IPv4 or IPv6 address");
    default:
        return true;
    }
}

static bool read_field(struct reader *r, const struct uro_script_subject *subject)
{
    struct uro_words *words = &r->words;
    const struct uro_script_text word = words->word;
    const char *equals = memchr(word.start, '=', word.length);
    const size_t name = equals != NULL ? (size_t)(equals - word.start) : word.length;
    const bool cm = subject->kind == URO_SUBJECT_MESSAGE;
    const int field = uro_field_find(word.start, name, cm);

    if (field < 0)
        return uro_words_refuse(words, 0,
                                cm ? "a field of a message, such as port=7471"
                                   : "a field of a packet, such as psn=+1 or ackreq");
    if (!has_field(subject, (enum uro_field)field))
        return uro_words_refuse(words, 0, "a field that this packet has");
    if (r->script->field_count == URO_SCRIPT_FIELDS_MAX)
        return uro_words_refuse(words, 0, "fewer fields: the script has too many");
    struct uro_script_field *to = &r->script->fields[r->script->field_count++];
    *to = (struct uro_script_field){ .field = (enum uro_field)field };
    r->step->field_count++;
    if (equals == NULL) {
        to->value = (struct uro_script_value){ .count = 1, .terms = { { .number = 1 } } };
        return uro_field_rows[field].bits == 1 ||
               uro_words_refuse(words, word.length, "= and a value");
    }
    if (uro_field_rows[field].text)
        return uro_words_text(words, name + 1, &to->text) && is_text_of(words, name + 1, to);
    return uro_words_value(words, name + 1, to->field, &to->value);
}

/* Reads an option of an expectation, which may be given between its fields. */
static bool read_patience(struct reader *r, bool *taken)
{
    struct uro_words *words = &r->words;
    const bool within = uro_words_are(words, "within");

    *taken = within || uro_words_are(words, "after");
    if (!*taken)
        return true;
    if (!uro_words_next(words))
        return uro_words_refuse(words, 0, "a time such as 500us, 200ms or 2s");
    return uro_words_time(words, 0, within ? &r->step->time : &r->step->after);
}

static bool read_fields(struct reader *r, const struct uro_script_subject *subject, bool expected)
{
    r->step->field_first = r->script->field_count;
    while (uro_words_next(&r->words)) {
        bool taken = false;
        if (expected && !read_patience(r, &taken))
            return false;
        if (!taken && !read_field(r, subject))
            return false;
    }
    return true;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static bool read_send(struct reader *r)
{
    return read_subject(r, true, &r->step->subject) && read_fields(r, &r->step->subject, false);
}

static bool read_expect(struct reader *r)
{
    return read_subject(r, false, &r->step->subject) && read_fields(r, &r->step->subject, true);
}

static bool read_time(struct reader *r)
{
    return (uro_words_next(&r->words) || uro_words_refuse(&r->words, 0, "a time such as 200ms")) &&
           uro_words_time(&r->words, 0, &r->step->time);
}

/* Reads connect and accept: a port, then fields of our message. */
static bool read_connect(struct reader *r)
{
    struct uro_words *words = &r->words;
    struct uro_script_step *step = r->step;

    step->subject =
        (struct uro_script_subject){ .kind = URO_SUBJECT_MESSAGE,
                                     .message =
                                         step->kind == URO_STEP_CONNECT ? URO_CM_REQ : URO_CM_REP };
    if (!uro_words_next(words))
        return uro_words_refuse(words, 0, "a port, such as 7471 or $port");
    return uro_words_value(words, 0, URO_FIELD_PORT, &step->value) &&
           read_fields(r, &step->subject, false);
}

static bool begins(const struct uro_script_text *word, const char *with)
{
    const size_t length = strlen(with);

    return word->length >= length && memcmp(word->start, with, length) == 0;
}

/* Reads "qp qpn=.. myqpn=.. psn=.. peerpsn=..", which sets the variables of a connection. */
static bool read_qp(struct reader *r)
{
    static const struct {
        const char *name;
        enum uro_script_name is;
        enum uro_field as;
    } numbers[] = { { "qpn=", URO_NAME_QPN, URO_FIELD_QPN },
                    { "myqpn=", URO_NAME_MYQPN, URO_FIELD_QPN },
                    { "psn=", URO_NAME_PSN, URO_FIELD_PSN },
                    { "peerpsn=", URO_NAME_PEERPSN, URO_FIELD_PSN } };
    struct uro_words *words = &r->words;

    while (uro_words_next(words)) {
        size_t i = 0;
        while (i < URO_ARRAY_LEN(numbers) && !begins(&words->word, numbers[i].name))
            i++;
        if (i == URO_ARRAY_LEN(numbers))
            return uro_words_refuse(words, 0, "qpn=, myqpn=, psn= or peerpsn=");
        if (r->script->field_count == URO_SCRIPT_FIELDS_MAX)
            return uro_words_refuse(words, 0, "fewer fields: the script has too many");
        struct uro_script_field *to = &r->script->fields[r->script->field_count++];
        *to = (struct uro_script_field){ .field = (enum uro_field)numbers[i].is };
        if (r->step->field_count++ == 0)
            r->step->field_first = r->script->field_count - 1;
        if (!uro_words_value(words, strlen(numbers[i].name), numbers[i].as, &to->value))
            return false;
    }
    return r->step->field_count > 0 || uro_words_refuse(words, 0, "qpn=, myqpn=, psn= or peerpsn=");
}

static bool read_set(struct reader *r)
{
    struct uro_words *words = &r->words;

    (void)uro_words_next(words);
    const char *equals = memchr(words->word.start, '=', words->word.length);
    if (equals == NULL || equals == words->word.start)
        return uro_words_refuse(words, 0, "NAME=VALUE");
    const size_t length = (size_t)(equals - words->word.start);
    const int name = uro_script_name(r->script, words->word.start, length);
    if (name < URO_NAME_OWN_COUNT)
        return uro_words_refuse(words, 0,
                                name < 0 ? "fewer variables: the script has too many"
                                         : "another name: `uroce peer` sets this variable itself");
    r->step->number = (uint64_t)name;
    return uro_words_value(words, length + 1, URO_FIELD_COUNT, &r->step->value);
}

static bool read_repeat(struct reader *r)
{
    if (r->repeat != NO_STEP)
        return uro_words_refuse(&r->words, 0, "no repeat inside another");
    r->repeat = (uint32_t)(r->step - r->script->steps);
    return (uro_words_next(&r->words) || uro_words_refuse(&r->words, 0, "a count")) &&
           uro_words_count(&r->words, 0, &r->step->number);
}

static bool read_end(struct reader *r)
{
    if (r->repeat == NO_STEP)
        return uro_words_refuse(&r->words, 0, "a repeat before it");
    r->step->number = r->repeat;
    r->repeat = NO_STEP;
    return true;
}

static bool is_packet(struct reader *r, const struct uro_script_subject *subject)
{
    return subject->kind == URO_SUBJECT_PACKET ||
           uro_words_refuse(&r->words, 0, "a packet, not a message");
}

/* Reads "on PACKET [COUNT times] send PACKET fields". */
static bool read_on(struct reader *r)
{
    struct uro_words *words = &r->words;
    struct uro_script_step *step = r->step;

    step->number = UINT64_MAX;
    if (!read_subject(r, false, &step->subject) || !is_packet(r, &step->subject))
        return false;
    if (!uro_words_take(words, "send")) {
        (void)uro_words_next(words);
        if (!uro_words_count(words, 0, &step->number))
            return false;
        if (!uro_words_take(words, "times") || !uro_words_take(words, "send")) {
            (void)uro_words_next(words);
            return uro_words_refuse(words, 0, "[COUNT times] send PACKET");
        }
    }
    return read_subject(r, true, &step->answer) && is_packet(r, &step->answer) &&
           read_fields(r, &step->answer, false);
}

/* Reads "drop [3rd] PACKET". */
static bool read_drop(struct reader *r)
{
    struct uro_words ahead = r->words;

    r->step->number = 1;
    if (uro_words_next(&ahead) && ahead.word.start[0] >= '0' && ahead.word.start[0] <= '9') {
        r->words = ahead;
        if (!uro_words_count(&r->words, 0, &r->step->number))
            return false;
    }
    return read_subject(r, false, &r->step->subject) && is_packet(r, &r->step->subject);
}

static bool read_nothing_more(struct reader *r)
{
    (void)r;
    return true;
}

static const struct directive {
    const char *name;
    enum uro_script_kind kind;
    bool (*read)(struct reader *r);
} directives[] = {
    { "qp", URO_STEP_QP, read_qp },
    { "set", URO_STEP_SET, read_set },
    { "send", URO_STEP_SEND, read_send },
    { "expect", URO_STEP_EXPECT, read_expect },
    { "await", URO_STEP_AWAIT, read_expect },
    { "nothing", URO_STEP_NOTHING, read_time },
    { "wait", URO_STEP_WAIT, read_time },
    { "connect", URO_STEP_CONNECT, read_connect },
    { "accept", URO_STEP_ACCEPT, read_connect },
    { "disconnect", URO_STEP_DISCONNECT, read_nothing_more },
    { "fresh", URO_STEP_FRESH, read_nothing_more },
    { "repeat", URO_STEP_REPEAT, read_repeat },
    { "end", URO_STEP_END, read_end },
    { "on", URO_STEP_ON, read_on },
    { "drop", URO_STEP_DROP, read_drop },
};

#define DIRECTIVES                                                                                 \
    "connect, accept, qp, send, expect, await, nothing, wait, repeat, end, on, drop, set, fresh, " \
    "disconnect, title, rule or open"

static bool read_step(struct reader *r)
{
    struct uro_words *words = &r->words;
    struct uro_script *script = r->script;
    size_t i = 0;

    while (i < URO_ARRAY_LEN(directives) && !uro_words_are(words, directives[i].name))
        i++;
    if (i == URO_ARRAY_LEN(directives))
        return uro_words_refuse(words, 0, DIRECTIVES);
    if (script->step_count == URO_SCRIPT_STEPS_MAX)
        return uro_words_refuse(words, 0, "fewer steps: the script has more than 256");
    r->step = &script->steps[script->step_count++];
    *r->step = (struct uro_script_step){ .kind = directives[i].kind,
                                         .line = words->number,
                                         .text = { words->word.start,
                                                   (uint32_t)(words->end - words->word.start) } };
    if (!directives[i].read(r))
        return false;
    return !uro_words_next(words) || uro_words_refuse(words, 0, "the end of the line");
}

static struct uro_script_text rest(const struct uro_words *words)
{
    const char *pos = words->pos;

    while (pos < words->end && *pos == ' ')
        pos++;
    return (struct uro_script_text){ pos, (uint32_t)(words->end - pos) };
}

static bool read_line(struct reader *r)
{
    if (!uro_words_next(&r->words))
        return true;
    if (uro_words_are(&r->words, "title"))
        r->script->title = rest(&r->words);
    else if (uro_words_are(&r->words, "rule"))
        r->script->rules = rest(&r->words);
    else if (uro_words_are(&r->words, "open"))
        r->script->open = true;
    else
        return read_step(r);
    return true;
}

/* Returns the end of the line that starts at @pos, without comment, spaces and newline. */
static const char *line_end(const char *pos, const char *newline)
{
    const char *end = pos;
    bool quoted = false;

    while (end < newline && (quoted || *end != '#'))
        quoted ^= *end++ == '"';
    while (end > pos && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
        end--;
    return end;
}

bool uro_script_read(struct uro_script *script, const char *text, size_t length,
                     struct uro_script_problem *problem)
{
    struct reader r = { .words = { .script = script, .problem = problem },
                        .script = script,
                        .repeat = NO_STEP };
    const char *const end = text + length;

    memset(script, 0, sizeof *script);
    for (unsigned i = 0; i < URO_NAME_OWN_COUNT; i++)
        (void)uro_script_name(script, own_names[i], strlen(own_names[i]));
    for (const char *pos = text; pos < end;) {
        const char *newline = memchr(pos, '\n', (size_t)(end - pos));
        if (newline == NULL)
            newline = end;
        r.words.line = r.words.pos = pos;
        r.words.end = line_end(pos, newline);
        r.words.number++;
        if (!read_line(&r))
            return false;
        pos = newline + 1;
    }
    if (r.repeat == NO_STEP)
        return true;
    (void)uro_words_refuse(&r.words, r.words.word.length, "an end for the repeat of this line");
    problem->line = script->steps[r.repeat].line;
    problem->column = 1;
    return false;
}
