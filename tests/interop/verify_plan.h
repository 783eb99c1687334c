/* SPDX-License-Identifier: BSD-3-Clause */
/* verify_plan.h - the steps of verify. A step has messages of one operation and size.
 *
 * Both ends compute the exact contents of the requester's local area and of the responder's target
 * area, before and after the step. Each message has its own slot with canaries around it. Before a
 * step, the ends write the first contents to the areas. After the step, they compare the areas with
 * the second contents.
 */
#pragma once

#include "verify.h"

#define MAX_VERBS 4
#define MAX_SIZES 6

enum verb {
    SEND,
    SEND_IMM,
    WRITE,
    WRITE_IMM,
    READ,
    READ_BACK, /* reads the bytes that the previous message wrote */
    CMP_SWAP,  /* all atomics of a step work on one word; every other CMP_SWAP compares unequal */
    FETCH_ADD,
    VERB_COUNT
};

struct verb_kind {
    enum ibv_wr_opcode opcode;
    enum ibv_wc_opcode completes_as;
    bool receives; /* the operation takes a receive at the other end */
    bool immediate;
    bool atomic;
};

struct operation {
    const char *name;
    uint32_t verb_count;
    enum verb verbs[MAX_VERBS]; /* operations of one turn, in order */
    bool late;                  /* receives are posted after the messages, which causes RNR NAKs */
    uint32_t sizes[MAX_SIZES];
    uint32_t turns[MAX_SIZES]; /* 0: no more sizes */
};

extern const struct operation verify_operations[];
extern const uint32_t verify_operation_count;

/* The contents of an area before and after a step. */
struct picture {
    uint8_t *before, *after;
};

struct step {
    const struct operation *operation;
    uint32_t size;
    uint32_t count; /* messages */
    uint32_t word;  /* the message whose slot the atomics work on */
    uint64_t key;   /* key of the pseudo-random content */
    size_t span;    /* bytes of the areas in use */
    struct picture local, target;
};

struct step *verify_plan_new(void);
void verify_plan_free(struct step *step);

/* Makes @step for operation number @operation with its size number @which. Its content depends on
 * both numbers and on @salt. */
void verify_plan(struct step *step, uint32_t operation, uint32_t which, uint64_t salt);

enum verb verify_plan_verb(const struct step *step, uint32_t message);
const struct verb_kind *verify_plan_kind(const struct step *step, uint32_t message);
uint32_t verify_plan_size(const struct step *step, uint32_t message);
uint32_t verify_plan_immediate(const struct step *step, uint32_t message);

/* Return the offset of the message in the local area, and the offset that it addresses in the
 * target area. */
size_t verify_plan_slot(const struct step *step, uint32_t message);
size_t verify_plan_remote_slot(const struct step *step, uint32_t message);

/* Return the operands of an atomic that finds the word @value. */
uint64_t verify_plan_compare(const struct step *step, uint32_t message, uint64_t value);
uint64_t verify_plan_operand(const struct step *step, uint32_t message);
