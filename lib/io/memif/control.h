/* SPDX-License-Identifier: BSD-3-Clause */
/* control.h - messages between the two sides of a memif, some of them with a file descriptor. */
#pragma once

#include "io/memif/peer_fd.h"
#include "io/memif/proto.h"

#define URO_MEMIF_ANY_USER UINT32_MAX

enum uro_memif_read_result { URO_MEMIF_NOTHING, URO_MEMIF_READ, URO_MEMIF_GONE };

/* Sends @message, with @fd unless @fd is -1. Returns false when the other side has disconnected or
 * does not read its messages. */
URO_NODISCARD bool uro_memif_send_message(int control, const struct uro_memif_message *message,
                                          int fd);

/* Returns whether the other side is a process of @user or of root. Always true for
 * URO_MEMIF_ANY_USER. */
URO_NODISCARD bool uro_memif_is_from(int control, uint32_t user);

/* Receives the next message. The kernel drops descriptors that came with it. A record of another
 * length counts as a disconnection. */
URO_NODISCARD enum uro_memif_read_result uro_memif_read_message(int control,
                                                                struct uro_memif_message *message);
/* Receives the next message and its descriptor, which the caller owns; -1: no descriptor came. */
URO_NODISCARD enum uro_memif_read_result uro_memif_read_message_fd(
    int control, struct uro_memif_message *message, const struct uro_memif_peer_fd *peer_fd,
    int *fd);

/* Adds @fd to @epoll, to wake when it is readable. Returns false on failure or when @fd is -1. Then
 * only the next poll of the port notices that the descriptor is readable. */
bool uro_memif_watch(int epoll, int fd);

/* Adds an eventfd to @epoll, to wake each time it is signalled (edge-triggered). No thread reads
 * the eventfd. */
bool uro_memif_watch_doorbell(int epoll, int doorbell);
/* Returns whether the doorbell was signalled since the last call, and re-arms it. Never waits. */
bool uro_memif_was_rung(int epoll, int doorbell);

/* Sends the other side the reason for the disconnection, if possible. */
void uro_memif_send_disconnect(int control, const char *reason);
