/* SPDX-License-Identifier: BSD-3-Clause */
/* uncancelled.c - replaces the C library's system calls in our shared libraries by calls that are
 * not cancellation points.
 *
 * The libraries are linked with --wrap for each name of names.txt, so that their calls, and those
 * of the archives in them, come here. Frequent calls, for example those that send or receive
 * packets, go directly to the kernel, which is also faster in a process with threads. All other
 * calls run with cancellation turned off.
 *
 * readv() and ppoll() are not wrapped, because the waits that may be cancelled call them
 * (verbs/events.c, ucma/channel.c, host/service.c). tests/api/check_cancel.py checks that the
 * libraries call no other cancellation point.
 */
#define _GNU_SOURCE
#include <assert.h>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <net/if.h>

#include "cancel/cancel.h"

/* ---- straight to the kernel ----------------------------------------------------------------- */

#define STRAIGHT(type, name, parameters, ...)                                                      \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        return (type)syscall(__VA_ARGS__);                                                         \
    }

STRAIGHT(ssize_t, read, (int fd, void *to, size_t size), SYS_read, fd, to, size)
STRAIGHT(ssize_t, write, (int fd, const void *from, size_t size), SYS_write, fd, from, size)
STRAIGHT(ssize_t, recv, (int fd, void *to, size_t size, int flags), SYS_recvfrom, fd, to, size,
         flags, NULL, NULL)
STRAIGHT(ssize_t, recvmsg, (int fd, struct msghdr *to, int flags), SYS_recvmsg, fd, to, flags)
STRAIGHT(int, recvmmsg,
         (int fd, struct mmsghdr *to, unsigned count, int flags, struct timespec *wait),
         SYS_recvmmsg, fd, to, count, flags, wait)
STRAIGHT(ssize_t, send, (int fd, const void *from, size_t size, int flags), SYS_sendto, fd, from,
         size, flags, NULL, 0)
STRAIGHT(ssize_t, sendmsg, (int fd, const struct msghdr *from, int flags), SYS_sendmsg, fd, from,
         flags)
STRAIGHT(int, sendmmsg, (int fd, struct mmsghdr *from, unsigned count, int flags), SYS_sendmmsg, fd,
         from, count, flags)
STRAIGHT(int, close, (int fd), SYS_close, fd)
STRAIGHT(int, epoll_wait, (int fd, struct epoll_event *to, int max, int ms), SYS_epoll_pwait, fd,
         to, max, ms, NULL, 0L)

static_assert(sizeof(long) == sizeof(off64_t), "the kernel takes an offset as one argument");
STRAIGHT(ssize_t, preadv64v2,
         (int fd, const struct iovec *to, int count, off64_t offset, int flags), SYS_preadv2, fd,
         to, count, offset, 0L, flags)

int __wrap_poll(struct pollfd *fds, nfds_t count, int ms);

int __wrap_poll(struct pollfd *fds, nfds_t count, int ms)
{
    struct timespec left = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };

    return (int)syscall(SYS_ppoll, fds, count, ms < 0 ? NULL : &left, NULL, 0L);
}

/* ---- with cancellation turned off ----------------------------------------------------------- */

#define GUARDED(type, name, parameters, ...)                                                       \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        URO_UNCANCELLED;                                                                           \
        return __real_##name(__VA_ARGS__);                                                         \
    }

GUARDED(int, accept4, (int fd, struct sockaddr *from, socklen_t *size, int flags), fd, from, size,
        flags)
GUARDED(int, connect, (int fd, const struct sockaddr *to, socklen_t size), fd, to, size)
GUARDED(int, nanosleep, (const struct timespec *for_, struct timespec *left), for_, left)
GUARDED(ssize_t, getrandom, (void *to, size_t size, unsigned flags), to, size, flags)
GUARDED(int, getifaddrs, (struct ifaddrs * *all), all)
GUARDED(unsigned, if_nametoindex, (const char *name), name)
GUARDED(char *, if_indextoname, (unsigned index, char *name), index, name)
GUARDED(void *, dlopen, (const char *file, int flags), file, flags)
GUARDED(char *, realpath, (const char *path, char *to), path, to)
GUARDED(int, pthread_cond_wait, (pthread_cond_t * cond, pthread_mutex_t *mutex), cond, mutex)
GUARDED(int, pthread_cond_timedwait,
        (pthread_cond_t * cond, pthread_mutex_t *mutex, const struct timespec *until), cond, mutex,
        until)
GUARDED(int, pthread_cond_clockwait,
        (pthread_cond_t * cond, pthread_mutex_t *mutex, clockid_t clock,
         const struct timespec *until),
        cond, mutex, clock, until)
GUARDED(int, pthread_join, (pthread_t thread, void **result), thread, result)
GUARDED(int, pthread_timedjoin_np, (pthread_t thread, void **result, const struct timespec *until),
        thread, result, until)
