/* SPDX-License-Identifier: BSD-3-Clause */
/* words.h - the words of a link over UDP sockets:
 *
 *     udp[,gso=yes|no][,gro=yes|no][,ident=any|plain|full][,hub=auto|no][,busy-poll=US]
 *
 * and ip=, which the host takes.
 */
#pragma once

#include "io/udp/sock.h"

struct uro_udp_words {
    struct uro_sock_options sock;
    bool alone; /* hub=no */
};

/* Returns 0, or -1 with a sentence in @error. */
URO_NODISCARD int uro_udp_words(const char *link, struct uro_udp_words *words,
                                char error[static URO_PORT_ERROR_MAX]);
