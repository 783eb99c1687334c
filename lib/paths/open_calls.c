/* SPDX-License-Identifier: BSD-3-Clause */
/* open_calls.c - calls that open a file or a directory by its name. */
#include "paths/next_call.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>

#include "paths/refresh.h"
#include "paths/umad_message.h"

/* These functions are in no header. A program built with _FORTIFY_SOURCE calls them instead of
 * open() and openat(). */
int __open_2(const char *name, int flags);
int __open64_2(const char *name, int flags);
int __openat_2(int dir_fd, const char *name, int flags);
int __openat64_2(int dir_fd, const char *name, int flags);

/* Declares @mode, and reads it from the last argument of open(). This argument exists only when the
 * flags may create a file. */
#define TAKE_MODE(mode, flags)                                                                     \
    mode_t mode = 0;                                                                               \
    if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE) {                              \
        va_list arguments;                                                                         \
        va_start(arguments, flags);                                                                \
        mode = va_arg(arguments, mode_t);                                                          \
        va_end(arguments);                                                                         \
    }

URO_PATHS_EXPORT int open(const char *name, int flags, ...)
{
    struct uro_paths_buffer buffer;
    TAKE_MODE(mode, flags)
    URO_NEXT(open);

    return uro_paths_umad_message(name,
                                  next(uro_paths_map_open(AT_FDCWD, name, &buffer), flags, mode));
}

URO_PATHS_EXPORT int open64(const char *name, int flags, ...)
{
    struct uro_paths_buffer buffer;
    TAKE_MODE(mode, flags)
    URO_NEXT(open64);

    return uro_paths_umad_message(name,
                                  next(uro_paths_map_open(AT_FDCWD, name, &buffer), flags, mode));
}

URO_PATHS_EXPORT int openat(int dir_fd, const char *name, int flags, ...)
{
    struct uro_paths_buffer buffer;
    TAKE_MODE(mode, flags)
    URO_NEXT(openat);

    return next(dir_fd, uro_paths_map_open(dir_fd, name, &buffer), flags, mode);
}

URO_PATHS_EXPORT int openat64(int dir_fd, const char *name, int flags, ...)
{
    struct uro_paths_buffer buffer;
    TAKE_MODE(mode, flags)
    URO_NEXT(openat64);

    return next(dir_fd, uro_paths_map_open(dir_fd, name, &buffer), flags, mode);
}

URO_PATHS_EXPORT int __open_2(const char *name, int flags)
{
    struct uro_paths_buffer buffer;
    URO_NEXT(__open_2);

    return uro_paths_umad_message(name, next(uro_paths_map_open(AT_FDCWD, name, &buffer), flags));
}

URO_PATHS_EXPORT int __open64_2(const char *name, int flags)
{
    struct uro_paths_buffer buffer;
    URO_NEXT(__open64_2);

    return uro_paths_umad_message(name, next(uro_paths_map_open(AT_FDCWD, name, &buffer), flags));
}

URO_PATHS_EXPORT int __openat_2(int dir_fd, const char *name, int flags)
{
    struct uro_paths_buffer buffer;
    URO_NEXT(__openat_2);

    return next(dir_fd, uro_paths_map_open(dir_fd, name, &buffer), flags);
}

URO_PATHS_EXPORT int __openat64_2(int dir_fd, const char *name, int flags)
{
    struct uro_paths_buffer buffer;
    URO_NEXT(__openat64_2);

    return next(dir_fd, uro_paths_map_open(dir_fd, name, &buffer), flags);
}

URO_PATHS_EXPORT FILE *fopen(const char *name, const char *modes)
{
    struct uro_paths_buffer buffer;
    URO_NEXT(fopen);

    return next(uro_paths_map_open(AT_FDCWD, name, &buffer), modes);
}

URO_PATHS_EXPORT FILE *fopen64(const char *name, const char *modes)
{
    struct uro_paths_buffer buffer;
    URO_NEXT(fopen64);

    return next(uro_paths_map_open(AT_FDCWD, name, &buffer), modes);
}

URO_PATHS_EXPORT DIR *opendir(const char *name)
{
    struct uro_paths_buffer buffer;
    URO_NEXT(opendir);

    return next(uro_paths_map_open(AT_FDCWD, name, &buffer));
}

URO_PATHS_EXPORT int scandir(const char *name, struct dirent ***list,
                             int (*select)(const struct dirent *entry),
                             int (*compare)(const struct dirent **a, const struct dirent **b))
{
    struct uro_paths_buffer buffer;
    URO_NEXT(scandir);

    return next(uro_paths_map_open(AT_FDCWD, name, &buffer), list, select, compare);
}

URO_PATHS_EXPORT int scandir64(const char *name, struct dirent64 ***list,
                               int (*select)(const struct dirent64 *entry),
                               int (*compare)(const struct dirent64 **a, const struct dirent64 **b))
{
    struct uro_paths_buffer buffer;
    URO_NEXT(scandir64);

    return next(uro_paths_map_open(AT_FDCWD, name, &buffer), list, select, compare);
}
