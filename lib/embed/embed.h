/* SPDX-License-Identifier: BSD-3-Clause */
/* embed.h - definitions of the opaque structs of uroce/engine.h and uroce/objects.h. Each has
 * memory for an object of core, and counts the objects that depend on it.
 */
#pragma once

#include <uroce/objects.h>

#include "core/cq.h"
#include "core/key.h"
#include "engine/engine.h"
#include "engine/port.h"

/* Asserts that a value of the public headers equals the value in core. */
#define UROCE_SAME(a, b) static_assert((unsigned)(a) == (unsigned)(b), #a " and " #b " are equal")

struct uroce_engine {
    struct uro_engine *engine;
    void *memory;
    size_t memory_size;
    uro_time now; /* time of the last call */
    uint32_t mtu;
    uint32_t users; /* objects that exist */
    uint32_t last_pd;
    struct uro_tx tx[URO_PORT_BURST];
};

struct uroce_pd {
    struct uroce_engine *engine;
    uint32_t number;
    uint32_t users;
};

struct uroce_mr {
    struct uroce_pd *pd;
    struct uro_key key;
};

struct uroce_cq {
    struct uroce_engine *engine;
    struct uro_cq *core;
    uint32_t users;
};

struct uroce_ah {
    struct uroce_pd *pd;
    struct uro_ah core;
};

struct uroce_qp {
    struct uroce_pd *pd;
    struct uroce_cq *send_cq, *recv_cq;
    enum uroce_qp_type type;
    struct uro_qp *core;
    struct uro_shard *shard;
};

/* Allocates zeroed memory that is aligned to a cache line; release it with free(). Returns NULL
 * when out of memory. */
void *uro_embed_memory(size_t size);

/* Copies the first @known bytes of a struct that begins with its size. A longer struct must have at
 * most a page, and zeros after @known bytes. A shorter struct must have @least bytes, and the rest
 * of @to is zeroed. Returns 0, -EINVAL or -E2BIG. */
URO_NODISCARD int uro_embed_take(void *to, size_t known, const void *from, size_t least);

/* Records the time of a call. Returns false when @now is earlier than the time of the last call. */
URO_NODISCARD bool uro_embed_time_goes_on(struct uroce_engine *engine, uint64_t now);
