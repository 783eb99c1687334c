/* SPDX-License-Identifier: BSD-3-Clause */
/* field.h - the names that a script uses for the fields of packets and of CM messages.
 *
 * All fields are in one table, so that sending, matching and reporting differences need no code for
 * each field. Most fields are numbers. Bytes and addresses are texts.
 */
#pragma once

#include "wire/cm_msg.h"
#include "wire/frame.h"

enum uro_field {
    /* BTH */
    URO_FIELD_OPCODE,
    URO_FIELD_SE,
    URO_FIELD_MIGREQ,
    URO_FIELD_PAD,
    URO_FIELD_TVER,
    URO_FIELD_PKEY,
    URO_FIELD_FECN,
    URO_FIELD_BECN,
    URO_FIELD_RESV6,
    URO_FIELD_QPN,
    URO_FIELD_ACKREQ,
    URO_FIELD_RESV7,
    URO_FIELD_PSN,
    /* extension headers */
    URO_FIELD_SRQN,
    URO_FIELD_QKEY,
    URO_FIELD_SQPN,
    URO_FIELD_PLACEMENT,
    URO_FIELD_SELECTIVITY,
    URO_FIELD_VA,
    URO_FIELD_RKEY,
    URO_FIELD_DMALEN,
    URO_FIELD_SWAP,
    URO_FIELD_COMPARE,
    URO_FIELD_SYNDROME,
    URO_FIELD_MSN,
    URO_FIELD_ORIGINAL,
    URO_FIELD_IMM,
    URO_FIELD_INV,
    /* payload */
    URO_FIELD_LENGTH,
    URO_FIELD_FILL,
    URO_FIELD_PAYLOAD, /* text */
    URO_FIELD_BYTES,   /* text, of a RAW packet: all bytes after the UDP header */
    /* IP and UDP, and faults of the packet */
    URO_FIELD_FROM, /* text */
    URO_FIELD_TO,   /* text */
    URO_FIELD_TTL,
    URO_FIELD_TOS,
    URO_FIELD_FLOW,
    URO_FIELD_SPORT,
    URO_FIELD_UDPLENGTH,
    URO_FIELD_UDPSUM,
    URO_FIELD_CUT,
    URO_FIELD_ICRC,
    URO_FIELD_PACKET_END,

    /* fields of CM messages, numbered as in wire/cm_msg.h */
    URO_FIELD_CM = URO_FIELD_PACKET_END,
    URO_FIELD_TID = URO_FIELD_CM + URO_CM_FIELD_COUNT,
    URO_FIELD_PORT,       /* port of the service */
    URO_FIELD_PRIVATE,    /* text: the application's part of the private data */
    URO_FIELD_LOCAL_GID,  /* text */
    URO_FIELD_REMOTE_GID, /* text */
    URO_FIELD_COUNT
};

struct uro_field_row {
    const char *name;
    uint8_t bits;
    bool text;
    unsigned ext; /* set of extension headers that have the field; 0: in any packet */
};

extern const struct uro_field_row uro_field_rows[URO_FIELD_COUNT];

static inline bool uro_field_is_cm(enum uro_field field)
{
    return field >= URO_FIELD_CM;
}

/* Returns the largest number that the field holds. */
uint64_t uro_field_max(enum uro_field field);

/* Returns whether sums of the field are modulo its size: PSNs, MSNs, and the numbers by which an
 * endpoint names its objects. */
bool uro_field_wraps(enum uro_field field);

/* Returns the field with that name; -1: none. Packets and messages share some names: @cm chooses
 * messages. */
int uro_field_find(const char *name, size_t length, bool cm);

/* A word that stands for numbers, such as "nak_psn". A sent packet gets @send. A received number
 * matches from @low to @high. */
struct uro_field_word {
    const char *name;
    uint8_t field;
    uint8_t send, low, high;
};
const struct uro_field_word *uro_field_word(enum uro_field field, const char *name, size_t length);

/* Returns the word for a received number, or NULL. */
const char *uro_field_word_of(enum uro_field field, uint64_t number);

/* Finds the opcodes that @name means: a name of the opcode table, with or without RC_. "*" at its
 * end matches any ending, and ANY matches every opcode. Sets one bit for each opcode. Returns false
 * when there is none. */
#define URO_OPCODE_WORDS 4u
bool uro_field_opcodes(const char *name, size_t length, uint64_t set[static URO_OPCODE_WORDS]);
/* Returns the kind of CM message with that name; -1: none. */
int uro_field_message(const char *name, size_t length);
