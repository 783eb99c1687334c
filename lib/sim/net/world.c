/* SPDX-License-Identifier: BSD-3-Clause */
/* world.c - see world.h for the contract. */
#include "sim/net/world.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/text.h"

#define ROUNDS_PER_INSTANT_MAX 20000u /* more rounds at one time mean an endless loop */
#define LINES                  96u
#define TEXT_MAX               480u
#define FRAME_MAX              10240u

#define FNV_START UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME UINT64_C(0x100000001b3)

/* A line of the journal. */
struct sim_world_line {
    uro_time now;
    uint32_t length; /* length of a frame; 0: the entry is text */
    char where[8];
    union {
        char text[TEXT_MAX];
        uint8_t bytes[FRAME_MAX];
    };
};

void *sim_alloc(size_t size)
{
    void *memory = calloc(1, size);

    URO_ASSERT(memory != NULL);
    return memory;
}

void *sim_realloc(void *memory, size_t size)
{
    void *moved = realloc(memory, size);

    URO_ASSERT(moved != NULL);
    return moved;
}

void sim_world_init(struct sim_world *world, uint64_t seed, uro_time start)
{
    memset(world, 0, sizeof *world);
    world->now = start;
    world->digest = FNV_START;
    world->jumper.due = URO_TIME_NEVER;
    uro_rng_init_number(&world->rng, seed);
    world->lines = sim_alloc(LINES * sizeof *world->lines);
}

void sim_world_fini(struct sim_world *world)
{
    free(world->lines);
}

void sim_world_add(struct sim_world *world, struct sim_node *node,
                   uro_time (*next)(const struct sim_node *node),
                   void (*run)(struct sim_node *node))
{
    URO_ASSERT(world->node_count < SIM_WORLD_NODES_MAX);
    node->next = next;
    node->run = run;
    world->nodes[world->node_count++] = node;
}

struct sim_world_frame *sim_world_make_frame(struct sim_world *world, uint32_t length)
{
    /* Exactly as long as the frame, so that a sanitizer detects a read beyond it. */
    struct sim_world_frame *frame = malloc(sizeof *frame + length);
    URO_ASSERT(frame != NULL);
    frame->next = NULL;
    frame->due = 0;
    frame->length = length;
    world->frames_alive++;
    return frame;
}

struct sim_world_frame *sim_world_copy_frame(struct sim_world *world, const uint8_t *bytes,
                                             uint32_t length)
{
    struct sim_world_frame *frame = sim_world_make_frame(world, length);

    memcpy(frame->bytes, bytes, length);
    return frame;
}

void sim_world_free_frame(struct sim_world *world, struct sim_world_frame *frame)
{
    URO_ASSERT(world->frames_alive > 0);
    world->frames_alive--;
    /* Overwrites the frame, so that later reads of it are detected. */
    memset(frame->bytes, 0xdd, frame->length);
    free(frame);
}

static uro_time next_of(const struct sim_node *node)
{
    return node->next != NULL ? node->next(node) : node->due;
}

uro_time sim_world_next(const struct sim_world *world)
{
    uro_time earliest = URO_TIME_NEVER;

    for (uint32_t i = 0; i < world->node_count; i++) {
        uro_time next = next_of(world->nodes[i]);
        if (next < earliest)
            earliest = next;
    }
    return earliest;
}

bool sim_world_run(struct sim_world *world, uro_time until)
{
    uint32_t rounds = 0; /* rounds at the present time */
    uro_time next = URO_TIME_NEVER;

    while (!world->failed && (next = sim_world_next(world)) <= until) {
        if (next > world->now) {
            world->now = next;
            rounds = 0;
        }
        if (++rounds > ROUNDS_PER_INSTANT_MAX)
            sim_world_fail(world, "endless loop: a node has work again and again at the same time");
        for (uint32_t i = 0; i < world->node_count && !world->failed; i++)
            if (next_of(world->nodes[i]) <= world->now)
                world->nodes[i]->run(world->nodes[i]);
    }
    if (!world->failed && until != URO_TIME_NEVER && until > world->now)
        world->now = until;
    return next != URO_TIME_NEVER;
}

static uro_time some_us(struct uro_rng *rng, uint32_t most)
{
    return URO_US(1 + uro_rng_below(rng, most));
}

