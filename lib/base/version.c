/* SPDX-License-Identifier: BSD-3-Clause */
/* version.c - the ELF note. Each library that `uroce` loads into a program contains this file. */
#include "base/version.h"

#include "base/defs.h"

URO_NOTE static const struct uro_version_note note = {
    .owner_size = sizeof URO_VERSION_NOTE_OWNER,
    .version_size = URO_VERSION_NOTE_MAX,
    .type = URO_VERSION_NOTE_TYPE,
    .owner = URO_VERSION_NOTE_OWNER,
    .version = URO_VERSION,
};
