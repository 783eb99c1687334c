/* SPDX-License-Identifier: BSD-3-Clause */
/* next_call.h - the C library calls that this library replaces, and how to call the original
 * ones.
 *
 * To replace one more call: add a line to URO_PATHS_CALLS, a function in a file such as
 * open_calls.c, and a case in tests/api/test_paths.c. Calls inside the C library do not reach these
 * functions, so each function of the C library that takes a path needs its own line.
 */
#pragma once

/* Undoes compiler options with which the headers below replace `open` by `open64`, or inline it.
 * Include this header first in each file that defines calls. */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <string.h>

#define URO_PATHS_CALLS(X)                                                                         \
    X(open)                                                                                        \
    X(open64)                                                                                      \
    X(openat)                                                                                      \
    X(openat64)                                                                                    \
    X(__open_2)                                                                                    \
    X(__open64_2)                                                                                  \
    X(__openat_2)                                                                                  \
    X(__openat64_2)                                                                                \
    X(fopen)                                                                                       \
    X(fopen64)                                                                                     \
    X(opendir)                                                                                     \
    X(scandir)                                                                                     \
    X(scandir64)                                                                                   \
    X(stat)                                                                                        \
    X(stat64)                                                                                      \
    X(lstat)                                                                                       \
    X(lstat64)                                                                                     \
    X(fstatat)                                                                                     \
    X(fstatat64)                                                                                   \
    X(statx)                                                                                       \
    X(__xstat)                                                                                     \
    X(__xstat64)                                                                                   \
    X(__lxstat)                                                                                    \
    X(__lxstat64)                                                                                  \
    X(__fxstatat)                                                                                  \
    X(__fxstatat64)                                                                                \
    X(access)                                                                                      \
    X(faccessat)                                                                                   \
    X(euidaccess)                                                                                  \
    X(eaccess)                                                                                     \
    X(readlink)                                                                                    \
    X(readlinkat)                                                                                  \
    X(__readlink_chk)                                                                              \
    X(__readlinkat_chk)                                                                            \
    X(realpath)                                                                                    \
    X(__realpath_chk)                                                                              \
    X(canonicalize_file_name)                                                                      \
    X(chdir)                                                                                       \
    X(getxattr)                                                                                    \
    X(lgetxattr)                                                                                   \
    X(socket)                                                                                      \
    X(bind)                                                                                        \
    X(connect)                                                                                     \
    X(getsockname)                                                                                 \
    X(setsockopt)                                                                                  \
    X(send)                                                                                        \
    X(sendto)                                                                                      \
    X(sendmsg)                                                                                     \
    X(write)                                                                                       \
    X(recv)                                                                                        \
    X(recvfrom)                                                                                    \
    X(recvmsg)                                                                                     \
    X(read)                                                                                        \
    X(__recv_chk)                                                                                  \
    X(__recvfrom_chk)                                                                              \
    X(__read_chk)                                                                                  \
    X(close)                                                                                       \
    X(dup)                                                                                         \
    X(dup2)                                                                                        \
    X(dup3)                                                                                        \
    X(fcntl)                                                                                       \
    X(fcntl64)                                                                                     \
    X(epoll_ctl)                                                                                   \
    X(epoll_wait)                                                                                  \
    X(epoll_pwait)                                                                                 \
    X(poll)                                                                                        \
    X(__poll_chk)

#define URO_PATHS_INDEX(name) uro_paths_##name,
enum uro_paths_call { URO_PATHS_CALLS(URO_PATHS_INDEX) };

/* Returns the function of that name in the libraries after this one: the function of the C library,
 * or of another preloaded library. It is looked up before main(), or at an earlier first call. */
void *uro_paths_next(enum uro_paths_call call);

/* URO_NEXT(open); declares `next`, which is called like open(). ISO C has no cast from void * to a
 * function pointer, so memcpy() copies it. */
#define URO_NEXT(name) URO_NEXT_AS(name, next)
#define URO_NEXT_AS(name, next)                                                                    \
    __typeof__(&name) next;                                                                        \
    void *found_##name = uro_paths_next(uro_paths_##name);                                         \
    memcpy(&next, &found_##name, sizeof next)

#define URO_PATHS_EXPORT __attribute__((visibility("default")))
