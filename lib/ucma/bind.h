/* SPDX-License-Identifier: BSD-3-Clause */
/* bind.h - the source address and port of an identifier, and listening on them.
 *
 * A port belongs to a port space. Several identifiers may use a port if their addresses differ, or
 * if all of them have REUSEADDR set and none listens. A wildcard includes every address of its
 * family. The IPv6 wildcard includes every address unless AFONLY is set.
 */
#pragma once

#include "ucma/id.h"

/* Returns whether link-local addresses of interface @scope are on @device's link. Always true if
 * the link has no interface of the kernel, or if @scope is 0, which a kernel would reject. */
bool uro_bind_in_scope(const struct uro_device *device, uint32_t scope);

/* Binds @id to the address @source and its port, or to a free port if it has none. Replaces an
 * address in @source for which uro_bind_is_this_host() returns true. Returns 0 or
 *   -EINVAL         the identifier is bound already
 *   -EADDRINUSE     the port is taken at that address
 *   -EADDRNOTAVAIL  no device has the address, or the port is taken at a wildcard address,
 *                   or no port is free */
URO_NODISCARD int uro_bind_to(struct uro_id *id, struct uro_sock *source);

/* Returns whether the address stands for this machine: a loopback address, while no device has any
 * loopback address of the family. */
bool uro_bind_is_this_host(const struct uro_sock *sock);

/* Sets @sock to the first address of its family that a device has. Returns false if no device has
 * such an address. */
bool uro_bind_choose_first(struct uro_sock *sock);

/* Stops listening. No request reaches @id afterwards. */
void uro_bind_stop_listening(struct uro_id *id);

/* Stops listening on @device after the device was removed. */
void uro_bind_forget_device(struct uro_id *id, const struct uro_device *device);

/* Releases the port. */
void uro_bind_release(struct uro_id *id);

/* In a forked child, after uro_channel_abandon(): releases the ports of all identifiers. */
void uro_bind_abandon(void);