GUARDED(FILE *, fopen64, (const char *path, const char *mode), path, mode)
GUARDED(DIR *, fdopendir, (int fd), fd)
GUARDED(int, posix_fallocate64, (int fd, off64_t from, off64_t size), fd, from, size)
GUARDED(ssize_t, pread64, (int fd, void *to, size_t size, off64_t from), fd, to, size, from)
GUARDED(int, fclose, (FILE * file), file)
GUARDED(int, fflush, (FILE * file), file)
GUARDED(char *, fgets, (char *to, int size, FILE *from), to, size, from)
GUARDED(int, fgetc, (FILE * from), from)
GUARDED(ssize_t, getline, (char **line, size_t *size, FILE *from), line, size, from)
GUARDED(ssize_t, __getdelim, (char **line, size_t *size, int end, FILE *from), line, size, end,
        from)
GUARDED(size_t, fwrite, (const void *from, size_t size, size_t count, FILE *to), from, size, count,
        to)
GUARDED(int, vfprintf, (FILE * to, const char *format, va_list more), to, format, more)
GUARDED(int, fputs, (const char *text, FILE *to), text, to)
GUARDED(int, fputc, (int octet, FILE *to), octet, to)
GUARDED(int, puts, (const char *text), text)

/* ---- variadic functions --------------------------------------------------------------------- */

/* Returns whether open() has a mode argument. O_TMPFILE contains the bit of O_DIRECTORY. */
#define HAS_MODE(flags) (((flags)&O_CREAT) != 0 || ((flags)&O_TMPFILE) == O_TMPFILE)

int __wrap_open64(const char *path, int flags, ...);
int __real_open64(const char *path, int flags, ...);

int __wrap_open64(const char *path, int flags, ...)
{
    URO_UNCANCELLED;
    va_list more;

    va_start(more, flags);
    int fd = __real_open64(path, flags, HAS_MODE(flags) ? va_arg(more, mode_t) : 0);
    va_end(more);
    return fd;
}

int __wrap_openat64(int directory, const char *path, int flags, ...);
int __real_openat64(int directory, const char *path, int flags, ...);

int __wrap_openat64(int directory, const char *path, int flags, ...)
{
    URO_UNCANCELLED;
    va_list more;

    va_start(more, flags);
    int fd = __real_openat64(directory, path, flags, HAS_MODE(flags) ? va_arg(more, mode_t) : 0);
    va_end(more);
    return fd;
}

int __wrap_fcntl64(int fd, int command, ...);
int __real_fcntl64(int fd, int command, ...);

/* Every argument of fcntl() fits into a pointer. */
int __wrap_fcntl64(int fd, int command, ...)
{
    URO_UNCANCELLED;
    va_list more;

    va_start(more, command);
    int result = __real_fcntl64(fd, command, va_arg(more, void *));
    va_end(more);
    return result;
}

int __wrap_fprintf(FILE *to, const char *format, ...) URO_PRINTF(2);

int __wrap_fprintf(FILE *to, const char *format, ...)
{
    va_list more;

    va_start(more, format);
    int length = __wrap_vfprintf(to, format, more);
    va_end(more);
    return length;
}

/* ---- the functions of _FORTIFY_SOURCE ------------------------------------------------------- */

#define FORTIFIED(type, name, parameters, fits, call)                                              \
    type __wrap___##name##_chk parameters;                                                         \
    type __wrap___##name##_chk parameters                                                          \
    {                                                                                              \
        if (!(fits))                                                                               \
            abort();                                                                               \
        return call;                                                                               \
    }

FORTIFIED(ssize_t, read, (int fd, void *to, size_t size, size_t limit), size <= limit,
          __wrap_read(fd, to, size))
FORTIFIED(ssize_t, recv, (int fd, void *to, size_t size, size_t limit, int flags), size <= limit,
          __wrap_recv(fd, to, size, flags))
FORTIFIED(int, poll, (struct pollfd * fds, nfds_t count, int ms, size_t limit),
          count <= limit / sizeof *fds, __wrap_poll(fds, count, ms))
FORTIFIED(char *, fgets, (char *to, size_t limit, int size, FILE *from), (size_t)size <= limit,
          __wrap_fgets(to, size, from))
FORTIFIED(char *, realpath, (const char *path, char *to, size_t limit),
          to == NULL || limit >= PATH_MAX, __wrap_realpath(path, to))

int __wrap___fprintf_chk(FILE *to, int level, const char *format, ...) URO_PRINTF(3);

int __wrap___fprintf_chk(FILE *to, int level, const char *format, ...)
{
    va_list more;

    (void)level;
    va_start(more, format);
    int length = __wrap_vfprintf(to, format, more);
    va_end(more);
    return length;
}
