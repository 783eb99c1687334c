/* SPDX-License-Identifier: BSD-3-Clause */
/* got.h - a loaded library's calls of other libraries, led elsewhere: the slots of its global
 * offset table that hold a function's address are overwritten.
 */
#pragma once

#include "base/defs.h"

/* One function, under the names that builds of the library may call it by. */
#define URO_GOT_NAMES 4u
struct uro_got_change {
    const char *names[URO_GOT_NAMES]; /* of equal signature; NULL: no more */
    void (*with)(void);               /* called instead */
};

/* The file name of the object that has the code at @inside, "" for the program, NULL for none. It
 * lives as long as the object. */
const char *uro_got_object(const void *inside);

/* Leads the calls of the object that has the code at @inside: all of the changes or none. Made twice
 * it changes nothing more. Returns 0 or
 *   -ENOENT  the object does not call one of the functions under any of its names
 *   -EACCES  its table cannot be written */
URO_NODISCARD int uro_got_change(const void *inside, const struct uro_got_change *changes,
                                 uint32_t count);
