/* SPDX-License-Identifier: BSD-3-Clause */
/* source_tap.h - makes DPDK's tap driver read without signals.
 *
 * That driver asks the kernel for a real-time signal with every frame, and reads its descriptor
 * only after its handler has run since the last read that found nothing. In a program that is not
 * its own this goes wrong in three ways: a thread that blocks the signal, or a program that takes
 * all signals with sigwait(), and reception stops; more frames than the signal queue holds, and
 * the kernel sends SIGIO instead, which ends the process; and every frame interrupts some system
 * call of the program. So the signal is turned off again right after the start, its action is
 * given back, and the handler is called as the plain function it is, before each read.
 */
#pragma once

/* @fd: the descriptor the driver reads. Returns the handler, or NULL when it set none. */
void (*uro_source_tap_calm(int fd))(int);
