/* SPDX-License-Identifier: BSD-3-Clause */
/* listen.h - sockets where servers listen. The interfaces of a process may share a socket, each
 * with its own id. Different threads may run these interfaces. */
#pragma once

#include "io/memif/memif.h"

/* Starts listening for @memif. Returns 0, or -1 with a sentence in @error. Also returns 0 when
 * another process listens there and @memif waits for the name: call uro_memif_listen_again()
 * later. */
URO_NODISCARD int uro_memif_listen(struct uro_memif *memif, char error[static URO_PORT_ERROR_MAX]);
/* Tries to listen again, at most twice a second. Returns true when @memif listens. */
bool uro_memif_listen_again(struct uro_memif *memif);
void uro_memif_unlisten(struct uro_memif *memif);
/* Closes the copies of the sockets in a forked child. The parent continues to listen. */
void uro_memif_listen_forked(struct uro_memif *memif);

/* Handles the clients at the socket. Returns the descriptor of a client for @memif, or -1. This
 * client has sent a valid INIT, which the caller must acknowledge. Other clients are refused until
 * uro_memif_free(). */
int uro_memif_accept(struct uro_memif *memif);
void uro_memif_free(struct uro_memif *memif);

/* Returns a descriptor that is readable when uro_memif_accept() has work. -1 while @memif waits for
 * the name. */
int uro_memif_listen_fd(const struct uro_memif *memif);

/* Writes the address of a memif's socket. Returns its length. */
struct sockaddr_un;
uint32_t uro_memif_address(const struct uro_memif_options *options, struct sockaddr_un *address);
