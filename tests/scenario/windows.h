/* SPDX-License-Identifier: BSD-3-Clause */
/* windows.h - memory windows of connected twins: b binds a window to its memory. */
#pragma once

#include "twins.h"

#define WINDOW_BEGIN 4096u /* start of the window in b's memory */
#define WINDOW_SPAN  100u
#define WINDOW_ACCESS                                                                              \
    (UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_READ | UROCE_ACCESS_REMOTE_ATOMIC)

/* Returns a window that is not bound. */
struct uroce_mw *windows_make(struct twins *s, enum uroce_mw_type type);

/* Returns the request that binds @window to the span above, and changes its key. */
struct uroce_send windows_request(struct twins *s, struct uroce_mw *window);

/* Posts the bind at b and expects its success. */
void windows_bind(struct twins *s, const struct uroce_send *request);

void windows_invalidate(struct twins *s, struct end *end, uint32_t rkey, enum uroce_status status);
