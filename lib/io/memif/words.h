/* SPDX-License-Identifier: BSD-3-Clause */
/* words.h - what a user writes for a memif: the words of DPDK's driver. */
#pragma once

#include "engine/port.h"
#include "io/memif/proto.h"

#define URO_MEMIF_ANY_USER UINT32_MAX
#define URO_MEMIF_PATH_MAX 108u /* of a UNIX socket */

struct uro_memif_words {
    bool server;
    bool abstract;       /* the socket has a name, but none in the file system */
    uint32_t id;         /* of the interface among those at one socket */
    uint32_t buffer;     /* octets of each */
    uint32_t slots_log2; /* of each ring */
    uint32_t user;       /* of the other side, besides root; URO_MEMIF_ANY_USER */
    bool has_user;       /* the link names it */
    bool has_mac;
    struct uro_mac mac;
    char path[URO_MEMIF_PATH_MAX];
    char secret[URO_MEMIF_SECRET];
};

/* Frames have at most @frame_max octets. Returns 0 or -1 with a sentence in @error. */
URO_NODISCARD int uro_memif_words(const char *link, uint32_t frame_max,
                                  struct uro_memif_words *words,
                                  char error[static URO_PORT_ERROR_MAX]);
