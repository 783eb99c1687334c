/* SPDX-License-Identifier: BSD-3-Clause */
/* script.h - a parsed script of packets and expectations. docs/PEER.md describes the language.
 *
 * The caller keeps the text while the script is in use: names and texts point into it.
 */
#pragma once

#include "base/time.h"
#include "script/field.h"

#define URO_SCRIPT_STEPS_MAX  256u
#define URO_SCRIPT_FIELDS_MAX 1024u /* fields of all steps together */
#define URO_SCRIPT_NAMES_MAX  48u   /* names of variables */
#define URO_SCRIPT_TERMS_MAX  3u    /* terms of a sum */
#define URO_SCRIPT_TEXT_MAX   200u  /* bytes of one text; enough for any private data */

struct uro_script_text {
    const char *start;
    uint32_t length;
};

/* Predefined variables. The variables of the script follow them. */
enum uro_script_name {
    URO_NAME_PORT,    /* port of the service of a connection */
    URO_NAME_I,       /* number of earlier rounds of the repeat */
    URO_NAME_QPN,     /* QPN of the endpoint */
    URO_NAME_MYQPN,   /* QPN of the script */
    URO_NAME_PSN,     /* our first PSN */
    URO_NAME_PEERPSN, /* the endpoint's first PSN */
    URO_NAME_LOCAL_ID,
    URO_NAME_REMOTE_ID,
    URO_NAME_ITS, /* in an answer: PSN of the answered packet */
    URO_NAME_OWN_COUNT
};

/* A sum of numbers and variables. @relative: relative to the first PSN of the direction. An
 * expected number matches from the sum up to sum + @span. */
struct uro_script_value {
    bool relative;
    uint8_t count;
    uint64_t span;
    struct uro_script_term {
        bool minus;
        bool is_name;
        uint64_t number; /* number, or index of a name */
    } terms[URO_SCRIPT_TERMS_MAX];
};

struct uro_script_field {
    enum uro_field field;          /* step QP: index of a name */
    struct uro_script_value value; /* value of a number field */
    struct uro_script_text text;   /* text of a text field */
};

enum uro_script_kind {
    URO_STEP_QP,      /* sets the numbers of a connection by hand */
    URO_STEP_SET,     /* sets a variable */
    URO_STEP_SEND,    /* sends a packet or a message */
    URO_STEP_EXPECT,  /* expects a certain packet next */
    URO_STEP_AWAIT,   /* expects a certain packet; skips other packets before it */
    URO_STEP_NOTHING, /* expects no packet for some time */
    URO_STEP_WAIT,
    URO_STEP_CONNECT, /* active connect: REQ, REP, RTU */
    URO_STEP_ACCEPT,  /* passive side of the same exchange */
    URO_STEP_DISCONNECT,
    URO_STEP_FRESH, /* chooses new numbers for a new connection */
    URO_STEP_REPEAT,
    URO_STEP_END,
    URO_STEP_ON,   /* answers such packets at once from now on; steps do not see them */
    URO_STEP_DROP, /* drops the Nth such packet from now on; steps do not see it */
};

enum uro_script_subject_kind { URO_SUBJECT_PACKET, URO_SUBJECT_MESSAGE, URO_SUBJECT_RAW };

/* A packet or message that is sent or expected. */
struct uro_script_subject {
    enum uro_script_subject_kind kind;
    uint64_t opcodes[URO_OPCODE_WORDS]; /* opcodes of a packet; a single opcode if it is sent */
    uint8_t opcode;                     /* the lowest of these opcodes */
    enum uro_cm_kind message;
    struct uro_script_text name;
};

struct uro_script_step {
    enum uro_script_kind kind;
    uint32_t line;
    struct uro_script_text text; /* the whole line */
    struct uro_script_subject subject;
    struct uro_script_subject answer; /* ON */
    uint32_t field_first;             /* index in script->fields */
    uint32_t field_count;
    /* REPEAT, ON: number of times; DROP: number of the packet; SET: index of the name; END: step
     * of its REPEAT. */
    uint64_t number;
    uro_time time;                 /* EXPECT, AWAIT: timeout; 0: default. NOTHING, WAIT: duration */
    uro_time after;                /* EXPECT, AWAIT: shortest time from the start of the step */
    struct uro_script_value value; /* SET: the value; CONNECT, ACCEPT: the port */
};

struct uro_script {
    struct uro_script_text title;
    struct uro_script_text rules; /* IDs of rules in docs/PROTOCOL.md */
    bool open;                    /* the specification allows other behaviour, too */
    struct uro_script_step steps[URO_SCRIPT_STEPS_MAX];
    uint32_t step_count;
    struct uro_script_field fields[URO_SCRIPT_FIELDS_MAX];
    uint32_t field_count;
    struct uro_script_text names[URO_SCRIPT_NAMES_MAX];
    uint32_t name_count;
};

#define URO_SCRIPT_PROBLEM_MAX 240u
struct uro_script_problem {
    uint32_t line; /* line and column, from 1 */
    uint32_t column;
    char text[URO_SCRIPT_PROBLEM_MAX]; /* the wrong word, and what was expected */
};

/* Parses @text. Returns false, with the first error in @problem, when it is not a valid script. */
URO_NODISCARD bool uro_script_read(struct uro_script *script, const char *text, size_t length,
                                   struct uro_script_problem *problem);

/* Returns the index of a variable, which is added if it is new; -1: there are too many. */
int uro_script_name(struct uro_script *script, const char *name, size_t length);

/* Parses an address. Returns false when the text is not an address. */
bool uro_script_address(const struct uro_script_text *text, struct uro_gid *gid);
