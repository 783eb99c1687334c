/* SPDX-License-Identifier: BSD-3-Clause */
/* verify_plan.c - the table of verify's steps, and the expected memory contents of each. */
#include <stdlib.h>
#include <string.h>

#include "meet.h"
#include "verify_plan.h"

#define CANARY  0xc5
#define GUARD   64u
#define NO_WORD UINT32_MAX

static const struct verb_kind kinds[VERB_COUNT] = {
    [SEND] = { IBV_WR_SEND, IBV_WC_SEND, .receives = true },
    [SEND_IMM] = { IBV_WR_SEND_WITH_IMM, IBV_WC_SEND, .receives = true, .immediate = true },
    [WRITE] = { IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE, .receives = false },
    [WRITE_IMM] = { IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_RDMA_WRITE, .receives = true,
                    .immediate = true },
    [READ] = { IBV_WR_RDMA_READ, IBV_WC_RDMA_READ, .receives = false },
    [READ_BACK] = { IBV_WR_RDMA_READ, IBV_WC_RDMA_READ, .receives = false },
    [CMP_SWAP] = { IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_COMP_SWAP, .atomic = true },
    [FETCH_ADD] = { IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_FETCH_ADD, .atomic = true },
};

const struct operation verify_operations[] = {
    { "send", 1, { SEND }, false, { 0, 1, 33, 4095, 65536, 1048576 }, { 4, 16, 16, 16, 4, 2 } },
    { "send_imm", 1, { SEND_IMM }, false, { 0, 1, 33, 4095, 65536 }, { 4, 16, 16, 16, 4 } },
    { "send_late", 1, { SEND }, true, { 1, 4095, 65536 }, { 16, 8, 2 } },
    { "write", 1, { WRITE }, false, { 0, 1, 33, 4095, 65536, 1048576 }, { 4, 16, 16, 16, 4, 2 } },
    { "write_imm", 1, { WRITE_IMM }, false, { 0, 1, 33, 4095, 65536 }, { 4, 16, 16, 16, 4 } },
    { "read", 1, { READ }, false, { 0, 1, 33, 4095, 65536, 1048576 }, { 4, 16, 16, 16, 4, 2 } },
    { "cmp_swap", 1, { CMP_SWAP }, false, { 8 }, { 48 } },
    { "fetch_add", 1, { FETCH_ADD }, false, { 8 }, { 48 } },
    { "mixed",
      4,
      { WRITE, READ_BACK, FETCH_ADD, SEND_IMM },
      false,
      { 1, 4095, 65536 },
      { 12, 8, 3 } },
};
const uint32_t verify_operation_count = sizeof verify_operations / sizeof verify_operations[0];

/* ---- content ---- */

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t message_key(const struct step *step, uint32_t message)
{
    return mix(step->key ^ mix(message));
}

static void fill(const struct step *step, uint32_t message, uint8_t *out, uint32_t size)
{
    uint64_t key = message_key(step, message);

    for (uint32_t at = 0; at < size; at += 8) {
        uint64_t word = mix(key + at);
        memcpy(out + at, &word, size - at < 8 ? size - at : 8);
    }
}

uint32_t verify_plan_immediate(const struct step *step, uint32_t message)
{
    return (uint32_t)message_key(step, message);
}

/* ---- the plan of a step ---- */

enum verb verify_plan_verb(const struct step *step, uint32_t message)
{
    return step->operation->verbs[message % step->operation->verb_count];
}

const struct verb_kind *verify_plan_kind(const struct step *step, uint32_t message)
{
    return &kinds[verify_plan_verb(step, message)];
}

uint32_t verify_plan_size(const struct step *step, uint32_t message)
{
    return verify_plan_kind(step, message)->atomic ? 8 : step->size;
}

/* Returns the offset of a slot, which has any alignment, except for atomics. */
size_t verify_plan_slot(const struct step *step, uint32_t message)
{
    size_t stride = (step->size + 2 * GUARD + 7) & ~(size_t)7;
    uint32_t shift = verify_plan_kind(step, message)->atomic ? 0 : message % 4;

    return message * stride + GUARD + shift;
}

