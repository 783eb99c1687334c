/* SPDX-License-Identifier: BSD-3-Clause */
/* ah.h - address handles: where a datagram goes, as a header template with a number.
 *
 * Work requests carry the number, so a handle that was destroyed too early is an error completion
 * and never a dangling pointer.
 */
#pragma once

#include "base/table.h"
#include "core/path.h"

struct uro_shard;

/* Memory of the struct is the caller's (lib/verbs). */
struct uro_ah {
    struct uro_table_node node; /* node.number names it in work requests; never 0 */
    uint32_t pd;
    struct uro_path path;
};

/* Engine locked; address->hop is set (engine/engine.h does both). */
void uro_ah_create(struct uro_shard *shard, struct uro_ah *ah, uint32_t pd,
                   const struct uro_address *address);
void uro_ah_destroy(struct uro_shard *shard, struct uro_ah *ah);

/* The handle of that number in that domain; NULL when there is none. */
struct uro_ah *uro_ah_find(const struct uro_shard *shard, uint32_t number, uint32_t pd);

static inline uint32_t uro_ah_number(const struct uro_ah *ah)
{
    return ah->node.number;
}
