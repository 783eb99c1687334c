/* SPDX-License-Identifier: BSD-3-Clause */
/* bind.h - an identifier's own address and port, and listening on them.
 *
 * A port belongs to a port space and may be used by several identifiers when their addresses differ,
 * or when all of them said REUSEADDR. A wildcard meets every address of its family, an IPv6 one
 * every address unless it said AFONLY.
 */
#pragma once

#include "ucma/id.h"

/* Gives @id a free port of its own at address @source, which it also takes, unless it has one.
 * Returns 0 or
 *   -EADDRINUSE     the port is taken at that address
 *   -EADDRNOTAVAIL  the port is taken at a wildcard, or there is no free one
 *   -EINVAL         of another family than others */
URO_NODISCARD int uro_bind_port(struct uro_id *id, const struct uro_sock *source);

/* Sets the device and the GID that have the address of @id's source. Returns 0 or
 *   -EADDRNOTAVAIL  no device has it */
URO_NODISCARD int uro_bind_device(struct uro_id *id);

/* Stops listening: afterwards no request names @id. */
void uro_bind_silence(struct uro_id *id);

/* The port is free for others. */
void uro_bind_release(struct uro_id *id);
