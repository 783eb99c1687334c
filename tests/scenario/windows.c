/* SPDX-License-Identifier: BSD-3-Clause */
/* windows.c - binding and invalidating memory windows between twins. */
#include "windows.h"

struct uroce_mw *windows_make(struct twins *s, enum uroce_mw_type type)
{
    struct uroce_mw *window;

    assert_int_equal(uroce_mw_create(s->pd, type, &window), 0);
    return window;
}

struct uroce_send windows_request(struct twins *s, struct uroce_mw *window)
{
    return (struct uroce_send){ .wr_id = 1,
                                .opcode = UROCE_BIND_MW,
                                .rkey = uroce_mw_key(window) ^ 1,
                                .remote_address = (uintptr_t)s->b.memory + WINDOW_BEGIN,
                                .mw = window,
                                .mr = s->b.mr,
                                .bind_length = WINDOW_SPAN,
                                .bind_access = WINDOW_ACCESS };
}

void windows_bind(struct twins *s, const struct uroce_send *request)
{
    twins_post(&s->b, request, 0, 0);
    assert_int_equal(twins_settle(s), 0);
    twins_expect(s, &s->b, request->wr_id, UROCE_SUCCESS);
}

void windows_invalidate(struct twins *s, struct end *end, uint32_t rkey, enum uroce_status status)
{
    const struct uroce_send request = { .wr_id = 2, .opcode = UROCE_LOCAL_INV, .imm = rkey };

    twins_post(end, &request, 0, 0);
    twins_settle(s);
    twins_expect(s, end, 2, status);
}
