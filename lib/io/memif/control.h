/* SPDX-License-Identifier: BSD-3-Clause */
/* control.h - messages between the two sides of a memif, with a descriptor beside some of them. */
#pragma once

#include "io/memif/peer_fd.h"
#include "io/memif/proto.h"

#define URO_MEMIF_ANY_USER UINT32_MAX

enum uro_memif_heard { URO_MEMIF_NOTHING, URO_MEMIF_HEARD, URO_MEMIF_GONE };

/* Sends @message, and @fd with it unless that is -1. False when the other side is gone. */
URO_NODISCARD bool uro_memif_say(int control, const struct uro_memif_message *message, int fd);

/* Whether the other side is a process of @user or of root; URO_MEMIF_ANY_USER: true. */
URO_NODISCARD bool uro_memif_is_from(int control, uint32_t user);

/* The next message. The kernel drops descriptors that came with it. What is not a message counts as
 * the other side's end. */
URO_NODISCARD enum uro_memif_heard uro_memif_hear(int control, struct uro_memif_message *message);
/* The same with a descriptor, which the caller owns: -1 when none came. */
URO_NODISCARD enum uro_memif_heard uro_memif_hear_with_fd(int control,
                                                          struct uro_memif_message *message,
                                                          const struct uro_memif_peer_fd *peer_fd,
                                                          int *fd);

/* Has @epoll wake for what there is to be read from @fd. False when it cannot, or @fd is none: then
 * it is found when the port is looked at next. */
bool uro_memif_watch(int epoll, int fd);

/* Has @epoll wake each time an eventfd is rung; nobody reads it. */
bool uro_memif_watch_doorbell(int epoll, int doorbell);
/* Whether it was rung since the last call; it wakes for the next time. Never waits. */
bool uro_memif_was_rung(int epoll, int doorbell);

/* Tells the other side why it ends here, if it can be told. */
void uro_memif_say_end(int control, const char *reason);
