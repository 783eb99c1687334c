/* SPDX-License-Identifier: BSD-3-Clause */
/* source_tap.h - makes DPDK's tap driver read without signals.
 *
 * That driver requests a real-time signal from the kernel for every frame. It reads its descriptor
 * only if its signal handler has run since the last read that found nothing. In a verbs program
 * this fails in three ways. If a thread blocks the signal, or the program takes all signals with
 * sigwait(), reception stops. If more frames arrive than the signal queue holds, the kernel sends
 * SIGIO instead, which ends the process. And every frame interrupts some system call of the
 * program. So the signal is turned off right after the start, and its action is reset. The handler
 * is called as a plain function before each read.
 */
#pragma once

/* Turns off the signal of @fd, the driver's descriptor. Returns the driver's handler, or NULL when
 * it has none. */
void (*uro_source_tap_calm(int fd))(int);
