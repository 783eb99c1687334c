/* SPDX-License-Identifier: BSD-3-Clause */
/* version.h - the ELF note with the version of a library. `uroce` compares it with its own version
 * before a program loads the library. */
#pragma once

#include <stdint.h>

#define URO_VERSION_NOTE_OWNER "uroce"
#define URO_VERSION_NOTE_TYPE  1u
#define URO_VERSION_NOTE_MAX   32u /* bytes of the version, with a 0 at its end */

struct uro_version_note {
    uint32_t owner_size, version_size, type;
    char owner[(sizeof URO_VERSION_NOTE_OWNER + 3) & ~3u];
    char version[URO_VERSION_NOTE_MAX];
};