/* Jumps the clock. Nodes that were due in between run afterwards, late. */
static void jumper_run(struct sim_node *node)
{
    struct sim_world *world = URO_CONTAINER_OF(node, struct sim_world, jumper);

    world->now += some_us(&world->jump_rng, world->jump_max);
    world->jumped_at = world->now;
    sim_world_note(world, "the clock has jumped");
    node->due = URO_TIME_NEVER;
    if (--world->jumps_left > 0)
        node->due = world->now + some_us(&world->jump_rng, world->jump_wait_max);
}

void sim_world_let_jump(struct sim_world *world, uint64_t seed, uint32_t count, uint32_t wait_max,
                        uint32_t jump_max)
{
    uro_rng_init_number(&world->jump_rng, seed);
    world->jumps_left = count;
    world->jump_wait_max = wait_max;
    world->jump_max = jump_max;
    world->jumper.due = world->now + some_us(&world->jump_rng, wait_max);
    sim_world_add(world, &world->jumper, NULL, jumper_run);
}

void sim_world_calm(struct sim_world *world)
{
    world->jumper.due = URO_TIME_NEVER;
}

void sim_world_digest(struct sim_world *world, const void *bytes, size_t length)
{
    const uint8_t *next = bytes;

    for (; length >= 8; next += 8, length -= 8) {
        uint64_t word;
        memcpy(&word, next, sizeof word);
        world->digest = (world->digest ^ word) * FNV_PRIME;
        world->digest ^= world->digest >> 32;
    }
    for (; length > 0; next++, length--)
        world->digest = (world->digest ^ *next) * FNV_PRIME;
}

void sim_world_fail(struct sim_world *world, const char *format, ...)
{
    va_list arguments;

    if (world->failed)
        return;
    world->failed = true;
    va_start(arguments, format);
    vsnprintf(world->failure, sizeof world->failure, format, arguments);
    va_end(arguments);
    sim_world_note(world, "FAILED: %s", world->failure);
}

bool sim_world_chance(struct uro_rng *rng, uint32_t probability)
{
    return probability != 0 && uro_rng_below(rng, 65536) < probability;
}

uint32_t sim_world_between(struct uro_rng *rng, uint32_t low, uint32_t high)
{
    URO_ASSERT(low <= high);
    return low + uro_rng_below(rng, high - low + 1);
}

static void print_line(const struct sim_world_line *line, void (*print)(const char *line))
{
    char frame[URO_TEXT_LINE_MAX];
    char out[TEXT_MAX + 64];

    if (line->length > 0)
        uro_text_line(line->bytes, line->length, frame);
    snprintf(out, sizeof out, "%6" PRIu64 ".%06" PRIu64 " ms %-3s %.*s", line->now / 1000000,
             line->now % 1000000, line->where, (int)TEXT_MAX,
             line->length > 0 ? frame : line->text);
    print(out);
}

static struct sim_world_line *next_line(struct sim_world *world)
{
    struct sim_world_line *line = &world->lines[world->line_count++ % LINES];
    line->now = world->now;
    line->length = 0;
    line->where[0] = '\0';
    return line;
}

void sim_world_note(struct sim_world *world, const char *format, ...)
{
    struct sim_world_line *line = next_line(world);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line->text, sizeof line->text, format, arguments);
    va_end(arguments);
    if (world->follow != NULL)
        print_line(line, world->follow);
}

void sim_world_note_frame(struct sim_world *world, const char *where, const uint8_t *bytes,
                          uint32_t length)
{
    struct sim_world_line *line = next_line(world);

    line->length = length < FRAME_MAX ? length : FRAME_MAX;
    snprintf(line->where, sizeof line->where, "%s", where);
    memcpy(line->bytes, bytes, line->length);
    if (world->follow != NULL)
        print_line(line, world->follow);
}

void sim_world_append(char *text, size_t size, const char *format, ...)
{
    size_t used = strlen(text);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}

void sim_world_print(const struct sim_world *world, void (*print)(const char *line))
{
    uint64_t first = world->line_count > LINES ? world->line_count - LINES : 0;

    for (uint64_t i = first; i < world->line_count; i++)
        print_line(&world->lines[i % LINES], print);
}
