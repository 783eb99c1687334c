/* SPDX-License-Identifier: BSD-3-Clause */
/* plt_hook.h - redirects the calls that a loaded library makes to other libraries. The slots of its
 * global offset table that hold the addresses of these functions are overwritten.
 */
#pragma once

#include "base/defs.h"

/* The redirection of one function. Builds of the library may call it by several names. */
#define URO_PLT_HOOK_NAMES 4u
struct uro_plt_hook {
    const char *names[URO_PLT_HOOK_NAMES]; /* functions with the same signature; NULL: end */
    void (*with)(void);                    /* function to call instead */
};

/* Returns the file name of the object that has the code at @inside, "" for the program, or NULL for
 * none. The name is valid as long as the object is loaded. */
const char *uro_plt_hook_object(const void *inside);

/* Redirects calls of the object that has the code at @inside. A second call changes nothing more.
 * Returns 0 or
 *   -ENOENT  the object does not call one of the functions under any of its names, or there is no
 *            object; nothing was redirected
 *   -EACCES  the table of the object cannot be written; nothing was redirected */
URO_NODISCARD int uro_plt_hook_install(const void *inside, const struct uro_plt_hook *hooks,
                                       uint32_t count);
