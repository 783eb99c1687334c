/* SPDX-License-Identifier: BSD-3-Clause */
/* wait_hook.h - the descriptors of this library that programs wait for with poll() or epoll. With
 * liburoce-paths.so, the thread that waits runs the engine (base/wait_hook.h).
 */
#pragma once

#include <stdbool.h>

/* Adds or removes a descriptor. Thread: any. */
void uro_wait_hook_add(int fd);
void uro_wait_hook_remove(int fd);

/* Returns whether liburoce-paths.so has the hooks. The first uro_wait_hook_add() installs them if
 * that library is loaded. */
bool uro_wait_hook_installed(void);
