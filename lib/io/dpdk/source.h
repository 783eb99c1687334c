/* SPDX-License-Identifier: BSD-3-Clause */
/* source.h - the descriptor from which DPDK's driver reads the frames of a kernel interface
 * (af_xdp, tap). */
#pragma once

#include "base/defs.h"

struct uro_source {
    int fd;               /* the driver's descriptor, or -1 */
    void (*trigger)(int); /* net_tap: see source_tap.h */
};

#define URO_SOURCE_INIT                                                                            \
    (struct uro_source)                                                                            \
    {                                                                                              \
        .fd = -1                                                                                   \
    }

/* Descriptors of this process that DPDK may have opened for the interface. */
#define URO_SOURCE_FDS_MAX 32u
struct uro_source_fds {
    uint32_t count;
    int list[URO_SOURCE_FDS_MAX];
};
void uro_source_fds(struct uro_source_fds *fds, const char *name);

/* Finds the descriptor that is new since @before. Turns off the signals of a tap. */
void uro_source_find(struct uro_source *source, const char *name,
                     const struct uro_source_fds *before);
