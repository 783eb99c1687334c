/* SPDX-License-Identifier: BSD-3-Clause */
/* windows.h - memory windows of connected twins: b binds a window to its memory. */
#pragma once

#include "twins.h"

#define WINDOW_BEGIN  4096u /* of the window, in b's memory */
#define WINDOW_SPAN   100u
#define WINDOW_ACCESS (URO_ACCESS_REMOTE_WRITE | URO_ACCESS_REMOTE_READ | URO_ACCESS_REMOTE_ATOMIC)

struct uro_shard *windows_shard(struct twins *s);

/* Returns a key that is not yet registered. From now on windows may be bound to b's memory. */
struct uro_key windows_make(struct twins *s, enum uro_key_kind kind);

/* Returns the request that binds @window to the span above, with the key after the present key. */
struct uro_wqe windows_request(struct twins *s, const struct uro_key *window);

/* Posts the bind at b and expects its success. */
void windows_bind(struct twins *s, const struct uro_wqe *request);

void windows_invalidate(struct twins *s, struct end *end, uint32_t rkey, enum uro_wc_status status);
