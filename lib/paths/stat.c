/* SPDX-License-Identifier: BSD-3-Clause */
/* stat.c - calls that ask what a name is. */
#include "paths/next.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "paths/map.h"

/* In no header any more: what stat was in programs built before glibc 2.33. */
int __xstat(int version, const char *name, struct stat *out);
int __xstat64(int version, const char *name, struct stat64 *out);
int __lxstat(int version, const char *name, struct stat *out);
int __lxstat64(int version, const char *name, struct stat64 *out);
int __fxstatat(int version, int at, const char *name, struct stat *out, int flags);
int __fxstatat64(int version, int at, const char *name, struct stat64 *out, int flags);

#define STAT(call, kind)                                                                           \
    URO_PATHS_EXPORT int call(const char *restrict name, struct kind *restrict out)                \
    {                                                                                              \
        struct uro_paths_room room;                                                                \
        URO_NEXT(call);                                                                            \
                                                                                                   \
        return next(uro_paths_map(name, &room), out);                                              \
    }
STAT(stat, stat)
STAT(stat64, stat64)
STAT(lstat, stat)
STAT(lstat64, stat64)

#define STAT_AT(call, kind)                                                                        \
    URO_PATHS_EXPORT int call(int at, const char *restrict name, struct kind *restrict out,        \
                              int flags)                                                           \
    {                                                                                              \
        struct uro_paths_room room;                                                                \
        URO_NEXT(call);                                                                            \
                                                                                                   \
        return next(at, uro_paths_map(name, &room), out, flags);                                   \
    }
STAT_AT(fstatat, stat)
STAT_AT(fstatat64, stat64)

URO_PATHS_EXPORT int statx(int at, const char *restrict name, int flags, unsigned int mask,
                           struct statx *restrict out)
{
    struct uro_paths_room room;
    URO_NEXT(statx);

    return next(at, uro_paths_map(name, &room), flags, mask, out);
}

#define OLD_STAT(call, kind)                                                                       \
    URO_PATHS_EXPORT int call(int version, const char *name, struct kind *out)                     \
    {                                                                                              \
        struct uro_paths_room room;                                                                \
        URO_NEXT(call);                                                                            \
                                                                                                   \
        return next(version, uro_paths_map(name, &room), out);                                     \
    }
OLD_STAT(__xstat, stat)
OLD_STAT(__xstat64, stat64)
OLD_STAT(__lxstat, stat)
OLD_STAT(__lxstat64, stat64)

#define OLD_STAT_AT(call, kind)                                                                    \
    URO_PATHS_EXPORT int call(int version, int at, const char *name, struct kind *out, int flags)  \
    {                                                                                              \
        struct uro_paths_room room;                                                                \
        URO_NEXT(call);                                                                            \
                                                                                                   \
        return next(version, at, uro_paths_map(name, &room), out, flags);                          \
    }
OLD_STAT_AT(__fxstatat, stat)
OLD_STAT_AT(__fxstatat64, stat64)
