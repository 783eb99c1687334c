/* SPDX-License-Identifier: BSD-3-Clause */
/* control.h - messages between the two sides of a memif, with a descriptor beside some of them. */
#pragma once

#include "io/memif/proto.h"

enum uro_memif_heard { URO_MEMIF_NOTHING, URO_MEMIF_HEARD, URO_MEMIF_GONE };

/* Sends @message, and @fd with it unless that is -1. False when the other side is gone. */
URO_NODISCARD bool uro_memif_say(int control, const struct uro_memif_message *message, int fd);

/* The next message; @fd, the caller's from now on, is -1 when none came with it. What is not a message counts as
 * the other side's end. */
URO_NODISCARD enum uro_memif_heard uro_memif_hear(int control, struct uro_memif_message *message,
                                                  int *fd);

/* Has @epoll wake for what there is to be read from @fd. False when it cannot, or @fd is none: then it is found when
 * the port is looked at next. */
bool uro_memif_watch(int epoll, int fd);

/* Whether a descriptor that came is of the kind of @another, an eventfd: not what we may have to wait for. */
URO_NODISCARD bool uro_memif_is_eventfd(int fd, int another);
/* Takes what an eventfd has counted; never waits, though the other side has it, too. */
bool uro_memif_empty(int eventfd);

/* Tells the other side why it ends here, if it can be told. */
void uro_memif_say_end(int control, const char *reason);
