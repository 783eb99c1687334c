/* SPDX-License-Identifier: BSD-3-Clause */
/* trust.h - whether somebody else could put another file where a path leads. */
#pragma once

#include <stddef.h>

/* What is wrong with the directories above @path, in @room; NULL when each of them belongs to root
 * or to us and others cannot write to it, or only in the way of /tmp (sticky). */
const char *uro_trust_path(const char *path, char *room, size_t size);
