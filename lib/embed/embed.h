/* SPDX-License-Identifier: BSD-3-Clause */
/* embed.h - definitions of the opaque structs of include/uroce. Most contain an object of core, cm
 * or engine, or a pointer to such an object. Some also count the objects that depend on them.
 */
#pragma once

#include <uroce/connection.h>

#include "core/cq.h"
#include "core/datagram.h"
#include "core/key.h"
#include "core/rq.h"
#include "core/shard.h"
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
    uint32_t users; /* objects that were created on the engine and still exist */
    uint32_t last_pd, last_xrcd;
    struct uroce_conn *spare_conn; /* connection for the next REQUEST event; NULL: none */
    struct uro_tx tx[URO_PORT_BURST];
    uint8_t copy[URO_PORT_MTU_MAX + UROCE_FRAME_OVERHEAD]; /* private copy of a shared frame */
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

struct uroce_mw {
    struct uroce_pd *pd;
    enum uroce_mw_type type;
    struct uro_key key;
};

struct uroce_cq {
    struct uroce_engine *engine;
    struct uro_cq *core;
    void *ring; /* ring of the last resize; NULL: the first ring, which is part of core */
    uint32_t users;
};

struct uroce_ah {
    struct uroce_pd *pd;
    struct uro_ah core;
};

struct uroce_xrcd {
    struct uroce_engine *engine;
    uint32_t number;
    uint32_t users;
};

struct uroce_srq {
    struct uro_srq core;
    struct uroce_pd *pd;
    struct uroce_xrcd *xrcd; /* NULL: a basic SRQ */
    struct uroce_cq *cq;     /* CQ of an XRC SRQ */
    void *slots;
    uint32_t users;
};

/* The attachment of a queue pair to a multicast group. */
struct uro_embed_member {
    struct uro_mcast core;
    struct uro_embed_member *next; /* next group of the queue pair */
};

struct uroce_qp {
    struct uroce_pd *pd;
    struct uroce_cq *send_cq, *recv_cq; /* NULL: this type has none */
    struct uroce_srq *srq;
    struct uroce_xrcd *xrcd;
    struct uro_embed_member *members;
    enum uroce_qp_type type;
    struct uro_qp *core;
    struct uro_shard *shard;
};

/* Sizes of tables. The engine of a simulated host needs smaller tables than the engine of a real
 * host. */
struct uro_embed_sizes {
    uint32_t hops;      /* next hops in use at once; 0: the default */
    uint8_t table_bits; /* log2 of the slots of the QPN and key tables, 4..20; 0: the default */
};

/* Creates an engine, as uroce_engine_create(). */
URO_NODISCARD int uro_embed_create(const struct uroce_engine_config *config,
                                   const struct uro_embed_sizes *sizes, uint64_t now,
                                   struct uroce_engine **engine);

struct uroce_listener {
    struct uroce_engine *engine;
    struct uro_listener core;
    void *user;
};

/* core->user points to this struct. */
struct uroce_conn {
    struct uroce_engine *engine;
    struct uro_conn *core;
    void *user;
};

static inline struct uro_shard *uro_embed_shard(const struct uroce_engine *engine)
{
    return uro_engine_shard(engine->engine);
}

struct uro_address uro_embed_address(const struct uroce_address *from);

/* Converts attributes that the engine reports. */
void uro_embed_attr(const struct uro_qp_attr *from, struct uroce_qp_attr *to);

/* Detaches the queue pair from all groups. */
void uro_embed_detach_all(struct uroce_qp *qp);

/* Allocates zeroed memory that is aligned to a cache line; release it with free(). Returns NULL
 * when out of memory. */
void *uro_embed_memory(size_t size);

/* Allocates memory as uro_embed_memory() for an object of core. Tests and the simulator fill the
 * memory with the byte URO_EMBED_PATTERN, so that they notice when core uses memory that it did not
 * initialise. */
void *uro_embed_core_memory(size_t size);

/* Copies the first @known bytes of a struct that begins with its size. A longer struct must be at
 * most a page long, with zeros after @known bytes. A shorter struct must have at least @least
 * bytes, and the rest of @to is zeroed. Returns 0, -EINVAL or -E2BIG. */
URO_NODISCARD int uro_embed_take(void *to, size_t known, const void *from, size_t least);

/* Records the time of a call. Returns false when @now is earlier than the time of the last call. */
URO_NODISCARD bool uro_embed_time_goes_on(struct uroce_engine *engine, uint64_t now);
