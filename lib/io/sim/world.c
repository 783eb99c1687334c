/* SPDX-License-Identifier: BSD-3-Clause */
/* world.c - see world.h for the contract. */
#include "io/sim/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS_PER_INSTANT_MAX 20000u /* more: some node never runs out of work */

#define FNV_START UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME UINT64_C(0x100000001b3)

void uro_world_init(struct uro_world *world, uint64_t seed, uro_time start)
{
    memset(world, 0, sizeof *world);
    world->now = start;
    world->digest = FNV_START;
    uro_rng_init_number(&world->rng, seed);
    world->journal = uro_journal_make();
}

void uro_world_fini(struct uro_world *world)
{
    uro_journal_free(world->journal);
}

void uro_world_add(struct uro_world *world, struct uro_node *node)
{
    URO_ASSERT(world->node_count < URO_WORLD_NODES_MAX);
    world->nodes[world->node_count++] = node;
}

struct uro_world_frame *uro_world_make_frame(struct uro_world *world, uint32_t length)
{
    /* Exactly as long as the frame: a sanitizer sees the first octet read behind it. */
    struct uro_world_frame *frame = malloc(sizeof *frame + length);
    URO_ASSERT(frame != NULL);
    frame->next = NULL;
    frame->due = 0;
    frame->length = length;
    world->frames_alive++;
    return frame;
}

void uro_world_free_frame(struct uro_world *world, struct uro_world_frame *frame)
{
    URO_ASSERT(world->frames_alive > 0);
    world->frames_alive--;
    /* Whoever still looks at it should notice. */
    memset(frame->octets, 0xdd, frame->length);
    free(frame);
}

uro_time uro_world_next(const struct uro_world *world)
{
    uro_time earliest = URO_TIME_NEVER;

    for (uint32_t i = 0; i < world->node_count; i++) {
        uro_time next = world->nodes[i]->next(world->nodes[i]);
        if (next < earliest)
            earliest = next;
    }
    return earliest;
}

static void round_at(struct uro_world *world)
{
    for (uint32_t i = 0; i < world->node_count && !world->failed; i++)
        if (world->nodes[i]->next(world->nodes[i]) <= world->now)
            world->nodes[i]->run(world->nodes[i]);
}

bool uro_world_run(struct uro_world *world, uro_time until)
{
    uint32_t rounds = 0; /* at the present instant */
    uro_time next = URO_TIME_NEVER;

    while (!world->failed && (next = uro_world_next(world)) <= until) {
        if (next > world->now) {
            world->now = next;
            rounds = 0;
        }
        if (++rounds > ROUNDS_PER_INSTANT_MAX)
            uro_world_fail(world, "time stands still: some node never runs out of work");
        else
            round_at(world);
    }
    if (!world->failed && until != URO_TIME_NEVER && until > world->now)
        world->now = until;
    return next != URO_TIME_NEVER;
}

void uro_world_digest(struct uro_world *world, const void *octets, size_t length)
{
    const uint8_t *at = octets;

    for (; length >= 8; at += 8, length -= 8) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        world->digest = (world->digest ^ word) * FNV_PRIME;
        world->digest ^= world->digest >> 32;
    }
    for (; length > 0; at++, length--)
        world->digest = (world->digest ^ *at) * FNV_PRIME;
}

void uro_world_fail(struct uro_world *world, const char *format, ...)
{
    va_list arguments;

    if (world->failed)
        return;
    world->failed = true;
    va_start(arguments, format);
    vsnprintf(world->failure, sizeof world->failure, format, arguments);
    va_end(arguments);
    uro_journal_note(world->journal, world->now, "FAILED: %s", world->failure);
}

bool uro_world_chance(struct uro_rng *rng, uint32_t share)
{
    return share != 0 && uro_rng_below(rng, 65536) < share;
}

uint32_t uro_world_between(struct uro_rng *rng, uint32_t low, uint32_t high)
{
    URO_ASSERT(low <= high);
    return low + uro_rng_below(rng, high - low + 1);
}
