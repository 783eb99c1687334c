/* SPDX-License-Identifier: BSD-3-Clause */
/* script.h - a script of packets and expectations, read. docs/PEER.md has the language.
 *
 * The text is kept by the caller for as long as the script is used: names and texts point into it.
 */
#pragma once

#include "base/time.h"
#include "script/field.h"

#define URO_SCRIPT_STEPS_MAX  256u
#define URO_SCRIPT_FIELDS_MAX 1024u /* of all steps */
#define URO_SCRIPT_NAMES_MAX  48u   /* variables */
#define URO_SCRIPT_TERMS_MAX  3u    /* of a sum */
#define URO_SCRIPT_TEXT_MAX   200u  /* octets of one text; private data is no longer */

struct uro_script_text {
    const char *at;
    uint32_t length;
};

/* Variables that are always there; those of the script follow. */
enum uro_script_name {
    URO_NAME_PORT,    /* of the service that a connection asks for */
    URO_NAME_I,       /* times that the innermost repeat was done before */
    URO_NAME_QPN,     /* the endpoint's */
    URO_NAME_MYQPN,   /* the script's */
    URO_NAME_PSN,     /* our first */
    URO_NAME_PEERPSN, /* the endpoint's first */
    URO_NAME_LOCAL_ID,
    URO_NAME_REMOTE_ID,
    URO_NAME_ITS, /* in an answer: the PSN of what is answered */
    URO_NAME_OWN_COUNT
};

/* A sum of numbers and variables; @relative: to the first PSN of the direction. Expected, it may be
 * anything from the sum up to sum + @span. */
struct uro_script_value {
    bool relative;
    uint8_t count;
    uint64_t span;
    struct uro_script_term {
        bool minus;
        bool is_name;
        uint64_t number; /* or index of the name */
    } terms[URO_SCRIPT_TERMS_MAX];
};

struct uro_script_field {
    enum uro_field field;
    struct uro_script_value value; /* a number field's */
    struct uro_script_text text;   /* a text field's */
};

enum uro_script_kind {
    URO_STEP_QP,      /* numbers by hand instead of a connection */
    URO_STEP_SET,     /* a variable */
    URO_STEP_SEND,    /* a packet or a message */
    URO_STEP_EXPECT,  /* the next one that comes */
    URO_STEP_AWAIT,   /* the next such one; others before it are passed over */
    URO_STEP_NOTHING, /* comes for so long */
    URO_STEP_WAIT,
    URO_STEP_CONNECT, /* REQ, REP, RTU */
    URO_STEP_ACCEPT,  /* the same from the other end */
    URO_STEP_DISCONNECT,
    URO_STEP_FRESH, /* a new connection: other numbers */
    URO_STEP_REPEAT,
    URO_STEP_END,
    URO_STEP_ON,   /* from now on such packets are answered at once, and not shown */
    URO_STEP_DROP, /* from now on the Nth such packet is not shown */
};

enum uro_script_what { URO_WHAT_PACKET, URO_WHAT_MESSAGE, URO_WHAT_RAW };

/* A packet or message that is sent or expected. */
struct uro_script_subject {
    enum uro_script_what what;
    uint64_t opcodes[URO_OPCODE_WORDS]; /* of a packet; a single opcode if it is sent */
    uint8_t opcode;                     /* the lowest of them */
    enum uro_cm_kind message;
    struct uro_script_text name;
};

struct uro_script_step {
    enum uro_script_kind kind;
    uint32_t line;
    struct uro_script_text text; /* the whole line */
    struct uro_script_subject subject;
    struct uro_script_subject answer; /* ON */
    uint32_t field_first;             /* in script->fields */
    uint32_t field_count;
    uint64_t
        number;    /* REPEAT, ON: times; DROP: which one; SET: index of the name; END: its REPEAT */
    uro_time time; /* EXPECT, AWAIT: within; 0: as usual. NOTHING, WAIT: for how long */
    uro_time after;                /* EXPECT, AWAIT: not before */
    struct uro_script_value value; /* SET */
};

struct uro_script {
    struct uro_script_text title;
    struct uro_script_text rules; /* the ids of docs/PROTOCOL.md, as they are written */
    bool open;                    /* the architecture leaves it open */
    struct uro_script_step steps[URO_SCRIPT_STEPS_MAX];
    uint32_t step_count;
    struct uro_script_field fields[URO_SCRIPT_FIELDS_MAX];
    uint32_t field_count;
    struct uro_script_text names[URO_SCRIPT_NAMES_MAX];
    uint32_t name_count;
};

#define URO_SCRIPT_PROBLEM_MAX 240u
struct uro_script_problem {
    uint32_t line; /* both from 1 */
    uint32_t column;
    char text[URO_SCRIPT_PROBLEM_MAX]; /* the word, and what was expected in its place */
};

/* False, with the first thing that is wrong, when @text is no script. */
URO_NODISCARD bool uro_script_read(struct uro_script *script, const char *text, size_t length,
                                   struct uro_script_problem *problem);

/* The index of a variable, new if need be; -1: there are too many. */
int uro_script_name(struct uro_script *script, const char *name, size_t length);

/* False when it is no address. */
bool uro_script_address(const struct uro_script_text *text, struct uro_gid *gid);
