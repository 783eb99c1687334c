/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_fd.h - descriptors that the other side of a memif sent, or has too: nothing here waits for
 * it.
 *
 * The other side may clear O_NONBLOCK of an eventfd that both have and may fill its counter, at any
 * time. So a doorbell is never written with write(): the kernel signals it as the completion of an
 * asynchronous read of our own file, which cannot block. And nobody reads a doorbell: who sleeps
 * waits for its edge.
 *
 * A descriptor may also be of a file system whose owner does not answer (FUSE): stat, poll and even
 * close would wait.
 */
#pragma once

#include "base/defs.h"

/* What doorbells are rung with. */
struct uro_memif_peer_fd {
    unsigned long requests; /* context of asynchronous requests; 0: the kernel offers none */
    int file;               /* empty, ours; or -1 */
};

/* Without memory, descriptors or such requests, doorbells are written: see
 * uro_memif_peer_fd_waits(). */
void uro_memif_peer_fd_start(struct uro_memif_peer_fd *peer_fd);
void uro_memif_peer_fd_stop(struct uro_memif_peer_fd *peer_fd);

/* Whether ringing may wait: then only processes that may end this one anyway can be peers. */
bool uro_memif_peer_fd_waits(const struct uro_memif_peer_fd *peer_fd);

/* Whether @fd is an eventfd. */
URO_NODISCARD bool uro_memif_peer_fd_is_eventfd(const struct uro_memif_peer_fd *peer_fd, int fd);

/* Adds 1 to an eventfd. One that is full stays full. */
void uro_memif_peer_fd_ring(const struct uro_memif_peer_fd *peer_fd, int eventfd);

/* Closes a descriptor that may be of any kind; a thread of its own waits if it must. */
void uro_memif_peer_fd_close(const struct uro_memif_peer_fd *peer_fd, int fd);

/* Whether another descriptor may be received: not while too many threads wait for file systems that
 * do not answer. */
URO_NODISCARD bool uro_memif_peer_fd_may_take(void);
