/* SPDX-License-Identifier: BSD-3-Clause */
/* next.h - the calls we stand in front of, and how to reach the ones behind us.
 *
 * To cover one more: a line in URO_PATHS_CALLS, a function in open.c, stat.c or name.c, a case in
 * tests/api/test_paths.c. Calls that the C library makes of itself do not come by here: each of its
 * functions that takes a name needs its own line.
 */
#pragma once

/* As the names are, whatever the compiler was told: these headers would make `open` mean `open64`,
 * or make it inline. First in each file that defines calls. */
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
    X(lgetxattr)

#define URO_PATHS_INDEX(name) uro_paths_##name,
enum uro_paths_call { URO_PATHS_CALLS(URO_PATHS_INDEX) };

/* The function of that name in the libraries after this one: the C library's, or that of another
 * preloaded library. Found before main(), or at the first call when that is earlier. */
void *uro_paths_next(enum uro_paths_call call);

/* URO_NEXT(open); declares `next`, to be called as open. A void * is no function pointer in ISO C,
 * hence the copy. */
#define URO_NEXT(name)                                                                             \
    __typeof__(&name) next;                                                                        \
    void *found_##name = uro_paths_next(uro_paths_##name);                                         \
    memcpy(&next, &found_##name, sizeof next)

#define URO_PATHS_EXPORT __attribute__((visibility("default")))
