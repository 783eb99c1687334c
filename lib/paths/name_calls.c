/* SPDX-License-Identifier: BSD-3-Clause */
/* name_calls.c - calls that check access to a path, resolve it, enter it, or read its
 * attributes. */
#include "paths/next_call.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "paths/refresh.h"

/* The functions that programs built with _FORTIFY_SOURCE call instead. No header declares them. */
ssize_t __readlink_chk(const char *name, char *out, size_t size, size_t limit);
ssize_t __readlinkat_chk(int dir_fd, const char *name, char *out, size_t size, size_t limit);
char *__realpath_chk(const char *name, char *out, size_t size);

#define ACCESS(call)                                                                               \
    URO_PATHS_EXPORT int call(const char *name, int rights)                                        \
    {                                                                                              \
        struct uro_paths_buffer buffer;                                                            \
        URO_NEXT(call);                                                                            \
                                                                                                   \
        return next(uro_paths_map(name, &buffer), rights);                                         \
    }
ACCESS(access)
ACCESS(euidaccess)
ACCESS(eaccess)

URO_PATHS_EXPORT int faccessat(int dir_fd, const char *name, int rights, int flags)
{
    struct uro_paths_buffer buffer;
    URO_NEXT(faccessat);

    return next(dir_fd, uro_paths_map(name, &buffer), rights, flags);
}

URO_PATHS_EXPORT ssize_t readlink(const char *restrict name, char *restrict out, size_t size)
{
    struct uro_paths_buffer buffer;
    URO_NEXT(readlink);

    return next(uro_paths_map(name, &buffer), out, size);
}

URO_PATHS_EXPORT ssize_t readlinkat(int dir_fd, const char *restrict name, char *restrict out,
                                    size_t size)
{
    struct uro_paths_buffer buffer;
    URO_NEXT(readlinkat);

    return next(dir_fd, uro_paths_map(name, &buffer), out, size);
}

URO_PATHS_EXPORT ssize_t __readlink_chk(const char *name, char *out, size_t size, size_t limit)
{
    struct uro_paths_buffer buffer;
    URO_NEXT(__readlink_chk);

    return next(uro_paths_map(name, &buffer), out, size, limit);
}

URO_PATHS_EXPORT ssize_t __readlinkat_chk(int dir_fd, const char *name, char *out, size_t size,
                                          size_t limit)
{
    struct uro_paths_buffer buffer;
    URO_NEXT(__readlinkat_chk);

    return next(dir_fd, uro_paths_map(name, &buffer), out, size, limit);
}

URO_PATHS_EXPORT char *realpath(const char *restrict name, char *restrict out)
{
    struct uro_paths_buffer buffer;
    URO_NEXT(realpath);

    return next(uro_paths_map(name, &buffer), out);
}

URO_PATHS_EXPORT char *__realpath_chk(const char *name, char *out, size_t size)
{
    struct uro_paths_buffer buffer;
    URO_NEXT(__realpath_chk);

    return next(uro_paths_map(name, &buffer), out, size);
}

URO_PATHS_EXPORT char *canonicalize_file_name(const char *name)
{
    struct uro_paths_buffer buffer;
    URO_NEXT(canonicalize_file_name);

    return next(uro_paths_map(name, &buffer));
}

/* Without this function, relative names in shells would not refer to the tree. */
URO_PATHS_EXPORT int chdir(const char *name)
{
    struct uro_paths_buffer buffer;
    URO_NEXT(chdir);

    return next(uro_paths_map_open(AT_FDCWD, name, &buffer));
}

#define ATTRIBUTE(call)                                                                            \
    URO_PATHS_EXPORT ssize_t call(const char *name, const char *attribute, void *out, size_t size) \
    {                                                                                              \
        struct uro_paths_buffer buffer;                                                            \
        URO_NEXT(call);                                                                            \
                                                                                                   \
        return next(uro_paths_map(name, &buffer), attribute, out, size);                           \
    }
ATTRIBUTE(getxattr)
ATTRIBUTE(lgetxattr)
