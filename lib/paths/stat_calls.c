/* SPDX-License-Identifier: BSD-3-Clause */
/* stat_calls.c - calls that read the status of a file. */
#include "paths/next_call.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "paths/path_map.h"

/* The stat functions of programs built before glibc 2.33. No header declares them any more. */
int __xstat(int version, const char *name, struct stat *out);
int __xstat64(int version, const char *name, struct stat64 *out);
int __lxstat(int version, const char *name, struct stat *out);
int __lxstat64(int version, const char *name, struct stat64 *out);
int __fxstatat(int version, int dir_fd, const char *name, struct stat *out, int flags);
int __fxstatat64(int version, int dir_fd, const char *name, struct stat64 *out, int flags);

#define STAT(call, kind)                                                                           \
    URO_PATHS_EXPORT int call(const char *restrict name, struct kind *restrict out)                \
    {                                                                                              \
        struct uro_paths_buffer buffer;                                                            \
        URO_NEXT(call);                                                                            \
                                                                                                   \
        return next(uro_paths_map(name, &buffer), out);                                            \
    }
STAT(stat, stat)
STAT(stat64, stat64)
STAT(lstat, stat)
STAT(lstat64, stat64)

#define STAT_AT(call, kind)                                                                        \
    URO_PATHS_EXPORT int call(int dir_fd, const char *restrict name, struct kind *restrict out,    \
                              int flags)                                                           \
    {                                                                                              \
        struct uro_paths_buffer buffer;                                                            \
        URO_NEXT(call);                                                                            \
                                                                                                   \
        return next(dir_fd, uro_paths_map(name, &buffer), out, flags);                             \
    }
STAT_AT(fstatat, stat)
STAT_AT(fstatat64, stat64)

URO_PATHS_EXPORT int statx(int dir_fd, const char *restrict name, int flags, unsigned int mask,
                           struct statx *restrict out)
{
    struct uro_paths_buffer buffer;
    URO_NEXT(statx);

    return next(dir_fd, uro_paths_map(name, &buffer), flags, mask, out);
}

#define OLD_STAT(call, kind)                                                                       \
    URO_PATHS_EXPORT int call(int version, const char *name, struct kind *out)                     \
    {                                                                                              \
        struct uro_paths_buffer buffer;                                                            \
        URO_NEXT(call);                                                                            \
                                                                                                   \
        return next(version, uro_paths_map(name, &buffer), out);                                   \
    }
OLD_STAT(__xstat, stat)
OLD_STAT(__xstat64, stat64)
OLD_STAT(__lxstat, stat)
OLD_STAT(__lxstat64, stat64)

#define OLD_STAT_AT(call, kind)                                                                    \
    URO_PATHS_EXPORT int call(int version, int dir_fd, const char *name, struct kind *out,         \
                              int flags)                                                           \
    {                                                                                              \
        struct uro_paths_buffer buffer;                                                            \
        URO_NEXT(call);                                                                            \
                                                                                                   \
        return next(version, dir_fd, uro_paths_map(name, &buffer), out, flags);                    \
    }
OLD_STAT_AT(__fxstatat, stat)
OLD_STAT_AT(__fxstatat64, stat64)
