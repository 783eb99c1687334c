/* SPDX-License-Identifier: BSD-3-Clause */
/* name.c - calls that ask whether a name may be used, what it stands for and what hangs on it. */
#include "paths/next.h"

#include <stdlib.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "paths/map.h"

/* Not in any header: what these become in a program built with _FORTIFY_SOURCE. */
ssize_t __readlink_chk(const char *name, char *out, size_t size, size_t limit);
ssize_t __readlinkat_chk(int at, const char *name, char *out, size_t size, size_t limit);
char *__realpath_chk(const char *name, char *out, size_t size);

#define ACCESS(call)                                                                               \
    URO_PATHS_EXPORT int call(const char *name, int rights)                                        \
    {                                                                                              \
        struct uro_paths_room room;                                                                \
        URO_NEXT(call);                                                                            \
                                                                                                   \
        return next(uro_paths_map(name, &room), rights);                                           \
    }
ACCESS(access)
ACCESS(euidaccess)
ACCESS(eaccess)

URO_PATHS_EXPORT int faccessat(int at, const char *name, int rights, int flags)
{
    struct uro_paths_room room;
    URO_NEXT(faccessat);

    return next(at, uro_paths_map(name, &room), rights, flags);
}

URO_PATHS_EXPORT ssize_t readlink(const char *restrict name, char *restrict out, size_t size)
{
    struct uro_paths_room room;
    URO_NEXT(readlink);

    return next(uro_paths_map(name, &room), out, size);
}

URO_PATHS_EXPORT ssize_t readlinkat(int at, const char *restrict name, char *restrict out,
                                    size_t size)
{
    struct uro_paths_room room;
    URO_NEXT(readlinkat);

    return next(at, uro_paths_map(name, &room), out, size);
}

URO_PATHS_EXPORT ssize_t __readlink_chk(const char *name, char *out, size_t size, size_t limit)
{
    struct uro_paths_room room;
    URO_NEXT(__readlink_chk);

    return next(uro_paths_map(name, &room), out, size, limit);
}

URO_PATHS_EXPORT ssize_t __readlinkat_chk(int at, const char *name, char *out, size_t size,
                                          size_t limit)
{
    struct uro_paths_room room;
    URO_NEXT(__readlinkat_chk);

    return next(at, uro_paths_map(name, &room), out, size, limit);
}

URO_PATHS_EXPORT char *realpath(const char *restrict name, char *restrict out)
{
    struct uro_paths_room room;
    URO_NEXT(realpath);

    return next(uro_paths_map(name, &room), out);
}

URO_PATHS_EXPORT char *__realpath_chk(const char *name, char *out, size_t size)
{
    struct uro_paths_room room;
    URO_NEXT(__realpath_chk);

    return next(uro_paths_map(name, &room), out, size);
}

URO_PATHS_EXPORT char *canonicalize_file_name(const char *name)
{
    struct uro_paths_room room;
    URO_NEXT(canonicalize_file_name);

    return next(uro_paths_map(name, &room));
}

/* For shells: what is read by a name without a slash then comes from the tree. */
URO_PATHS_EXPORT int chdir(const char *name)
{
    struct uro_paths_room room;
    URO_NEXT(chdir);

    return next(uro_paths_map(name, &room));
}

#define ATTRIBUTE(call)                                                                            \
    URO_PATHS_EXPORT ssize_t call(const char *name, const char *attribute, void *out, size_t size) \
    {                                                                                              \
        struct uro_paths_room room;                                                                \
        URO_NEXT(call);                                                                            \
                                                                                                   \
        return next(uro_paths_map(name, &room), attribute, out, size);                             \
    }
ATTRIBUTE(getxattr)
ATTRIBUTE(lgetxattr)
