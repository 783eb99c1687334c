/* SPDX-License-Identifier: BSD-3-Clause */
/* windows.c - binding and invalidating memory windows between twins. */
#include "windows.h"

struct uro_shard *windows_shard(struct twins *s)
{
    return uro_engine_shard(s->engine);
}

struct uro_key windows_make(struct twins *s, enum uro_key_kind kind)
{
    s->b.key.access |= URO_ACCESS_MW_BIND;
    return (struct uro_key){ .kind = (uint8_t)kind, .pd = 1 };
}

struct uro_wqe windows_request(struct twins *s, const struct uro_key *window)
{
    return (
        struct uro_wqe){ .wr_id = 1,
                         .opcode = URO_WR_BIND_MW,
                         .imm = uro_key_number(window),
                         .rkey = uro_key_number(window) ^ 1,
                         .remote_address = (uintptr_t)s->b.memory + WINDOW_BEGIN,
                         .window_length = WINDOW_SPAN,
                         .bind = { .lkey = uro_key_number(&s->b.key), .access = WINDOW_ACCESS } };
}

void windows_bind(struct twins *s, const struct uro_wqe *request)
{
    twins_post(s, &s->b, request, 0);
    assert_int_equal(twins_settle(s), 0);
    twins_expect(&s->b, request->wr_id, URO_WC_SUCCESS);
}

void windows_invalidate(struct twins *s, struct end *end, uint32_t rkey, enum uro_wc_status status)
{
    const struct uro_wqe request = { .wr_id = 2, .opcode = URO_WR_LOCAL_INV, .imm = rkey };

    twins_post(s, end, &request, 0);
    twins_settle(s);
    twins_expect(end, 2, status);
}
