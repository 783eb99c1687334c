/* SPDX-License-Identifier: BSD-3-Clause */
/* chaos.h - `uroce run --chaos`: runs a command on networks and devices with faults. */
#pragma once

/* Runs @command without faults, and then once with each plan of faults of the first device in
 * UROCE_DEVICES. Prints a table. @timeout_s: time limit of each run, in seconds; 0: chosen after
 * the first run. Returns the exit status. */
int uro_chaos(char *const *command, unsigned timeout_s);
