/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_fd.h - descriptors that the other side of a memif sent or shares. The other side cannot
 * block any function of this file, unless uro_memif_peer_fd_waits() returns true.
 *
 * The other side may clear O_NONBLOCK of a shared eventfd and may fill its counter, at any time. So
 * a doorbell is signalled with write() only if the kernel offers no asynchronous requests.
 * Otherwise the kernel signals the doorbell as the completion of an asynchronous read of our own
 * file, which cannot block. No thread reads a doorbell: a sleeping thread waits for its edge.
 *
 * A descriptor may also belong to a file system whose server does not answer (FUSE): stat, poll and
 * even close would wait.
 */
#pragma once

#include "base/defs.h"

/* Resources for signalling doorbells. */
struct uro_memif_peer_fd {
    unsigned long requests; /* context of asynchronous requests; 0: the kernel offers none */
    int file;               /* our own empty file, or -1 */
};

/* Opens the resources. If that fails, doorbells are signalled with write(): see
 * uro_memif_peer_fd_waits(). */
void uro_memif_peer_fd_start(struct uro_memif_peer_fd *peer_fd);
void uro_memif_peer_fd_stop(struct uro_memif_peer_fd *peer_fd);

/* Returns whether signalling may block. If so, only peers of the same user or of root are accepted:
 * these users could kill this process anyway. */
bool uro_memif_peer_fd_waits(const struct uro_memif_peer_fd *peer_fd);

/* Returns whether @fd is an eventfd. */
URO_NODISCARD bool uro_memif_peer_fd_is_eventfd(const struct uro_memif_peer_fd *peer_fd, int fd);

/* Adds 1 to an eventfd. A full eventfd stays full. */
void uro_memif_peer_fd_ring(const struct uro_memif_peer_fd *peer_fd, int eventfd);

/* Closes a descriptor of any kind without waiting: uses a new thread if closing could block. */
void uro_memif_peer_fd_close(const struct uro_memif_peer_fd *peer_fd, int fd);

/* Returns whether another descriptor may be received. Returns false while too many threads wait in
 * close() for file systems that do not answer. */
URO_NODISCARD bool uro_memif_peer_fd_may_take(void);