size_t verify_plan_remote_slot(const struct step *step, uint32_t message)
{
    if (verify_plan_kind(step, message)->atomic)
        return verify_plan_slot(step, step->word);
    return verify_plan_slot(step,
                            verify_plan_verb(step, message) == READ_BACK ? message - 1 : message);
}

/* Returns the compare operand of message @message for a word of value @value. */
uint64_t verify_plan_compare(const struct step *step, uint32_t message, uint64_t value)
{
    return value + (message / step->operation->verb_count) % 2;
}

uint64_t verify_plan_operand(const struct step *step, uint32_t message)
{
    return message_key(step, message);
}

static void picture_atomic(const struct step *step, uint32_t message, uint64_t *value)
{
    memcpy(step->local.after + verify_plan_slot(step, message), value, 8);
    if (verify_plan_verb(step, message) == FETCH_ADD)
        *value += verify_plan_operand(step, message);
    else if (verify_plan_compare(step, message, *value) == *value)
        *value = verify_plan_operand(step, message);
}

static void picture_message(const struct step *step, uint32_t message)
{
    size_t at = verify_plan_slot(step, message);

    switch (verify_plan_verb(step, message)) {
    case SEND:
    case SEND_IMM:
    case WRITE:
    case WRITE_IMM:
        fill(step, message, step->local.before + at, step->size);
        fill(step, message, step->local.after + at, step->size);
        fill(step, message, step->target.after + at, step->size);
        break;
    case READ:
        fill(step, message, step->target.before + at, step->size);
        fill(step, message, step->target.after + at, step->size);
        fill(step, message, step->local.after + at, step->size);
        break;
    case READ_BACK:
        fill(step, message - 1, step->local.after + at, step->size);
        break;
    case CMP_SWAP:
    case FETCH_ADD:
    case VERB_COUNT:
        break;
    }
}

static uint64_t word_before(const struct step *step)
{
    return mix(step->key);
}

static void draw_pictures(struct step *step)
{
    uint64_t value = word_before(step);

    memset(step->local.before, CANARY, step->span);
    memset(step->local.after, CANARY, step->span);
    memset(step->target.before, CANARY, step->span);
    memset(step->target.after, CANARY, step->span);
    if (step->word != NO_WORD)
        memcpy(step->target.before + verify_plan_slot(step, step->word), &value, 8);
    for (uint32_t i = 0; i < step->count; i++) {
        if (verify_plan_kind(step, i)->atomic)
            picture_atomic(step, i, &value);
        else
            picture_message(step, i);
    }
    if (step->word != NO_WORD)
        memcpy(step->target.after + verify_plan_slot(step, step->word), &value, 8);
}

void verify_plan(struct step *step, uint32_t number, uint32_t which, uint64_t salt)
{
    const struct operation *operation = &verify_operations[number];

    step->operation = operation;
    step->key = mix(salt ^ mix(number << 8 | which));
    step->size = operation->sizes[which];
    step->count = operation->turns[which] * operation->verb_count;
    step->word = NO_WORD;
    for (uint32_t i = operation->verb_count; i-- > 0;)
        if (kinds[operation->verbs[i]].atomic)
            step->word = i;
    step->span = verify_plan_slot(step, step->count - 1) + step->size + GUARD;
    if (step->count > VERIFY_DEPTH || step->span > VERIFY_AREA)
        meet_die("step too large");
    draw_pictures(step);
}

static struct picture new_picture(void)
{
    struct picture picture = { malloc(VERIFY_AREA), malloc(VERIFY_AREA) };

    if (picture.before == NULL || picture.after == NULL)
        meet_die("no memory");
    return picture;
}

struct step *verify_plan_new(void)
{
    struct step *step = calloc(1, sizeof *step);

    if (step == NULL)
        meet_die("no memory");
    step->local = new_picture();
    step->target = new_picture();
    return step;
}

void verify_plan_free(struct step *step)
{
    free(step->local.before);
    free(step->local.after);
    free(step->target.before);
    free(step->target.after);
    free(step);
}
