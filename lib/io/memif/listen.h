/* SPDX-License-Identifier: BSD-3-Clause */
/* listen.h - sockets where servers listen; the interfaces of a process may share one, each with an
 * id of its own. Each of them may be driven by another thread. */
#pragma once

#include "io/memif/memif.h"

/* Has @memif listen. Returns 0 or -1 with a sentence in @error. When another process listens there
 * and @memif waits for the name, that is no error: uro_memif_listen_again() will do it. */
URO_NODISCARD int uro_memif_listen(struct uro_memif *memif, char error[static URO_PORT_ERROR_MAX]);
/* Tries it once more, at most twice a second; true when @memif listens. */
bool uro_memif_listen_again(struct uro_memif *memif);
void uro_memif_unlisten(struct uro_memif *memif);
/* In a forked child: closes the copies of the sockets. The parent goes on listening. */
void uro_memif_listen_forked(struct uro_memif *memif);

/* Looks at who is at the socket; the descriptor of a client that wants @memif, or -1. It has sent
 * INIT, which was right, and is to be acknowledged. From now on others are refused, until
 * uro_memif_free(). */
int uro_memif_accept(struct uro_memif *memif);
void uro_memif_free(struct uro_memif *memif);

/* Readable when there is something for uro_memif_accept(). -1 while it waits for the name. */
int uro_memif_listen_fd(const struct uro_memif *memif);

/* The address of a memif's socket; returns its length. */
struct sockaddr_un;
uint32_t uro_memif_address(const struct uro_memif_options *options, struct sockaddr_un *address);
