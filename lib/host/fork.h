/* SPDX-License-Identifier: BSD-3-Clause */
/* fork.h - what a forked child may do with devices. */
#pragma once

struct uro_device;

/* Watches fork() for these devices (NULL-terminated, kept). Before any of them ran, a child starts
 * its own; afterwards the child's devices are dead: uro_host_forked(). */
void uro_fork_watch(struct uro_device *const *devices);
