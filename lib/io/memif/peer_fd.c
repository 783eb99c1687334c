/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_fd.c - see peer_fd.h. */
#define _GNU_SOURCE /* memfd_create, F_GET_SEALS, syscall */
#include "io/memif/peer_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CLOSERS_MAX   16u         /* maximum number of threads that wait for a close() */
#define UNKNOWN_FLAGS 0x40000000u /* flags of a read that no kernel supports */

void uro_memif_peer_fd_start(struct uro_memif_peer_fd *peer_fd)
{
    aio_context_t requests = 0;

    *peer_fd = (struct uro_memif_peer_fd){ .file = memfd_create("uroce-doorbell", MFD_CLOEXEC) };
    if (peer_fd->file >= 0 && syscall(SYS_io_setup, 1, &requests) == 0)
        peer_fd->requests = requests;
}

void uro_memif_peer_fd_stop(struct uro_memif_peer_fd *peer_fd)
{
    if (peer_fd->requests != 0)
        (void)syscall(SYS_io_destroy, peer_fd->requests);
    if (peer_fd->file >= 0)
        (void)close(peer_fd->file);
    *peer_fd = (struct uro_memif_peer_fd){ .file = -1 };
}

bool uro_memif_peer_fd_waits(const struct uro_memif_peer_fd *peer_fd)
{
    return peer_fd->requests == 0;
}

/* Submits an empty read of our own file, which completes at once and then signals @eventfd. Returns
 * 0 or errno. */
static int submit(const struct uro_memif_peer_fd *peer_fd, int eventfd, __kernel_rwf_t flags)
{
    struct iocb request = { .aio_lio_opcode = IOCB_CMD_PREAD,
                            .aio_fildes = (uint32_t)peer_fd->file,
                            .aio_buf = (uintptr_t)peer_fd,
                            .aio_rw_flags = flags,
                            .aio_flags = IOCB_FLAG_RESFD,
                            .aio_resfd = (uint32_t)eventfd };
    struct iocb *list = &request;

    return syscall(SYS_io_submit, peer_fd->requests, 1, &list) == 1 ? 0 : errno;
}

/* Removes the results of earlier requests. Does not wait. */
static void reap(const struct uro_memif_peer_fd *peer_fd)
{
    struct io_event results[64];

    while (syscall(SYS_io_getevents, peer_fd->requests, 0, URO_ARRAY_LEN(results), results, NULL) ==
           URO_ARRAY_LEN(results))
        continue;
}

static bool is_named_eventfd(int fd)
{
    static const char right[] = "anon_inode:[eventfd]";
    char path[32], name[sizeof right];

    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return readlink(path, name, sizeof name) == (ssize_t)(sizeof right - 1) &&
           memcmp(name, right, sizeof right - 1) == 0;
}

/* Returns whether @fd is an eventfd, by a request with invalid flags. The kernel checks the
 * descriptor to be signalled before the flags of the read, and has a different error for each. */
bool uro_memif_peer_fd_is_eventfd(const struct uro_memif_peer_fd *peer_fd, int fd)
{
    int error;

    if (peer_fd->requests == 0)
        return is_named_eventfd(fd);
    error = submit(peer_fd, fd, UNKNOWN_FLAGS);
    if (error == EAGAIN) {
        reap(peer_fd);
        error = submit(peer_fd, fd, UNKNOWN_FLAGS);
    }
    return error == EOPNOTSUPP;
}

void uro_memif_peer_fd_ring(const struct uro_memif_peer_fd *peer_fd, int eventfd)
{
    const uint64_t one = 1;

    if (peer_fd->requests == 0) {
        (void)!write(eventfd, &one, sizeof one);
    } else if (submit(peer_fd, eventfd, 0) == EAGAIN) { /* the ring of results is full */
        reap(peer_fd);
        (void)submit(peer_fd, eventfd, 0);
    }
}

/* ---- closing ---------------------------------------------------------------------------- */

static atomic_uint closers;

static void *close_it(void *fd)
{
    (void)close((int)(intptr_t)fd);
    atomic_fetch_sub(&closers, 1);
    return NULL;
}

/* Closes @fd in a new thread. Returns false if no thread can be created. */
static bool close_by_thread(int fd)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;

    if (pthread_attr_init(&attributes) != 0)
        return false;
    (void)sigfillset(&all);
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    atomic_fetch_add(&closers, 1);
    bool made = pthread_create(&thread, &attributes, close_it, (void *)(intptr_t)fd) == 0;
    if (!made)
        atomic_fetch_sub(&closers, 1);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    return made;
}

/* Closes a memory file or an eventfd in this thread; only a memory file has seals. A new thread
 * closes any other descriptor. If no thread can be created, the descriptor stays open. */
void uro_memif_peer_fd_close(const struct uro_memif_peer_fd *peer_fd, int fd)
{
    if (fcntl(fd, F_GET_SEALS) >= 0 || uro_memif_peer_fd_is_eventfd(peer_fd, fd))
        (void)close(fd);
    else
        (void)!close_by_thread(fd);
}

bool uro_memif_peer_fd_may_take(void)
{
    return atomic_load(&closers) < CLOSERS_MAX;
}
