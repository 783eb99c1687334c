/* SPDX-License-Identifier: BSD-3-Clause */
/* bind.h - an identifier's own address and port, and listening on them.
 *
 * A port belongs to a port space and may be used by several identifiers when their addresses
 * differ, or when all of them said REUSEADDR. A wildcard meets every address of its family, an IPv6
 * one every address unless it said AFONLY.
 */
#pragma once

#include "ucma/id.h"

/* A link-local address of interface @scope is one of @device's link. Where that is not over an
 * interface of the kernel, or @scope is 0 (which a kernel would refuse), any is. */
bool uro_bind_in_scope(const struct uro_device *device, uint32_t scope);

/* Binds @id to the address @source, which is changed when it is the loopback address, and to its
 * port, or a free one when it has none. Returns 0, or without any change
 *   -EINVAL         it is bound already
 *   -EADDRINUSE     the port is taken at that address
 *   -EADDRNOTAVAIL  no device has the address; the port is taken at a wildcard, or none is free */
URO_NODISCARD int uro_bind_to(struct uro_id *id, struct uro_sock *source);

/* A loopback address means this very machine, unless a device has such an address itself. */
bool uro_bind_stands_for_us(const struct uro_sock *sock);

/* Binds it to the first address of its family that a device has. Returns false if no device has
 * such an address. */
bool uro_bind_take_first(struct uro_sock *sock);

/* Stops listening: afterwards no request names @id. */
void uro_bind_silence(struct uro_id *id);

/* Hears no more from @device, which is gone. */
void uro_bind_forget(struct uro_id *id, const struct uro_device *device);

/* The port is free for others. */
void uro_bind_release(struct uro_id *id);

/* In a forked child, after uro_channel_abandon(): no identifier has a port. */
void uro_bind_abandon(void);
