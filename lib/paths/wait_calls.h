/* SPDX-License-Identifier: BSD-3-Clause */
/* wait_calls.h - the replaced calls in which a waiting thread of the program runs the engine. */
#pragma once

/* Discards what this library stores about the epoll instance @epoll, which is being closed. Does
 * nothing for other kinds of descriptors. */
void uro_wait_forget(int epoll);
