/* SPDX-License-Identifier: BSD-3-Clause */
/* world.h - the nodes of a simulation, its only clock, and the journal of the last events.
 *
 * A node has up to three functions. Engines (net/host.h) and programs (work/endpoint.h) are nodes.
 * A link is a chain of nodes. Time jumps to the earliest `next` of a node. The same nodes with the
 * same seed have the same results, byte for byte.
 */
#pragma once

#include "base/rng.h"
#include "base/time.h"

#define SIM_WORLD_NODES_MAX 1024u

/* Asserts that a call of the engine succeeded. */
static inline void sim_must(int result)
{
    URO_ASSERT(result == 0);
}

/* Returns zeroed memory. */
void *sim_alloc(size_t size);
/* Changes the size of allocated memory. */
void *sim_realloc(void *memory, size_t size);

struct sim_world;

/* A frame between two nodes. The node that holds the frame owns it, and passes it on or frees it
 * with sim_world_free_frame(). */
struct sim_world_frame {
    struct sim_world_frame *next;
    uro_time due; /* free for use by the owner */
    uint32_t length;
    uint8_t bytes[];
};

struct sim_node {
    /* Takes over @frame; NULL for a node that receives no frames. */
    void (*accept)(struct sim_node *node, struct sim_world_frame *frame);
    /* Returns the time at which run() has work. A time that has passed means now; NEVER means that
     * the node is idle. NULL: run() has work at @due. */
    uro_time (*next)(const struct sim_node *node);
    void (*run)(struct sim_node *node);
    uro_time due;
};

struct sim_world {
    uro_time now;
    uro_time jumped_at; /* last jump of the clock, as for a process that was stopped; 0: none */
    struct uro_rng rng;
    struct sim_world_line *lines; /* the last lines of the journal; owned */
    uint64_t line_count;          /* lines so far */
    /* Receives every line at once, as for `uroce sim --trace`; NULL: none. */
    void (*follow)(const char *line);
    uint64_t digest; /* digest of the bytes of sim_world_digest() */
    uint32_t frames_alive;
    uint32_t node_count;
    struct sim_node *nodes[SIM_WORLD_NODES_MAX];
    struct sim_node jumper; /* makes the clock jump */
    struct uro_rng jump_rng;
    uint32_t jump_wait_max; /* longest time between two jumps, us */
    uint32_t jump_max;      /* longest jump, us */
    uint32_t jumps_left;
    bool failed;
    char failure[512]; /* first failure; "": none */
};

/* Initialises a world at time @start. */
void sim_world_init(struct sim_world *world, uint64_t seed, uro_time start);
void sim_world_fini(struct sim_world *world);

/* Adds a node. The caller has set its accept(). */
void sim_world_add(struct sim_world *world, struct sim_node *node,
                   uro_time (*next)(const struct sim_node *node),
                   void (*run)(struct sim_node *node));

struct sim_world_frame *sim_world_make_frame(struct sim_world *world, uint32_t length);
struct sim_world_frame *sim_world_copy_frame(struct sim_world *world, const uint8_t *bytes,
                                             uint32_t length);
void sim_world_free_frame(struct sim_world *world, struct sim_world_frame *frame);

/* Makes the clock jump @count times by at most @jump_max us, as if the process was stopped
 * meanwhile. */
void sim_world_let_jump(struct sim_world *world, uint64_t seed, uint32_t count, uint32_t wait_max,
                        uint32_t jump_max);
/* Stops the jumps. */
void sim_world_calm(struct sim_world *world);

/* Runs all work that is due up to and including @until, and sets the time to @until. Stops at a
 * failure. Returns false if no node has work left, or the run failed before. */
bool sim_world_run(struct sim_world *world, uro_time until);

/* Returns the time of the next event. */
uro_time sim_world_next(const struct sim_world *world);

/* Adds bytes to the digest. */
void sim_world_digest(struct sim_world *world, const void *bytes, size_t length);

/* Reports that an invariant does not hold. Only the first call counts. The run then ends. */
void sim_world_fail(struct sim_world *world, const char *format, ...) URO_PRINTF(2);

/* Returns true with a probability of @probability / 65536. */
bool sim_world_chance(struct uro_rng *rng, uint32_t probability);
/* Returns a random number @low .. @high. */
uint32_t sim_world_between(struct uro_rng *rng, uint32_t low, uint32_t high);

/* Adds a line of text to the journal. */
void sim_world_note(struct sim_world *world, const char *format, ...) URO_PRINTF(2);
/* Adds a frame, which is described only when the line is reported. @where has the direction, such
 * as "A>". */
void sim_world_note_frame(struct sim_world *world, const char *where, const uint8_t *bytes,
                          uint32_t length);
/* Appends to @text, which has room for @size bytes. Text without room is cut off. */
void sim_world_append(char *text, size_t size, const char *format, ...) URO_PRINTF(3);
/* Reports the last lines of the journal, oldest first. */
void sim_world_print(const struct sim_world *world, void (*print)(const char *line));
