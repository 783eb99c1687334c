/* SPDX-License-Identifier: BSD-3-Clause */
/* next_call.c - looks up the original functions of all replaced calls before main(). A look-up at
 * the first call would be unsafe, because the program may make this call in a signal handler, or
 * between fork and exec. */
#include "paths/next_call.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/defs.h"

#define NAME(name) #name,
static const char *const names[] = { URO_PATHS_CALLS(NAME) };
static _Atomic(void *) found[URO_ARRAY_LEN(names)];

void *uro_paths_next(enum uro_paths_call call)
{
    void *function = atomic_load_explicit(&found[call], memory_order_relaxed);

    if (function == NULL) {
        int before = errno;
        function = dlsym(RTLD_NEXT, names[call]);
        errno = before;
        URO_ASSERT(function != NULL);
        atomic_store_explicit(&found[call], function, memory_order_relaxed);
    }
    return function;
}

__attribute__((constructor)) static void find_all(void)
{
    for (size_t i = 0; i < URO_ARRAY_LEN(names); i++)
        atomic_store_explicit(&found[i], dlsym(RTLD_NEXT, names[i]), memory_order_relaxed);
}
