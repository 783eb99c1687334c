/* SPDX-License-Identifier: BSD-3-Clause */
/* wait_calls.h - waits of the program in which its thread runs the engine. */
#pragma once

/* Forgets what is known of a descriptor that is being closed, if it is an epoll instance. */
void uro_wait_forget(int epoll);
